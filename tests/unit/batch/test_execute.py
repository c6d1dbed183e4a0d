"""Notebooks are executed in kernels of their own: what is kept of them, and what is told where one ends early."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from pairlab import paths
from pairlab.base.caller import caller_with
from pairlab.batch.execute import execute
from pairlab.errors import AnalysisError, MeasurementFailed, StoreError
from pairlab.progress.relay import Reports
from tests.support.host import started


def notebook_that(tmp_path, *lines):
    cell = nbformat.v4.new_code_cell("pairs = 1", metadata={"tags": ["parameters"]})
    place = tmp_path / "small.ipynb"
    cells = [cell, *map(nbformat.v4.new_code_cell, lines)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}), place)
    return place


def test_an_executed_notebook_says_nothing_of_where_it_was_executed(tmp_path):
    executed = tmp_path / "out.ipynb"
    execute(notebook_that(tmp_path, "print('ä', pairs)"), executed, {"pairs": 7})
    text = executed.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert str(paths.ROOT) not in text
    assert json.loads(text)["cells"][-1]["outputs"][0]["text"] == ["ä 7\n"]
    nbformat.validate(nbformat.read(executed, 4))


@pytest.mark.whole
def test_a_notebook_whose_kernelspec_is_null_is_taken_for_python(tmp_path):
    place = notebook_that(tmp_path, "print(pairs)")
    book = json.loads(place.read_text()) | {"metadata": {"kernelspec": None, "language_info": None}}
    place.write_text(json.dumps(book))
    execute(place, tmp_path / "out.ipynb", {"pairs": 7})
    assert json.loads((tmp_path / "out.ipynb").read_text())["cells"][-1]["outputs"][0]["text"] == ["7\n"]


def test_a_kernel_has_what_its_caller_asks_and_reports_its_runs(tmp_path):
    notebook = notebook_that(
        tmp_path,
        "from pathlib import Path; from pairlab.base.caller import caller; from pairlab.progress import relay",
        "relay.report_run('a key', f'{caller().attempts} attempts, waiting: {caller().wait}', Path('/runs/ä'))",
    )
    reports = Reports()
    with caller_with(attempts=7, wait=False):
        execute(notebook, tmp_path / "out.ipynb", {}, reports)
    assert reports.runs == {"a key": ("7 attempts, waiting: False", Path("/runs/ä"))}


def test_what_a_killed_kernel_leaves_among_temporary_files_goes_with_the_command(tmp_path):
    """As LaTeX's folder does that matplotlib keeps open for figures; kernels are killed in the end."""
    script = "import sys; from pathlib import Path; from pairlab.batch.execute import execute\n"
    script += "execute(Path(sys.argv[1]), Path(sys.argv[2]), {})"
    leaves = notebook_that(tmp_path, "import tempfile", "print(tempfile.mkdtemp())")
    done = subprocess.run([sys.executable, "-c", script, leaves, tmp_path / "out.ipynb"], check=False)
    assert done.returncode == 0
    (output,) = json.loads((tmp_path / "out.ipynb").read_text())["cells"][-1]["outputs"]
    left = Path(output["text"][0].strip())
    assert left.parent.name.startswith("pairlab-")
    assert not left.parent.exists()


@pytest.mark.whole
def test_notebooks_executed_at_once_do_not_meet(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    notebook = notebook_that(tmp_path, "print(pairs)")
    script = "import sys; from pathlib import Path; from pairlab.batch.execute import execute\n"
    script += "execute(Path(sys.argv[1]), Path(sys.argv[2]), {'pairs': int(sys.argv[3])})"
    numbers = ("1", "2", "3")
    command = [sys.executable, "-c", script, notebook]
    running = [subprocess.Popen([*command, tmp_path / f"{number}.ipynb", number]) for number in numbers]
    assert [process.wait() for process in running] == [0, 0, 0]
    for number in numbers:
        told = json.loads((tmp_path / f"{number}.ipynb").read_text())
        assert told["cells"][-1]["outputs"][0]["text"] == [f"{number}\n"]
    assert list(Path.cwd().iterdir()) == []  # nor is a socket left


@pytest.mark.whole
def test_a_kernel_that_dies_is_told_as_what_it_is(tmp_path):
    executed = tmp_path / "out.ipynb"
    with pytest.raises(MeasurementFailed, match=r"the kernel of the notebook small\.ipynb died: out of memory\?"):
        execute(notebook_that(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), executed, {})
    assert str(tmp_path) not in executed.read_text()


INTERRUPTED = """
import asyncio, os, sys
from pathlib import Path
from pairlab.batch import kernels
from pairlab.batch.execute import execute

class Slow(kernels.ForkedKernelManager):  # long enough for nbclient, which looks once a second, to find it dead
    async def shutdown_kernel(self, *args, **options):
        await super().shutdown_kernel(*args, **options)
        await asyncio.sleep(1.5)

kernels.ForkedKernelManager = Slow
try:
    execute(Path(sys.argv[1]), Path(sys.argv[2]), {"pairs": os.getpid()})
except KeyboardInterrupt:
    print("interrupted")
"""


#: Ctrl-C comes while nbclient looks whether the kernel is alive, in a task of its own, and not while all wait.
STRUCK = INTERRUPTED.replace(
    "        await asyncio.sleep(1.5)\n",
    """
    async def _async_is_alive(self):
        if asyncio.current_task().get_coro().__name__ == "_async_poll_kernel_alive":
            os.kill(os.getpid(), 2)
        return await super()._async_is_alive()
""",
)


@pytest.mark.whole
def test_of_an_interrupted_notebook_nothing_is_told_later(tmp_path):
    waits = "import os, signal, time; os.kill(pairs, signal.SIGINT); time.sleep(60)"
    command = [sys.executable, "-c", INTERRUPTED, notebook_that(tmp_path, waits), tmp_path / "out.ipynb"]
    with started(command) as process:
        told, complaints = process.communicate(timeout=60)
    assert (process.returncode, told, complaints) == (0, "interrupted\n", "")


@pytest.mark.whole
def test_nor_where_the_interruption_comes_while_the_kernel_is_looked_at(tmp_path):
    waits = notebook_that(tmp_path, "import time; time.sleep(60)")
    with started([sys.executable, "-c", STRUCK, waits, tmp_path / "out.ipynb"]) as process:
        told, complaints = process.communicate(timeout=60)
    assert (process.returncode, told, complaints) == (0, "interrupted\n", "")


@pytest.mark.whole
def test_a_disk_that_fills_up_while_a_notebook_runs_is_told_and_leaves_no_half_of_it(tmp_path, monkeypatch):
    from papermill.iorw import LocalHandler

    whole, writes = LocalHandler.write, []

    def write(self, text, path):
        writes.append(path)
        if len(writes) < 3:
            return whole(self, text, path)
        whole(self, text[: len(text) // 2], path)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalHandler, "write", write)
    told = r"small\.ipynb could not be executed into .*: No space left on device\. Is there room on the disk"
    with pytest.raises(StoreError, match=told):
        execute(notebook_that(tmp_path, "1", "2", "3"), tmp_path / "out.ipynb", {})
    assert len(writes) >= 3
    assert [path.name for path in tmp_path.iterdir()] == ["small.ipynb"]


def test_a_notebook_that_stops_is_kept_and_its_error_is_told(tmp_path):
    executed = tmp_path / "out.ipynb"
    with pytest.raises(
        MeasurementFailed, match=r"the notebook small\.ipynb stopped in its cell 2 \(pairs / 0\) with ZeroD"
    ):
        execute(notebook_that(tmp_path, "pairs / 0"), executed, {})
    assert "ZeroDivisionError" in executed.read_text()
    assert "output_path" not in json.loads(executed.read_text())["metadata"]["papermill"]


def test_of_pairlabs_own_errors_the_cell_is_a_note(tmp_path):
    """Whoever runs an experiment reads the error alone, and a report, of many notebooks, names the cell, too."""
    raises = "from pairlab.errors import AnalysisError; raise AnalysisError('too few')"
    with pytest.raises(AnalysisError) as caught:
        execute(notebook_that(tmp_path, raises), tmp_path / "out.ipynb", {})
    assert str(caught.value) == "too few"
    assert caught.value.__notes__ == [f"in its cell 2 ({raises})"]
