"""Where pairlab is started in a folder that others may write to, none of its interpreters runs a file from there."""

import subprocess
import sys

import pytest

from pairlab import paths
from pairlab.testbed import registry
from pairlab.testbed.requirements import Program
from tests.conftest import any_backend, need
from tests.support import host

#: All that Python has, what interpreters run at their start, and what pairlab's import.
NAMES = (*sys.stdlib_module_names, "sitecustomize", "usercustomize", "IPython", "docker", "docutils", "ipykernel")
NAMES += ("mpi4py", "numpy", "pairlab", "pandas", "psutil", "pyroute2", "yaml")
PLANTED = """
with open({canary!r}, "a") as canary:
    canary.write(__name__ + " ")
raise ImportError(__name__ + " was planted here")
"""


@pytest.fixture
def planted(tmp_path):
    """A folder with such modules, and the file in which each that is run says so."""
    folder, canary = tmp_path / "folder", tmp_path / "canary"
    folder.mkdir()
    canary.touch()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED.format(canary=str(canary)))
    return folder, canary


def done_there(folder, *command):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_they_are_run_by_an_interpreter_that_is_not_isolated(planted):
    folder, canary = planted
    done_there(folder, sys.executable, "-c", "import socket")
    assert canary.read_text().startswith("socket ")


@pytest.mark.parametrize("words", [["doctor"], ["ls"], ["run", "throughput", "--list"]], ids=" ".join)
def test_no_command_runs_them(words, planted, runs_dir):
    folder, canary = planted
    done_there(folder, str(host.BIN / "pairlab"), *words)
    assert canary.read_text() == ""


@pytest.mark.parametrize("backend", any_backend())
def test_no_part_of_a_measurement_runs_them(backend, planted, runs_dir):
    """The kernel of the notebook, its parent, the sandbox and its agent, or what removes containers."""
    need(backend)
    folder, canary = planted
    asked = {"backend": backend, "workload": "flowgen", "pairs": "1", "duration_s": "0.3", "interval_s": "0.1"}
    words = [word for name, value in asked.items() for word in ("-p", name, value)]
    done = done_there(folder, str(host.BIN / "pairlab"), "run", "throughput", *words)
    assert canary.read_text() == ""
    assert "planted" not in done.stdout + done.stderr
    assert len([*runs_dir.glob("throughput/*/")]) == 1, done.stderr


WITH_VERSION = [name for name in registry.workloads.names() if registry.workloads.get(name).version_command("")]


@pytest.mark.parametrize("workload", WITH_VERSION)
def test_no_command_that_prints_a_version_runs_them(workload, planted):
    folder, canary = planted
    program, *arguments = registry.workloads.get(workload).version_command(str(paths.flowgen()))
    if path := Program(program, "").path():
        done_there(folder, path, *arguments)
    assert canary.read_text() == ""
