"""What .devcontainer and .binder promise: they set up what `make setup` does, and say what a container has to allow."""

import os
import re
import stat
import subprocess
import sys

import json5
import pytest

from pairlab import paths
from tests.conftest import need

DEVCONTAINER = paths.ROOT / ".devcontainer" / "devcontainer.json"
BINDER = paths.ROOT / ".binder"
NAMESPACES = {"--security-opt=seccomp=unconfined", "--security-opt=systempaths=unconfined"}

# As root of a container has it, without --privileged: no administrator of the host's.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin"]
TRIAL = "from pairlab.testbed.netns import sandbox; print(*sandbox.command()); print(sandbox.missing())"


def test_a_development_container_is_set_up_and_may_make_namespaces():
    told = json5.loads(DEVCONTAINER.read_text())
    assert told["postCreateCommand"] == "make setup"
    assert set(told["runArgs"]) >= NAMESPACES


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give away")
def test_root_without_its_rights_measures_in_a_user_namespace():
    need("netns")
    done = subprocess.run([*WITHOUT_RIGHTS, sys.executable, "-c", TRIAL], capture_output=True, text=True, check=True)
    command, lack = done.stdout.splitlines()
    assert "--user --map-root-user" in command
    assert lack == "None"


def test_binder_installs_the_locked_versions_and_builds_flowgen():
    (line,) = [line for line in (BINDER / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    lock = BINDER / line.removeprefix("-r ")
    assert lock.resolve() == paths.ROOT / "lib" / "requirements" / "pairlab.lock"
    assert re.fullmatch(r"python-3\.1[1-9]\n", (BINDER / "runtime.txt").read_text())
    post_build = BINDER / "postBuild"
    assert post_build.stat().st_mode & stat.S_IXUSR
    assert "make -C lib/flowgen\n" in post_build.read_text()
    assert "--editable ." in post_build.read_text()
