"""The working directory: gone whatever happens to its process, and a clear word where it cannot be made."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pairlab.errors import TestbedError
from pairlab.testbed.cleanup import workdir
from tests.support import host


@pytest.fixture
def nothing_left():
    """Tells of directories and processes of ours that came since; fails the test if some stay. Links it makes none."""
    before = host.snapshot()

    def nothing_left():
        return {kind: more for kind, more in host.difference(before).items() if kind in ("directories", "processes")}

    yield nothing_left
    assert nothing_left() == {}


def soon(condition, within_s=10.0):
    """Whether it comes about in that time."""
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def gone(directory):
    return soon(lambda: not directory.exists())


def test_it_is_there_with_its_owner_and_gone_afterwards(nothing_left):
    with workdir.working_directory() as directory:
        (directory / "deep" / "er").mkdir(parents=True)
        outer = directory.parent
        assert (outer.stat().st_mode & 0o777, directory.stat().st_mode & 0o777) == (0o700, 0o711)
        assert (outer / "owner").read_text().startswith(f"{os.getpid()}@")
    assert not outer.exists()
    assert nothing_left() == {}  # nor is its guard left


def test_it_goes_with_a_process_that_is_killed_although_children_live_on(nothing_left):
    script = """
import subprocess, sys
from pairlab.testbed.cleanup.workdir import working_directory
with working_directory() as one, working_directory() as other:
    (one / "file").write_text("x")
    child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
    print(child.pid, one, other, flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        child, *directories = process.stdout.readline().split()
        directories = [Path(directory).parent for directory in directories]
        assert all(directory.exists() for directory in directories)
        process.kill()
        assert process.stdout.read() == ""  # nobody keeps its output open
    try:
        assert all(gone(directory) for directory in directories)
    finally:
        os.kill(int(child), signal.SIGKILL)
    assert soon(lambda: nothing_left() == {})  # its guard ends a moment after what it removes


def test_it_goes_with_a_process_that_is_killed_in_the_moment_when_it_is_made(nothing_left):
    script = """
import os, signal
from pairlab.testbed.cleanup.workdir import working_directory

def make_and_die(path, *mode):
    real(path, *mode)
    print(path, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

real, os.mkdir = os.mkdir, make_and_die
with working_directory():
    pass
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    directory = Path(done.stdout.strip())
    assert directory.name.startswith("pairlab-")
    assert gone(directory)
    assert soon(lambda: nothing_left() == {})


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Path, "mkdir"), (Path, "chmod"), (Path, "write_text"), (subprocess, "Popen")],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_where_none_can_be_made_it_says_why_and_leaves_nothing(nothing_left, monkeypatch, owner, name):
    def fail(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(owner, name, fail)
    told = r"no working directory could be made in /tmp: No space left on device\. Make room there"
    with pytest.raises(TestbedError, match=told), workdir.working_directory():
        pass
    monkeypatch.undo()
    assert nothing_left() == {}


def test_an_error_in_the_block_stays_what_it_is(nothing_left):
    with pytest.raises(OSError, match="mine"), workdir.working_directory():
        raise OSError("mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that is somebody else's")
def test_a_directory_of_somebody_elses_that_took_the_name_first_is_not_touched(nothing_left, tmp_path, monkeypatch):
    theirs = tmp_path / "pairlab-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    monkeypatch.setattr(workdir.tempfile, "mktemp", lambda **_: str(theirs))
    with pytest.raises(TestbedError, match="File exists"), workdir.working_directory():
        pass
    assert theirs.exists()
