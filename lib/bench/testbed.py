"""How long testbeds take to come up and go: beside Mininet's, beside `docker run`, and the more pairs they have.

And how long a container takes to answer a ping: as launch-time measures it, and by `docker run` timed from outside.
"""

import contextlib
import ipaddress
import json
import os
import socket
import subprocess
import time

from bench.table import DOCKER_CLI, lacking, leave_out, missing, note, out
from pairlab import Spec, measure, open_testbed
from pairlab.testbed.docker import image
from pairlab.testbed.links.namespaces import inside, new_namespaces
from pairlab.testbed.requirements import Program

DOCKER = Spec(backend="docker")
#: Debian's, which has the package mininet; and what its LinuxBridge runs.
PYTHON = "/usr/bin/python3"
OF_MININET = (Program("mnexec", "mininet"), Program("brctl", "bridge-utils"), Program("ifconfig", "net-tools"))
MININET = """
import json, sys, time
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
from mininet.topo import LinearTopo
setLogLevel("error")
begun = time.monotonic()
net = Mininet(topo=LinearTopo(k=int(sys.argv[1]), n=int(sys.argv[2])), switch=LinuxBridge, controller=None)
net.start()
up = time.monotonic()
net.stop()
print(json.dumps([up - begun, time.monotonic() - up]))
"""


def up_and_down(spec):
    """Seconds to bring a testbed up, and to take it down until the kernel has cleaned up behind it."""
    begun = time.monotonic()
    with open_testbed(spec):
        up = time.monotonic()
    kernel_caught_up()
    return up - begun, time.monotonic() - up


def kernel_caught_up():
    """Returns when the kernel has destroyed every network namespace that died before (root only).

    It destroys them in order, behind our back. So one more dies, last, with one end of a veth pair in it: when the
    other end disappears, all before it are gone.
    """
    if os.geteuid():
        return
    from pyroute2 import IPRoute

    ours, last = new_namespaces(2)
    with inside(ours), IPRoute() as ipr:
        peer = {"ifname": "there", "net_ns_fd": f"/proc/{os.getpid()}/fd/{last}"}
        ipr.link("add", ifname="here", kind="veth", peer=peer)
        os.close(last)
        while "here" in (name for _, name in socket.if_nameindex()):
            time.sleep(0.002)
    os.close(ours)


def missing_mininet():
    """What this machine lacks for Mininet, in words; empty: nothing."""
    if lacks := lacking(*OF_MININET, root=True):
        return lacks
    there = (
        os.path.exists(PYTHON) and not subprocess.run([PYTHON, "-c", "import mininet"], capture_output=True).returncode
    )
    return "" if there else f"{PYTHON} has no mininet: sudo apt-get install mininet"


def mininet(switches, hosts):
    """Seconds that Mininet takes to bring up linked switches, so many hosts at each, and to take them down.

    In namespaces of its own: it changes sysctls and kills by name.
    """
    alone = 'mount -t tmpfs tmpfs /run && exec "$3" -c "$0" "$1" "$2"'
    command = ["unshare", "-nmpf", "--mount-proc", "sh", "-c", alone, MININET, str(switches), str(hosts), PYTHON]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def over_mininet(n=5, pairs=50):
    what = f"netns, bridge, {pairs} pairs: {{}} over Mininet's (LinuxBridge, {2 * pairs} hosts)"
    if lacks := missing_mininet():
        return leave_out(what.format("time"), lacks)
    beside(what, n, Spec(pairs=pairs), "Mininet", lambda: mininet(1, 2 * pairs), most=1 / 3)


def beside(what, n, spec, who, theirs, *, most):
    """Our seconds up and down over those that theirs() took, n times in turn; neither may be above `most`.

    A peer that fails is left out, with its last words.
    """
    ups, downs = [], []
    for _ in range(n):
        up, down = up_and_down(spec)
        try:
            their_up, their_down = theirs()
        except (OSError, subprocess.CalledProcessError) as error:
            last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
            return leave_out(what.format("time"), f"{who} failed: {last}")
        out.print(f"  ours {up:.2f} up {down:.2f} down, {who} {their_up:.2f} up {their_down:.2f} down")
        ups.append(up / their_up)
        downs.append(down / their_down)
    for way, ratios in (("up", ups), ("down", downs)):
        note(what.format(way), ratios, at_most=most)


#: How many pairs, by backend.
SIZES = {"netns": (50, 150, 500), "docker": (10, 50, 150)}


def growth(n=5, sizes=SIZES):
    """Time per pair must not grow with their number; a tenth more is the machine's noise."""
    growth_of("netns", sizes["netns"], n)
    if lacks := missing(DOCKER):
        return leave_out("docker: time per pair", lacks)
    growth_of("docker", sizes["docker"], min(n, 3))


def growth_of(backend, sizes, n):
    up_and_down(Spec(backend=backend))  # what is loaded and built once
    per_pair_ms = {pairs: [] for pairs in sizes}
    for _ in range(n):
        for pairs in sizes:
            took_s = sum(up_and_down(Spec(backend=backend, pairs=pairs)))
            per_pair_ms[pairs].append(1e3 * took_s / pairs)
        out.print(f"  {backend}: {', '.join(f'{pairs}: {took[-1]:.3g} ms' for pairs, took in per_pair_ms.items())}")
    for pairs, took in per_pair_ms.items():
        figure = f"{backend}_up_and_down_per_pair_of_{pairs}_ms"
        note(f"{backend}, bridge, {pairs} pairs: up and down, per pair", took, "none", True, " ms", figure)
    small, large = sizes[0], sizes[-1]
    ratios = [many / few for few, many in zip(per_pair_ms[small], per_pair_ms[large], strict=True)]
    what = f"{backend}, bridge: time per pair, {large} pairs over {small}"
    note(what, ratios, at_most=1.1, figure=f"{backend}_per_pair_{large}_over_{small}")


def shell_docker(network, count):
    """The same containers by `docker run`, given all at once from a shell; then removed likewise."""
    names = [f"pairlab-bench-{index}" for index in range(count)]
    run = " ".join(
        f"docker run --detach --network {network} --name {name} {image.tag()} sleep 1000 & " for name in names
    )
    begun = time.monotonic()
    subprocess.run(["sh", "-c", f"docker network create {network} >/dev/null; {run} wait"], stdout=subprocess.DEVNULL)
    up = time.monotonic()
    remove = " ".join(f"docker rm --force {name} & " for name in names)
    subprocess.run(["sh", "-c", f"{remove} wait; docker network rm {network}"], stdout=subprocess.DEVNULL)
    return up - begun, time.monotonic() - up


def over_docker_run(n=3, pairs=25):
    what = f"docker, bridge, {pairs} pairs: {{}} over `docker run` all at once"
    if lacks := missing(DOCKER, DOCKER_CLI):
        return leave_out(what.format("time"), lacks)
    with open_testbed(Spec(backend="docker", pairs=1)):
        pass  # the image is built now
    spec = Spec(backend="docker", pairs=pairs)
    beside(what, n, spec, "shell", lambda: shell_docker("pairlab-bench", 2 * pairs), most=1.2)


# --- launches

NETWORK, CONTAINER = "pairlab-bench-launch", "pairlab-bench-launched"
#: Started anew until one is answered: each waits no longer than this, so that an early one delays nothing.
PING = ("ping", "-c1", "-W0.01", "-n", "-q")


def over_docker_run_and_ping(n=10):
    """A launch as pairlab measures it must not take longer than a container that a user starts and pings."""
    what = "docker, bridge: launch to first ping over `docker run` and a ping, by hand"
    if lacks := missing(DOCKER, DOCKER_CLI, Program("ping", "iputils-ping")):
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
    note(what, ratios, at_most=1.05, figure="launch_over_docker_run_and_ping")


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
