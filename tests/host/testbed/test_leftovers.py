"""What accidents left on the host: found by whose it was, and nothing else is."""

import fcntl
import os
import tempfile
import time

from pairlab.testbed.audit import leftovers
from pairlab.testbed.host import cgroups
from tests.support.owners import changed, ended


def test_clean_finds_the_working_directory_of_a_dead_process_and_no_other(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.setattr(leftovers, "Path", lambda _: tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(leftovers, "LINKS", tmp_path)
    owners = {"dead": changed(boot="0" * 32), "alive": changed(), "older": "1@1700000000", "unclear": "?"}
    owners |= {"nobody's": None, "new": None, "empty": "", "a-users": None}
    for name, owner in owners.items():
        place = tmp_path / f"pairlab-{name}"
        place.mkdir()
        if owner is not None:
            (place / "owner").write_text(owner)
        if name == "a-users":
            (place / "thesis.tex").touch()
        if name != "new":
            os.utime(place, (time.time() - 301,) * 2)
    with (tmp_path / "pairlab-alive" / "owner").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found, unclear = leftovers.find()
    gone = ["dead", "empty", "nobody's"]
    assert [each.what for each in found] == [f"directory {tmp_path}/pairlab-{name}" for name in gone]
    assert unclear == [f"directory {tmp_path}/pairlab-{name}" for name in ("older", "unclear")]
    for each in found:
        each.remove()
    kept = ["a-users", "alive", "new", "older", "unclear"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"pairlab-{name}" for name in kept]


def test_clean_finds_the_link_of_a_dead_process_and_no_other(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.setattr(leftovers, "Path", lambda _: tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cgroups, "of_testbeds", lambda: ())
    monkeypatch.setattr(leftovers, "LINKS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    dead = ended()
    aliases = {"pldead": f"{dead}\n", "plalive": changed(), "plip": "\n", "plant": "to the plant", "eth0": dead}
    for name, alias in aliases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "ifalias").write_text(alias)
    (found,) = leftovers.find().dead
    assert found.what == "link pldead"
    removed = []
    monkeypatch.setattr("pairlab.testbed.docker.reaper.remove_link", removed.append)
    (found,) = leftovers.find().dead
    found.remove()
    assert removed == ["pldead"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert leftovers.find() == ([], [])
