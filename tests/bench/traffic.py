"""Traffic from a distribution over loopback: its load, its sizes, and Empirical Traffic Generator beside it.

`make bench ETG=path`, or ETG=path in the environment, names the folder in which it was built
(github.com/datacenter/empirical-traffic-gen).
"""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from pairlab import paths
from pairlab.model.traffic import flow_records, flow_sizes
from tests.bench.table import leave_out, note, out
from tests.support.flow_sizes import ks_p

CDF = flow_sizes.FOLDER / "prv2-1.txt"
ETG_PORT, OUR_PORT = 5050, 5051
_ETG_FLOW = re.compile(r"Size:(\d+), Duration\(usec\):(\d+)")


@contextlib.contextmanager
def loopback():
    """The words to put before a command so that it runs in a network namespace with a loopback of its own."""
    flowgen = str(paths.flowgen())
    own = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    holder = subprocess.Popen([*own, f'ip link set lo up && echo up && exec "{flowgen}" pause'], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"up\n", "no network namespace: unshare --user --net must be allowed"
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
        time.sleep(0.3)  # Empirical Traffic Generator's takes a connection for a client
        yield
    finally:
        server.kill()
        server.wait()


def traffic(within, file, *options):
    """What flowgen traffic says, and its flows."""
    argv = [*within, str(paths.flowgen()), "traffic", "--server", f"127.0.0.1:{OUR_PORT}", "--sizes", str(CDF)]
    done = subprocess.run([*argv, "--records", str(file), *map(str, options)], capture_output=True, check=True)
    return json.loads(done.stdout), flow_records.read(file)


def load_and_sizes(seconds=30, requests=250_000):
    """The load of 1 Gbit/s, and the sizes of so many flows."""
    sizes = flow_sizes.read(CDF)
    with tempfile.TemporaryDirectory() as place, loopback() as within:
        file = Path(place) / "flows"
        with serving(*within, str(paths.flowgen()), "server", "--port", str(OUR_PORT), "--answer"):
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


def over_etg(n=7, closed=50_000, opened=10_000):
    """Flows per second in a closed loop, and p99 of FCT at 1 Gbit/s, over Empirical Traffic Generator's, in turn."""
    etg = os.environ.get("ETG")
    what = (
        "closed loop, 16 requests at once on one connection: flows/s over Empirical Traffic Generator's, which has one"
    )
    if not etg:
        return leave_out(what, "ETG is not set: build github.com/datacenter/empirical-traffic-gen, and name its folder")
    rates, apart, alone, tails = [], [], [], []
    with tempfile.TemporaryDirectory() as place, loopback() as within:
        folder, flowgen = Path(place), str(paths.flowgen())
        shutil.copy(CDF, folder / "cdf")
        with (
            serving(*within, f"{etg}/bin/server", "-p", str(ETG_PORT)),
            serving(*within, flowgen, "server", "--port", str(OUR_PORT), "--answer"),
        ):
            for turn in range(n):
                theirs_s, _ = _etg(etg, within, folder, closed, "0", turn)
                options = ["--load", 0, "--requests", closed, "--seed", turn]
                together = ["--at-once", 16, "--connections", 1, "--per-connection", 16]
                for ratios, more in ((rates, together), (apart, ["--at-once", 16]), (alone, [])):
                    ratios.append(theirs_s / _wall_s(traffic, within, folder / "flows", *options, *more))
                _, theirs = _etg(etg, within, folder, opened, "1000Mbps", turn)
                _, flows = traffic(within, folder / "flows", "--load", 10**9, "--requests", opened, "--seed", turn)
                ours = (flows["completed_ns"] - flows["start_ns"]) / 1e3  # as theirs: from when it was asked for
                tails.append(np.percentile(ours, 99) / np.percentile(theirs, 99))
    note(what, rates, "≥ 2", statistics.median(rates) >= 2)
    for words, ratios in (("each on a connection of its own", apart), ("with one request at once", alone)):
        out.print(f"  {words}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    note("1 Gbit/s: p99 of FCT over Empirical Traffic Generator's", tails, "≤ 1", statistics.median(tails) <= 1)


def _wall_s(call, *arguments):
    begun = time.monotonic()
    call(*arguments)
    return time.monotonic() - begun


def _etg(etg, within, folder, requests, load, seed):
    """Its wall time, and the completion times of its flows in microseconds."""
    lines = [
        f"server 127.0.0.1 {ETG_PORT}",
        "req_size_dist cdf",
        "fanout 1 100",
        f"load {load}",
        f"num_reqs {requests}",
    ]
    (folder / "config").write_text("\n".join(lines) + "\n")
    argv = [*within, f"{etg}/bin/client", "-c", "config", "-l", "etg", "-s", str(seed + 1)]
    begun = time.monotonic()
    subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    took_s = time.monotonic() - begun
    return took_s, [int(took) for _, took in _ETG_FLOW.findall((folder / "etg_flows.out").read_text())]
