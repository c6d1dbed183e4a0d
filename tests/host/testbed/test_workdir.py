"""The working directory: gone whatever happens to its process, and a clear word where it cannot be made."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pairlab import paths
from pairlab.errors import TestbedError
from pairlab.testbed.audit import leftovers
from pairlab.testbed.cleanup import ownership, workdir
from tests.faults.kill_at_call import kill_before_every_call
from tests.support import host
from tests.support.owners import guards_of


@pytest.fixture
def nothing_left():
    """Tells of directories and processes of ours that came since; fails the test if some stay. Links it makes none."""
    before = host.snapshot()

    def nothing_left():
        return {kind: more for kind, more in host.difference(before).items() if kind in ("directories", "processes")}

    yield nothing_left
    assert soon(lambda: nothing_left() == {}), nothing_left()  # others may just be making theirs


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
        assert (outer / "owner").read_text() == ownership.me()
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


def test_it_goes_with_a_process_that_is_killed_before_any_of_its_calls(nothing_left):
    def work():
        with workdir.working_directory():
            pass

    def check(trace):
        assert soon(lambda: nothing_left() == {})

    calls = kill_before_every_call(work, lambda: None, check)
    assert calls > 5  # the file, its lock, its content, the directory in it, its mode


GUARD, PROCESS = "$PPID", "$(cut -d' ' -f4 /proc/$PPID/stat)"
#: Goes on when the killed have let go of their files.
KILLING_MKTEMP = """#!/bin/sh
made=$({0} "$@")
echo "$made" > {1}/made
set -- {2}
kill -KILL "$@"
for each; do while [ "$(ls /proc/$each/fd 2> /dev/null)" ]; do :; done; done
echo "$made"
"""


@pytest.fixture
def killed_as_it_is_made(tmp_path):
    """Has the guard's mktemp kill these when it has made the directory; returns that, and the process's status."""

    def killed(*victims):
        (tmp_path / "mktemp").write_text(KILLING_MKTEMP.format(shutil.which("mktemp"), tmp_path, " ".join(victims)))
        (tmp_path / "mktemp").chmod(0o755)
        script = """
import os, sys
from pairlab.testbed.cleanup.workdir import working_directory
os.environ["PATH"] = sys.argv[1] + ":" + os.environ["PATH"]
with working_directory():
    pass
"""
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False)
        return Path((tmp_path / "made").read_text().strip()), done.returncode

    return killed


def test_it_goes_with_a_process_that_is_killed_as_its_guard_makes_it(killed_as_it_is_made, nothing_left):
    directory, status = killed_as_it_is_made(PROCESS)
    assert status == -signal.SIGKILL
    assert gone(directory)


@pytest.mark.parametrize("victims", [[GUARD], [GUARD, PROCESS]], ids=["alone", "with its process"])
def test_what_a_guard_leaves_that_is_killed_as_it_makes_it_is_found_later(
    victims, killed_as_it_is_made, nothing_left, monkeypatch
):
    began = time.time()
    directory, status = killed_as_it_is_made(*victims)
    assert status == (-signal.SIGKILL if PROCESS in victims else 1)
    assert list(directory.iterdir()) == []
    what = f"directory {directory}"
    assert what not in [each.what for each in leftovers.find().dead]
    monkeypatch.setattr(leftovers, "time", SimpleNamespace(time=lambda: began + leftovers.NAMED_WITHIN_S + 60))
    (found,) = [each for each in leftovers.find().dead if each.what == what]
    found.remove()
    assert not directory.exists()


def test_nobody_learns_its_name_before_it_exists(monkeypatch):
    started = []
    real = subprocess.Popen

    def popen(words, **options):
        started.extend(words)
        return real(words, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    with workdir.working_directory() as directory:
        assert started
        assert not [word for word in started if directory.name in word]
        (guard,) = guards_of(os.getpid())
        assert str(directory.parent) in Path(f"/proc/{guard}/cmdline").read_text()  # by which others know whose it is


@pytest.mark.skipif(paths.ROOT.is_relative_to("/tmp"), reason="this checkout is in the /tmp that the test covers")
def test_of_a_full_disk_it_says_so(tmp_path):
    """In a /tmp of its own, which takes no directory more."""
    script = """
from pairlab.testbed.cleanup.workdir import working_directory
with working_directory():
    pass
"""
    alone = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
    mounted = 'mount -t tmpfs -o nr_inodes=1 none /tmp || exit 99; exec "$@"'
    done = subprocess.run([*alone, mounted, "sh", sys.executable, "-c", script], capture_output=True, text=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("this user cannot mount a /tmp of its own")
    assert "no working directory could be made in /tmp: mktemp: " in done.stderr
    assert "No space left on device. Make room there" in done.stderr


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Path, "mkdir"), (Path, "chmod"), (Path, "open"), (ownership.fcntl, "flock"), (subprocess, "Popen")],
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
