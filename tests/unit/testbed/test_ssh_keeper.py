"""What a machine over ssh reports of itself, from outside of the sandbox there."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from pairlab.testbed.endpoints import Limits
from pairlab.testbed.host import cgroups, conditions
from pairlab.testbed.ssh.keeper import Keeper


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_process_of_the_sandbox_that_is_stopped_counts_as_halted_there(is_stopped):
    with subprocess.Popen(["sleep", "60"]) as sandbox:
        try:
            if is_stopped:
                sandbox.send_signal(signal.SIGSTOP)
                os.waitpid(sandbox.pid, os.WUNTRACED)
            keeper = Keeper(sandbox.pid, contextlib.ExitStack())
            keeper.begin_load(0.0)
            found = keeper.end_load()
        finally:
            sandbox.kill()
    assert (found["halted"] > 0) is is_stopped
    assert found["regrouped"] == 0
    assert {"foreign_cpu", "halted", "regrouped"} <= {*found}


def test_the_settings_of_a_machine_are_those_that_a_run_on_it_records():
    assert Keeper(os.getpid(), contextlib.ExitStack()).conditions().keys() == conditions.read().keys()


def test_control_groups_of_limited_endpoints_are_there_until_the_sandbox_has_ended():
    if lack := cgroups.missing():
        pytest.skip(str(lack))
    with contextlib.ExitStack() as after:
        keeper = Keeper(os.getpid(), after)
        folders = keeper.limit({"client-0": Limits(cpu_quota=0.5), "server-0": Limits(cpus=(0,))})
        assert [*folders] == ["client-0"]
        assert keeper.limits_in_force()["client-0"]["cpu_quota"] == 0.5
        assert Path(folders["client-0"]).exists()
    assert not Path(folders["client-0"]).exists()
