"""Kernels that are forked from one parent: each a fresh process, and none left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import nbformat
import psutil
import pytest

from pairlab import Spec
from pairlab.batch import kernels
from pairlab.batch.execute import execute
from pairlab.errors import MeasurementFailed
from tests.conftest import mostly_whole, need


@pytest.fixture
def output_of(tmp_path):
    """Executes a notebook of these cells; returns what the last of them printed."""

    def output_of(*cells, imports=(), **parameters):
        place, executed = tmp_path / "small.ipynb", tmp_path / "out.ipynb"
        tagged = nbformat.v4.new_code_cell("value = 0", metadata={"tags": ["parameters"]})
        book = nbformat.v4.new_notebook(cells=[tagged, *map(nbformat.v4.new_code_cell, cells)])
        book.metadata["language_info"] = {"name": "python"}
        nbformat.write(book, place)
        execute(place, executed, parameters, imports=imports)
        return "".join(out.text for out in nbformat.read(executed, 4).cells[-1].outputs).strip()

    return output_of


def test_each_kernel_is_a_fresh_process_of_one_parent(output_of):
    told = "import os, sys; seen = sys.modules.setdefault('seen', value); print(os.getpid(), os.getppid(), seen)"
    with kernels.kept():
        found = [output_of(told, value=number).split() for number in (1, 2)]
    assert len({pid for pid, _, _ in found}) == 2
    assert len({parent for _, parent, _ in found}) == 1
    assert [seen for _, _, seen in found] == ["1", "2"]
    assert not any(psutil.pid_exists(int(pid)) for pids in found for pid in pids[:2])


@pytest.mark.parametrize("words", mostly_whole(["-m ipykernel", "kernel.py", "run -n other python"], but=["kernel.py"]))
def test_the_kernel_is_this_interpreter_whatever_kernelspec_has_its_name(words, output_of, tmp_path, monkeypatch):
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(
        json.dumps({"argv": ["/usr/bin/other", *words.split(), "-f", "{connection_file}"], "display_name": "Other"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", "of-a-cluster")
    assert output_of("import sys; print(sys.executable)") == sys.executable
    offered = kernels.KernelSpecs().get_all_specs()["python3"]["spec"]
    assert (offered["argv"][0], offered["display_name"]) == (sys.executable, "pairlab")


def test_what_a_notebook_imports_is_imported_once_and_in_one_thread(output_of):
    told = "import os, pandas, wave; print(os.getppid())"
    with kernels.kept():
        parent = int(output_of(told))
        assert len(os.listdir(f"/proc/{parent}/task")) == 1
        assert "wave" in output_of("import sys; print([name for name in ('wave', 'sndhdr') if name in sys.modules])")


@pytest.mark.whole
def test_a_kernel_has_its_parents_answer_on_which_links_this_host_has(output_of):
    need("netns")
    told = "from pairlab.testbed.netns import sandbox; print(sandbox._probed.cache_info().currsize)"
    with kernels.kept():
        assert output_of(told, imports=kernels.probing(Spec(backend="netns", driver="bridge"))) == "1"
        assert output_of(told) == "1"


@pytest.mark.whole
def test_a_kernel_has_the_environment_and_the_randomness_of_its_own(output_of, monkeypatch):
    told = "import os, random, numpy; print(os.environ['COLOUR'], random.random(), numpy.random.random())"
    found = []
    with kernels.kept():
        for colour in ("red", "blue"):
            monkeypatch.setenv("COLOUR", colour)
            found.append(output_of(told).split())
    assert [words[0] for words in found] == ["red", "blue"]
    assert not set(found[0]) & set(found[1])


@pytest.mark.whole
def test_where_the_home_cannot_be_written_kernels_leave_no_folders_behind(output_of, monkeypatch, tmp_path, capfd):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with kernels.kept():
        assert "/tmp/pairlab-" in output_of("print(get_ipython().ipython_dir)")
    assert os.listdir(tmp_path / "temporary") == []
    assert "not a writable location" not in capfd.readouterr().err


def test_what_a_startup_file_sets_is_no_parameter_and_what_a_cell_sets_alike_is_one(output_of, tmp_path, monkeypatch):
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "mine.py").write_text("from math import *\nimport requests\npairs, seed, drivr = 4, 3, 'ovs'\n")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    making = "from pairlab import spec_from; spec = spec_from(globals(), experiment='mine')"
    assert output_of("n = 4", "pairs = n", making, "print(drivr, spec.pairs, spec.seed)") == "ovs 4 0"


@pytest.mark.whole
def test_an_import_that_fails_is_told_by_the_notebook(output_of):
    with pytest.raises(MeasurementFailed, match="ModuleNotFoundError: No module named 'pairlab_lacks_this'"):
        output_of("import pairlab_lacks_this")


@pytest.mark.whole
def test_a_library_that_starts_threads_is_not_imported_before_the_fork(output_of, tmp_path, monkeypatch):
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with kernels.kept():
        before = output_of("import os; print(os.getppid())")
        parent, alone = output_of(
            "import os, threading, threaded; print(os.getppid(), len(threading.enumerate()))"
        ).split()
        assert parent == before
        assert int(alone) > 1
        assert len(os.listdir(f"/proc/{parent}/task")) == 1


@pytest.mark.whole
def test_a_parent_that_dies_takes_its_kernel_along_and_the_next_one_is_started(output_of):
    with kernels.kept():
        with pytest.raises(MeasurementFailed, match="died"):
            output_of("import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)")
        assert output_of("print(6 * 7)") == "42"


@pytest.mark.whole
def test_tables_are_shown_as_in_any_kernel(output_of):
    wide = "import pandas; print(pandas.DataFrame({'column number %d' % n: [0] for n in range(9)}))"
    assert "..." not in output_of("import pandas", wide)


@pytest.mark.whole
def test_figures_are_shown_as_in_any_kernel(output_of, tmp_path):
    output_of("import matplotlib.pyplot as plt", "plt.plot([1, 2]); plt.show()", "print()")
    (cell,) = [each for each in nbformat.read(tmp_path / "out.ipynb", 4).cells if "plt.show" in each.source]
    assert any("image/png" in out.get("data", {}) for out in cell.outputs)


#: What a user's own configuration may say, of matplotlib and of IPython.
OTHER_FIGURES = """
c.InlineBackend.figure_formats = {"retina", "jpeg"}
c.InlineBackend.print_figure_kwargs = {"bbox_inches": "tight"}
c.InlineBackend.rc = {"figure.figsize": (1, 1), "savefig.bbox": "tight", "text.usetex": True}
"""


def test_figures_are_shown_and_laid_out_by_no_configuration_of_the_user(output_of, tmp_path, monkeypatch):
    (tmp_path / "profile_default").mkdir()
    (tmp_path / "profile_default" / "ipython_kernel_config.py").write_text(OTHER_FIGURES)
    (tmp_path / "matplotlibrc").write_text("backend: TkAgg\nsavefig.bbox: tight\ntext.usetex: True\n")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MATPLOTLIBRC", str(tmp_path / "matplotlibrc"))
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    output_of(
        "from pairlab.analysis.figures import files; import matplotlib.pyplot as plt; files.use_style()",
        "plt.figure(figsize=(2, 1)).supxlabel('Pairs')",
        "print()",
    )
    *_, drawn, _ = nbformat.read(tmp_path / "out.ipynb", 4).cells
    (shown,) = [out.data for out in drawn.outputs if out.output_type == "display_data"]
    assert set(shown) == {"image/svg+xml", "text/plain"}
    assert 'width="194.40pt" height="97.20pt"' in shown["image/svg+xml"]


KILLED = """
import os, sys, time
from pairlab import Spec
from pairlab.batch import kernels
with kernels.kept() as parent:
    kernel = parent.fork("", arguments=["--help"], imports=[], environment=os.environ, directory="/")
    stopped = parent.fork("", arguments=["-f", sys.argv[1]], imports=[], environment=os.environ, directory="/")
    print(kernel.wait(), stopped.pid, parent._process.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.whole
def test_nothing_is_left_of_a_process_that_is_killed(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "kernel.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        status, *pids = _numbers(process)
        assert status == 0
        assert all(psutil.pid_exists(pid) for pid in pids)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(psutil.pid_exists(pid) for pid in pids)


def _numbers(process):
    """The numbers in the last line that it printed so far; `--help` prints many."""
    for line in process.stdout:
        if line.strip() and all(word.lstrip("-").isdigit() for word in line.split()):
            return [int(word) for word in line.split()]
    raise AssertionError("it ended")
