"""How long a container takes to answer a ping: as launch-time measures it, and by `docker run` timed from outside."""

import contextlib
import ipaddress
import shutil
import statistics
import subprocess
import time

from pairlab import Spec, measure
from pairlab.testbed.docker import image
from tests.bench.table import leave_out, note, out
from tests.bench.testbed import docker_lacks

NETWORK, CONTAINER = "pairlab-bench-launch", "pairlab-bench-launched"
#: Started anew until one is answered: each waits no longer than this, so that an early one delays nothing.
PING = ("ping", "-c1", "-W0.01", "-n", "-q")


def over_docker_run_and_ping(n=10):
    """A launch as pairlab measures it must not take longer than a container that a user starts and pings."""
    what = "docker, bridge: launch to first ping over `docker run` and a ping, by hand"
    if lacks := docker_lacks() or ("" if shutil.which("ping") else "sudo apt-get install iputils-ping"):
        return leave_out(what, lacks)
    spec = Spec(backend="docker", experiment="launch-time", launches=1)
    measure(spec, fresh=True)  # the image is built, and what is loaded the first time is
    ratios = []
    with _network() as address:
        by_hand_s(address)
        for _ in range(n):
            (ours_s,) = measure(spec, fresh=True).launches["first_ping_s"]
            theirs_s = by_hand_s(address)
            out.print(f"  ours {ours_s:.3f} s, by hand {theirs_s:.3f} s")
            ratios.append(ours_s / theirs_s)
    note(what, ratios, "≤ 1.05", statistics.median(ratios) <= 1.05, "", "launch_over_docker_run_and_ping")


def by_hand_s(address):
    """Seconds from the command `docker run` until that container, at this address, answered a ping of the host."""
    begun_s = time.monotonic()
    run = ["docker", "run", "--detach", "--init", "--network", NETWORK, "--ip", address, "--name", CONTAINER]
    subprocess.run([*run, image.tag(), "sleep", "1000"], check=True, stdout=subprocess.DEVNULL)
    while subprocess.run([*PING, address], stdout=subprocess.DEVNULL).returncode:
        pass
    took_s = time.monotonic() - begun_s
    subprocess.run(["docker", "rm", "--force", CONTAINER], check=True, stdout=subprocess.DEVNULL)
    return took_s


@contextlib.contextmanager
def _network():
    """A network of Docker; yields an address that a container can have there."""
    subnet = ipaddress.ip_network("10.199.77.0/24")
    create = ["docker", "network", "create", "--driver", "bridge", "--subnet", str(subnet), NETWORK]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
    try:
        yield str(subnet[10])
    finally:
        subprocess.run(["docker", "rm", "--force", CONTAINER], capture_output=True)
        subprocess.run(["docker", "network", "rm", NETWORK], check=True, stdout=subprocess.DEVNULL)
