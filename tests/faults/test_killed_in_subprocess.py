"""A measurement in a process of its own that is killed, or cancelled while it starts: nothing is left of it."""

import os
import signal
import sys

import pytest

from pairlab.errors import MeasurementFailed
from pairlab.measurement import in_subprocess
from tests.conftest import need
from tests.support import host
from tests.support.attended import LONG, blocking, cancelled_at, in_a_loop, no_process_left, the_child


def when_it_sends(act):
    """A callback for phases that does this once, as soon as clients send."""
    done = []

    def on_phase(name, *_):
        if name == "measuring (s)" and not done:
            done.append(True)
            act()

    return on_phase


@pytest.mark.parametrize("moment", ["starting", "bringing up", "servers listening"])
def test_cancelling_at_any_moment_leaves_the_host_clean_and_no_half_run(moment, runs_dir, clean_host):
    need("netns")
    cancelled_at(moment)
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


ATTENDING = """
from pairlab import Spec
from pairlab.measurement.in_subprocess import attend

def tell(name, done, total):
    if name == "measuring (s)" and not done:
        print(name, flush=True)

attend(Spec(workload="flowgen", pairs=2, duration_s=60.0), on_phase=tell)
"""


def attending():
    """A program that attends a long measurement, in which clients send."""
    process = host.started([sys.executable, "-c", ATTENDING])
    assert process.stdout.readline() == "measuring (s)\n"
    return process


def test_ctrl_c_is_raised_when_the_host_is_clean(runs_dir, clean_host):
    need("netns")
    with attending() as process:
        os.killpg(process.pid, signal.SIGINT)
        _, output = process.communicate(timeout=30)
    assert output.rstrip().endswith("KeyboardInterrupt")
    assert output.count("Traceback") == 1
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@pytest.mark.skipif(not in_subprocess.killed_with_parent([])[1:], reason="needs setpriv, of util-linux")
def test_a_parent_that_is_killed_takes_the_measurement_with_it(runs_dir, clean_host):
    need("netns")
    with attending() as process:
        process.kill()
    assert host.settled(clean_host, within_s=5.0), host.difference(clean_host)
    assert not list(runs_dir.glob("throughput/*"))


@pytest.mark.parametrize(
    ("way", "backend"),
    [(blocking, "netns"), (in_a_loop, "netns"), (blocking, "docker")],
    ids=["blocking", "in_a_loop", "docker"],
)
def test_a_killed_child_is_a_failed_measurement_reported_when_the_host_is_clean(way, backend, runs_dir, clean_host):
    need(backend)
    kill = when_it_sends(lambda: the_child().kill())
    with pytest.raises(
        MeasurementFailed, match=r"was killed \(SIGKILL\); its testbed was removed; does `dmesg` report"
    ):
        way(LONG.replace(backend=backend), on_phase=kill)
    assert no_process_left(clean_host)
    assert not list(runs_dir.glob("throughput/*"))
