"""Traffic from a distribution over loopback: its load, and its sizes."""

import contextlib
import json
import subprocess
import tempfile
import time
from pathlib import Path

from bench.table import lacking, leave_out, note, out
from pairlab import paths
from pairlab.errors import Unavailable
from pairlab.model import flow_records, flow_sizes
from pairlab.testbed.requirements import Program
from tests.support.flow_sizes import ks_p

CDF = flow_sizes.FOLDER / "prv2-1.txt"
PORT = 5051
WHAT = "flowgen traffic over loopback: load and sizes"
OF_LOOPBACK = (Program("unshare", "util-linux"), Program("nsenter", "util-linux"), Program("ip", "iproute2"))


@contextlib.contextmanager
def loopback():
    """The words to put before a command so that it runs in a network namespace with a loopback of its own.

    Raises Unavailable where none can be made.
    """
    flowgen = str(paths.flowgen())
    own = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    holder = subprocess.Popen([*own, f'ip link set lo up && echo up && exec "{flowgen}" pause'], stdout=subprocess.PIPE)
    try:
        if holder.stdout.readline() != b"up\n":
            raise Unavailable("no network namespace: unshare --user --net must be allowed")
        yield ["nsenter", "--user", "--net", "--preserve-credentials", "--target", str(holder.pid)]
    finally:
        holder.terminate()
        holder.wait()
        holder.stdout.close()


@contextlib.contextmanager
def serving(*argv):
    """A server, from when it listens on."""
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        yield
    finally:
        server.kill()
        server.wait()


def traffic(within, file, *options):
    """What flowgen traffic says, and its flows."""
    argv = [*within, str(paths.flowgen()), "traffic", "--server", f"127.0.0.1:{PORT}", "--sizes", str(CDF)]
    done = subprocess.run([*argv, "--records", str(file), *map(str, options)], capture_output=True, check=True)
    return json.loads(done.stdout), flow_records.read(file)


def load_and_sizes(seconds=30, requests=250_000):
    """The load of 1 Gbit/s, and the sizes of so many flows."""
    if lacks := lacking(*OF_LOOPBACK):
        return leave_out(WHAT, lacks)
    try:
        _load_and_sizes(seconds, requests)
    except Unavailable as error:
        leave_out(WHAT, str(error))


def _load_and_sizes(seconds, requests):
    sizes = flow_sizes.read(CDF)
    with tempfile.TemporaryDirectory() as place, loopback() as within:
        file = Path(place) / "flows"
        with serving(*within, str(paths.flowgen()), "server", "--port", str(PORT), "--answer"):
            said, flows = traffic(within, file, "--load", 10**9, "--duration", seconds)
            offered = 100 * 8 * flows["flow_bytes"].sum() / said["schedule_s"] / 1e9
            what = f"traffic at 1 Gbit/s for {seconds} s: offered over asked"
            note(what, [offered], "99 to 101", 99 <= offered <= 101, " %")
            achieved = 100 * said["achieved_bps"] / 1e9
            note("the same: achieved over asked", [achieved], "98 to 102", 98 <= achieved <= 102, " %")
            out.print(f"  the latest flow began {1e3 * said['most_late_s']:.1f} ms after it was due")
            _, flows = traffic(within, file, "--load", 0, "--requests", requests, "--at-once", 16)
            p = ks_p(flows["flow_bytes"], sizes)
            note(f"sizes of {requests:,} flows: p of a KS test against their CDF", [p], "> 0.001", p > 0.001)
