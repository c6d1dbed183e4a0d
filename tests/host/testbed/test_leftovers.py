"""What accidents left on the host: found by whose it was, and nothing else is."""

import os
import subprocess
import time

from pairlab.testbed.audit import leftovers


def test_clean_finds_the_working_directory_of_a_dead_process_and_no_other(monkeypatch, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.setattr(leftovers, "Path", lambda _: tmp_path)
    monkeypatch.setattr(leftovers, "LINKS", tmp_path)
    owners = {"dead": f"{ended.pid}@1", "alive": leftovers.ownership.me(), "unclear": "?"}
    owners |= {"nobody's": None, "new": None, "empty": "", "a-users": None}
    for name, owner in owners.items():
        place = tmp_path / f"pairlab-{name}"
        place.mkdir()
        if owner is not None:
            (place / "owner").write_text(owner)
        if name == "a-users":
            (place / "thesis.tex").touch()
        if name != "new":
            os.utime(place, (time.time() - 61,) * 2)
    found = list(leftovers.find())
    gone = ["dead", "empty", "nobody's"]
    assert [each.what for each in found] == [f"directory {tmp_path}/pairlab-{name}" for name in gone]
    for each in found:
        each.remove()
    kept = ["a-users", "alive", "new", "unclear"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"pairlab-{name}" for name in kept]


def test_clean_finds_the_link_of_a_dead_process_and_no_other(monkeypatch, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(leftovers, "LINKS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    dead, alive = f"{ended.pid}@1", leftovers.ownership.me()
    aliases = {"pldead": f"{dead}\n", "plalive": alive, "plip": "\n", "eth0": dead}
    for name, alias in aliases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "ifalias").write_text(alias)
    (found,) = leftovers._links()
    assert found.what == "link pldead"
    removed = []
    monkeypatch.setattr("pairlab.testbed.docker.reaper.remove_link", removed.append)
    (found,) = leftovers._links()
    found.remove()
    assert removed == ["pldead"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert list(leftovers._links()) == []
