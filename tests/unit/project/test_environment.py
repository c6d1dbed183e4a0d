"""What is installed: one list of names and bounds in three files, and nothing of any one machine in the repository."""

import errno
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version
from rattler import MatchSpec

from pairlab import paths
from pairlab.batch.execute import execute
from pairlab.errors import MeasurementFailed, StoreError
from tests.support.host import started

PYPROJECT = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCKS = sorted((paths.ROOT / "lib" / "requirements").glob("*.lock"))
#: What conda calls packages of PyPI, where it is something else.
ON_CONDA = {"docker": "docker-py", "duckdb": "python-duckdb", "playwright": "playwright-python"}
ON_CONDA |= {name: name.replace("-", "_") for name in ("jupyter-client", "jupyter-core", "jupyter-server")}
ON_CONDA |= {"jupyterlab-server": "jupyterlab_server"}
#: Not packages of PyPI.
CONDA_ONLY = {"python", "c-compiler", "make"}


def requirements(*kinds):
    """What is asked for at run time, in these groups, and in these extras: {name: Requirement}."""
    told = list(PROJECT["dependencies"])
    for kind in kinds:
        told += group(kind) if kind in PYPROJECT["dependency-groups"] else PROJECT["optional-dependencies"][kind]
    return {requirement.name: requirement for requirement in map(Requirement, told)}


def group(name):
    for each in PYPROJECT["dependency-groups"][name]:
        if isinstance(each, str):
            yield each
        else:
            yield from group(each["include-group"])


def locked(lock):
    """The packages in a lock file: {name: [(version, marker)]}."""
    found = {}
    for line in lock.read_text().splitlines():
        if match := re.fullmatch(r"([a-z0-9][a-z0-9._-]*)==(\S+?)(?: ; (.+?))?(?: \\)?", line):
            found.setdefault(match[1], []).append((Version(match[2]), match[3]))
    return found


# --- conda's list and pip's


def test_conda_and_pip_ask_for_the_same_packages_with_the_same_bounds():
    told = yaml.safe_load((paths.ROOT / "environment.yml").read_text())
    specs = [MatchSpec(each, strict=True) for each in told["dependencies"]]
    conda = {spec.name.normalized: str(spec.version) for spec in specs if spec.name.normalized not in CONDA_ONLY}
    pip = {ON_CONDA.get(name, name): str(each.specifier) for name, each in requirements("dev").items()}
    assert conda == pip


def test_conda_and_pip_ask_for_the_same_python():
    told = yaml.safe_load((paths.ROOT / "environment.yml").read_text())
    (python,) = (spec for spec in map(MatchSpec, told["dependencies"]) if spec.name.normalized == "python")
    assert str(python.version) == PROJECT["requires-python"]
    assert (told["name"], told["channels"]) == ("pairlab", ["conda-forge"])


def test_every_package_has_a_lower_bound_and_no_upper_one():
    for requirement in requirements("dev", "cc", "mpi").values():
        assert [bound.operator for bound in requirement.specifier] == [">="], requirement


# --- the locks


def test_the_lock_holds_every_package_we_ask_for_in_a_version_we_allow():
    for lock, wanted in (
        ("pairlab.lock", requirements("dev")),
        ("cc.lock", {"ziglang": requirements("cc")["ziglang"]}),
        ("mpi.lock", {name: requirements("mpi")[name] for name in ("mpi4py", "mpich")}),
    ):
        versions = locked(paths.ROOT / "lib" / "requirements" / lock)
        for name, requirement in wanted.items():
            assert name in versions, f"{name} is not in {lock}"
            for version, _ in versions[name]:
                assert version in requirement.specifier


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_names_one_version_of_each_package_for_each_python(python):
    here = {"python_version": python, "python_full_version": f"{python}.4"}
    for lock in LOCKS:
        for name, versions in locked(lock).items():
            fitting = [version for version, marker in versions if not marker or Marker(marker).evaluate(here)]
            assert len(fitting) <= 1, f"{lock.name}: {name}"
    asked = requirements("dev")
    versions = locked(paths.ROOT / "lib" / "requirements" / "pairlab.lock")
    for name in asked:
        assert any(not marker or Marker(marker).evaluate(here) for _, marker in versions[name]), f"{name} on {python}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_names_versions_markers_and_hashes_and_nothing_else(lock):
    package = r"[a-z0-9][a-z0-9._-]*==[0-9a-z.!+]+( ; [A-Za-z_0-9.'\"<>=!*() ]+?)? \\"
    allowed = re.compile(rf"{package}|    --hash=sha256:[0-9a-f]{{64}}( \\)?|    #( via)?( +[a-z0-9._-]+( \(.+\))?)?")
    for number, line in enumerate(lock.read_text().splitlines(), 1):
        assert allowed.fullmatch(line), f"{lock.name}:{number}: {line}"
        assert "://" not in line


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_package_has_a_hash(lock):
    lines = lock.read_text().splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if "==" in line and not line.startswith(" "):
            assert following.lstrip().startswith("--hash=sha256:"), line


# --- the repository


@pytest.fixture(scope="module")
def ours():
    """Every file of the repository that is text: {path: content}."""
    command = ["git", "-C", str(paths.ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("which files are the repository's, only git knows: run this in a clone")
    found = {}
    for name in done.stdout.decode().split("\0"):
        path = paths.ROOT / name
        if name and path.is_file() and path != Path(__file__):
            found[name] = path.read_bytes().decode(errors="replace")
    assert "pyproject.toml" in found
    return found


def named(ours, pattern):
    return [f"{name}: {match[0]}" for name, text in ours.items() for match in re.finditer(pattern, text)]


@pytest.mark.ci
def test_no_file_names_a_package_index(ours):
    assert named(ours, r"pypi\.org|pythonhosted\.org|--(extra-)?index-url|--find-links|--trusted-host") == []


def test_no_file_names_a_place_of_one_machine(ours):
    assert named(ours, r"/(work|root|home/\w+)/[\w.]+") == []


def test_no_file_holds_a_key(ours):
    assert named(ours, r"-----BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}") == []


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


@pytest.mark.ci
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


@pytest.mark.ci
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


@pytest.mark.ci
def test_of_an_interrupted_notebook_nothing_is_told_later(tmp_path):
    waits = "import os, signal, time; os.kill(pairs, signal.SIGINT); time.sleep(60)"
    command = [sys.executable, "-c", INTERRUPTED, notebook_that(tmp_path, waits), tmp_path / "out.ipynb"]
    with started(command) as process:
        told, complaints = process.communicate(timeout=60)
    assert (process.returncode, told, complaints) == (0, "interrupted\n", "")


@pytest.mark.ci
def test_nor_where_the_interruption_comes_while_the_kernel_is_looked_at(tmp_path):
    waits = notebook_that(tmp_path, "import time; time.sleep(60)")
    with started([sys.executable, "-c", STRUCK, waits, tmp_path / "out.ipynb"]) as process:
        told, complaints = process.communicate(timeout=60)
    assert (process.returncode, told, complaints) == (0, "interrupted\n", "")


@pytest.mark.ci
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
    with pytest.raises(MeasurementFailed, match=r"the notebook small\.ipynb stopped with ZeroDivisionError"):
        execute(notebook_that(tmp_path, "pairs / 0"), executed, {})
    assert "ZeroDivisionError" in executed.read_text()
    assert "output_path" not in json.loads(executed.read_text())["metadata"]["papermill"]
