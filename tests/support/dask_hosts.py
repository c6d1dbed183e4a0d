"""Two hosts of a cluster in namespaces of this machine, each with a Docker daemon and a worker of Dask, and a third
that has the scheduler and a sweep.

`python -m tests.support.dask_hosts SWEEP IMAGE`, in network, mount and PID namespaces of its own (command), measures
SWEEP there and prints what `pairlab sweep --json` does. IMAGE: an archive of the containers' image. PAIRLAB_RUNS has
the runs.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from pyroute2 import IPRoute

from pairlab.testbed.docker.hosts import DOCKERD
from pairlab.testbed.links.lan import Daemon, in_memory
from tests.support.dask_workers import PAIRLAB, ROOT

APART = ("unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
PORT = 8786
HOSTS = (1, 2)


def command(sweep, image):
    return [*APART, sys.executable, "-m", "tests.support.dask_hosts", str(sweep), str(image)]


def main(sweep, image):
    """The host of the scheduler. The others connect to it by a link each."""
    in_memory(Path("/run"))
    argv = [*PAIRLAB, "scheduler", "--host", "0.0.0.0", "--port", str(PORT)]
    scheduler = subprocess.Popen(argv, stdout=subprocess.PIPE)
    scheduler.stdout.readline()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    workers = []
    with IPRoute() as ipr:
        ipr.link("set", index=1, state="up")
        for number in HOSTS:
            argv = [*APART, sys.executable, "-m", "tests.support.dask_hosts", "--host", str(number), image]
            worker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
            worker.stdout.readline()  # its namespaces are there
            inside, *_ = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
            ipr.link("add", ifname=f"to-{number}", kind="veth", peer={"ifname": "uplink", "net_ns_pid": int(inside)})
            _up(ipr, f"to-{number}", f"10.98.{number}.1")
            worker.stdin.write("linked\n")
            worker.stdin.flush()
            workers.append(worker)
    for worker in workers:
        assert "worker at" in worker.stdout.readline()
    done = subprocess.run([*PAIRLAB, "sweep", sweep, "--json", "--scheduler", f"tls://127.0.0.1:{PORT}"], check=False)
    for worker in workers:
        worker.kill()  # and with it all that is in its namespaces
        worker.wait()
    return done.returncode


def host(number, image):
    """One that measures: it has a link to the first, a Docker daemon with the image, and a worker."""
    print("here", flush=True)
    sys.stdin.readline()
    with IPRoute() as ipr:
        ipr.link("set", index=1, state="up")
        _up(ipr, "uplink", f"10.98.{number}.2")
    socket.sethostname(f"host-{number}")
    for shared in ("/run", "/dev/shm"):  # the second has the lock that machines have one of
        in_memory(Path(shared))
    place = Path("/run/host")  # in memory, and gone with this host
    place.mkdir()
    if number == HOSTS[-1]:
        os.sched_setaffinity(0, {0})  # hosts differ: this one may use one CPU
    argv = [DOCKERD.path(), "--host", "unix:///run/docker.sock", "--data-root", str(place / "data")]
    argv += ["--config-file", "", "--exec-opt", "native.cgroupdriver=cgroupfs"]
    daemon = Daemon(f"dockerd of host {number}", argv, place)
    daemon.await_ready(time.monotonic() + 60, None)
    subprocess.run(["docker", "load", "--quiet", "--input", image], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([*PAIRLAB, "worker", "--scheduler", f"tls://10.98.{number}.1:{PORT}"]).returncode


def _up(ipr, name, address):
    (index,) = ipr.link_lookup(ifname=name)
    ipr.addr("add", index=index, address=address, prefixlen=24)
    ipr.link("set", index=index, state="up")


if __name__ == "__main__":
    if sys.argv[1] == "--host":
        sys.exit(host(int(sys.argv[2]), sys.argv[3]))
    sys.exit(main(*sys.argv[1:]))
