"""What a container that has no administrator's rights has to allow."""

import os
import subprocess
import sys

import pytest

from tests.conftest import need

# As root of a container has it, without --privileged: no administrator of the host's.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin"]
TRIAL = "from pairlab.testbed.netns import sandbox; print(*sandbox.command()); print(sandbox.missing())"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give away")
def test_root_without_its_rights_measures_in_a_user_namespace():
    need("netns")
    done = subprocess.run([*WITHOUT_RIGHTS, sys.executable, "-c", TRIAL], capture_output=True, text=True, check=True)
    command, lack = done.stdout.splitlines()
    assert "--user --map-root-user" in command
    assert lack == "None"
