"""Systems that have their programs nowhere but on PATH, as NixOS and Guix: /bin has sh alone, /usr/bin env alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: Moves the programs of /usr/bin to the folder $1, and goes on with the rest; $2: the names of those that stay.
ELSEWHERE = """
place=$1 stays=$2; shift 2
mount --bind /usr/bin "$place" && mount -t tmpfs none "$place.few" && export PATH=$place || exit 99
for each in sh env $stays; do ln -s "$(readlink -f "$place/$each")" "$place.few/$each"; done
for each in "$place.few"/*; do ln -sfn "$place/$(basename "$(readlink "$each")")" "$each"; done
mount --bind "$place.few" /usr/bin || exit 99
[ -L /bin ] || mount --bind "$place.few" /bin || exit 99
[ -L /usr/sbin ] || mount -t tmpfs none /usr/sbin || exit 99
exec "$@"
"""
MEASURES = """
import shutil
from pairlab import Spec, open_testbed
from pairlab.apps import doctor
assert not shutil.which("mktemp", path="/bin:/usr/bin:/sbin:/usr/sbin")
assert doctor.examine()["backends"]["netns"]["drivers"]["bridge"]["available"]
with open_testbed(Spec(workload="flowgen")) as bed:
    print(bed.pairs[0].client.run(["cat", "/proc/sys/kernel/ostype"]).stdout.strip())
"""


@pytest.fixture
def elsewhere(tmp_path):
    """Runs a program of Python there, and returns what it printed."""
    place = tmp_path / "sw"
    place.mkdir()
    (tmp_path / "sw.few").mkdir()
    stays = " ".join(each.name for each in links(Path(sys.executable)) if each.parent == Path("/usr/bin"))
    alone = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", shutil.which("sh"), "-c"]

    def run(program):
        argv = [*alone, ELSEWHERE, "sh", str(place), stays, sys.executable, "-P", "-c", program]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 99:
            pytest.skip("this user cannot mount another /usr/bin")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def links(path):
    """What it links to, and that in turn."""
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path


def test_where_bin_has_only_sh_a_testbed_comes_up_and_doctor_is_right(elsewhere):
    assert elsewhere(MEASURES).endswith("Linux\n")
