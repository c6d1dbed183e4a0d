"""Killed amid a launch, the measuring process leaves nothing: no container or namespace of a launch, nor of its bed."""

import signal
import subprocess

import pytest

from pairlab import Spec
from tests.conftest import diagonal, need, need_all_of
from tests.faults.forked import Forked

LAUNCHING = """
import sys
from pairlab import Spec, measure
backend, driver, hosts = sys.argv[1:]
spread = dict(hosts=int(hosts), placement="across") if int(hosts) > 1 else {}
measure(
    Spec(backend=backend, driver=driver, launches=1000, pairs=3, **spread),
    fresh=True,
    progress=lambda phase, done, total: print(phase, done, flush=True),
)
"""
#: After the first launch, in s: what a launch takes is some 10 ms in namespaces, and some 500 ms in Docker.
MOMENTS_S = {"netns": (0, 0.007, 0.02, 0.05), "docker": (0.05, 0.2, 0.35, 0.6)}

pytestmark = pytest.mark.usefixtures("runs_dir", "forking", "before_flows")


def killed_after(moment_s, *words):
    """Kills it that long after the second round of launches has begun."""
    with Forked(LAUNCHING, *words) as process:
        assert any(line == "launching 1\n" for line in process.stdout), process.complaint()
        with pytest.raises(subprocess.TimeoutExpired):  # a moment, and not an event, is what this is about
            process.wait(moment_s)
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("driver", "moment_s"), diagonal(("bridge", "overlay"), MOMENTS_S["netns"]))
def test_killed_amid_a_launch_in_namespaces_nothing_is_left(driver, moment_s, clean):
    hosts = 2 if driver == "overlay" else 1
    need_all_of(Spec(driver=driver, launches=1, hosts=hosts, placement="across" if hosts > 1 else "same-host"))
    killed_after(moment_s, "netns", driver, hosts)
    clean()


@pytest.mark.parametrize(("driver", "moment_s"), diagonal(("bridge", "macvlan"), MOMENTS_S["docker"]))
def test_killed_amid_a_launch_in_docker_nothing_is_left(driver, moment_s, clean):
    need("docker", driver)
    killed_after(moment_s, "docker", driver, 1)
    clean()
