"""Temporary folders that outlive their process are found, and no other."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pairlab.base import temporary_folder
from pairlab.base.temporary_folder import PREFIX, TemporaryFolder, abandoned
from pairlab.testbed.audit import leftovers


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_the_folder_of_a_killed_process_is_abandoned_and_that_of_a_living_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    code = (
        "import os; from pairlab.base.temporary_folder import TemporaryFolder;"
        " made = TemporaryFolder(); open(made.name + '/texput.log', 'w'); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    (tmp_path / f"{PREFIX}link").symlink_to(Path.home())
    with TemporaryFolder() as living:
        assert list(abandoned()) == []  # one that is new may not be locked yet
        for place in tmp_path.iterdir():
            os.utime(place, (time.time() - temporary_folder.LOCKED_WITHIN_S - 1,) * 2, follow_symlinks=False)
        assert list(abandoned()) == [left]
        (found,) = [each for each in leftovers.find().dead if str(tmp_path) in each.what]
        assert found.what == f"temporary folder {left}"
        found.remove()
        assert not left.exists()
    assert not os.path.exists(living)
