"""The working directory: gone whatever happens to its process, and a clear word where it cannot be made."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pairlab.errors import TestbedError
from pairlab.testbed import workdir
from tests import host


@pytest.fixture
def nothing_left():
    """Tells of directories and processes of ours that came since; fails the test if some stay. Links it makes none."""
    before = host.snapshot()

    def nothing_left():
        return {kind: more for kind, more in host.difference(before).items() if kind in ("directories", "processes")}

    yield nothing_left
    assert nothing_left() == {}


def gone(directory, within_s=10.0):
    deadline = time.monotonic() + within_s
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not directory.exists()


def test_it_is_there_with_its_owner_and_gone_afterwards(nothing_left):
    with workdir.working_directory() as directory:
        (directory / "deep" / "er").mkdir(parents=True)
        assert directory.stat().st_mode & 0o777 == 0o711
        assert (directory / "owner").read_text().startswith(f"{os.getpid()}@")
    assert not directory.exists()
    assert nothing_left() == {}  # nor is its guard left


def test_it_goes_with_a_process_that_is_killed_although_children_live_on(nothing_left):
    script = """
import subprocess, sys
from pairlab.testbed.workdir import working_directory
with working_directory() as one, working_directory() as other:
    (one / "file").write_text("x")
    child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
    print(child.pid, one, other, flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        child, *directories = process.stdout.readline().split()
        assert all(Path(directory).exists() for directory in directories)
        process.kill()
        assert process.stdout.read() == ""  # nobody keeps its output open
    try:
        assert all(gone(Path(directory)) for directory in directories)
    finally:
        os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(tempfile, "mkdtemp"), (Path, "chmod"), (Path, "write_text"), (subprocess, "Popen")],
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
