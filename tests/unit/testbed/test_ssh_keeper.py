"""What a machine over ssh reports of itself, from outside of the sandbox there."""

import os
import signal
import subprocess

import pytest

from pairlab.testbed.host import conditions
from pairlab.testbed.ssh.keeper import Keeper


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_process_of_the_sandbox_that_is_stopped_counts_as_halted_there(is_stopped):
    with subprocess.Popen(["sleep", "60"]) as sandbox:
        try:
            if is_stopped:
                sandbox.send_signal(signal.SIGSTOP)
                os.waitpid(sandbox.pid, os.WUNTRACED)
            keeper = Keeper(sandbox.pid)
            keeper.begin_load(0.0)
            found = keeper.end_load()
        finally:
            sandbox.kill()
    assert (found["halted"] > 0) is is_stopped
    assert found["regrouped"] == 0
    assert {"foreign_cpu", "halted", "regrouped"} <= {*found}


def test_the_settings_of_a_machine_are_those_that_a_run_on_it_records():
    assert Keeper(os.getpid()).conditions().keys() == conditions.read().keys()
