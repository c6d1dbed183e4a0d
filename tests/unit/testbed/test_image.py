"""How the container image is built, with a daemon and an mmdebstrap that are made up: what is told of it."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from docker.errors import ImageNotFound

from pairlab.base import temporary_folder
from pairlab.errors import Unavailable
from pairlab.testbed.docker import image
from tests.support import CAPTURED

BUILT = "building the container image"


class Daemon:
    """Has no image until one is built or imported. told: what its builder says."""

    def __init__(self, told):
        self.told, self.known = told, {}
        self.images = SimpleNamespace(get=self._get)
        self.api = SimpleNamespace(build=self._build, import_image_from_file=self._import)

    def _get(self, tag):
        if tag not in self.known:
            raise ImageNotFound(tag)
        return SimpleNamespace(attrs={"Id": self.known[tag]})

    def _build(self, *, tag, **how):
        yield from self.told
        self.known[tag] = "sha256:built"

    def _import(self, archive, *, repository, tag):
        assert Path(archive).read_text() == "an archive"
        assert Path(archive).parent.name.startswith(temporary_folder.PREFIX)  # clean knows it
        self.known[f"{repository}:{tag}"] = "sha256:imported"


@pytest.fixture
def mmdebstrap(monkeypatch, tmp_path):
    """Puts a made-up mmdebstrap on the PATH, that prints these lines and ends with that status."""

    def mmdebstrap(lines, status=0):
        (tmp_path / "lines").write_text(lines)
        program = tmp_path / "mmdebstrap"
        last = 'for archive; do :; done; printf "an archive" > "$archive"'
        program.write_text(f'#!/bin/sh\n{last}\ncat "{tmp_path}/lines" >&2\nexit {status}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return mmdebstrap


def built(daemon):
    """The image's id, and what was told of it being built."""
    told = []
    return image.ensure(daemon, lambda *phase: told.append(phase)), told


def test_a_build_from_the_dockerfile_tells_which_of_its_steps_it_is_at():
    streams = ["Step 1/3 : FROM debian:bookworm-slim", "\n", " ---> 0123\n", "Step 2/3 : COPY a b", "Step 3/3 : RUN c"]
    found, told = built(Daemon([{"status": "Pulling"}, *({"stream": stream} for stream in streams)]))
    assert found == "sha256:built"
    assert told == [(BUILT, 0, 0), (BUILT, 0, 3), (BUILT, 1, 3), (BUILT, 2, 3)]


def test_without_a_registry_the_steps_of_mmdebstrap_are_told(mmdebstrap):
    mmdebstrap((CAPTURED / "mmdebstrap-1.3.5.txt").read_text())
    found, told = built(Daemon([{"stream": "Step 1/3 : FROM debian"}, {"error": "no such host", "errorDetail": {}}]))
    assert found == "sha256:imported"
    assert told == [(BUILT, 0, 0), (BUILT, 0, 3), *((BUILT, step, 8) for step in range(8))]


def test_a_build_that_is_stopped_has_mmdebstrap_remove_what_it_has_made(monkeypatch, tmp_path):
    """As mmdebstrap does on SIGTERM, and cannot on SIGKILL."""
    lines = [f'trap "touch {tmp_path}/removed; exit 1" TERM', f"mkfifo {tmp_path}/never", f"exec 3<>{tmp_path}/never"]
    program = tmp_path / "mmdebstrap"
    program.write_text("\n".join(["#!/bin/sh", *lines, 'echo "I: extracting archives..." >&2', "read nothing <&3"]))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def stopped(phase, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        image.ensure(Daemon([{"error": "no such host"}]), stopped)
    assert (tmp_path / "removed").exists()


def test_where_both_ways_fail_the_reasons_of_both_are_told(mmdebstrap):
    mmdebstrap("I: running apt-get update...\nE: no mirror answers\nI: removing tempdir /tmp/x...\n", status=25)
    with pytest.raises(Unavailable) as failed:
        built(Daemon([{"error": "no such host"}]))
    told = "the container image: docker build failed (no such host), and mmdebstrap failed too (E: no mirror answers):"
    assert str(failed.value).startswith(told)


def test_an_image_that_is_there_is_taken_as_it_is():
    daemon = Daemon([])
    daemon.known[image.tag()] = "sha256:there"
    assert built(daemon) == ("sha256:there", [])
