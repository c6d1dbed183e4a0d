"""Round trips of a small message: over every network, where nothing else is sent; and by rr beside other tools."""

import os
import re
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pandas as pd

from bench.table import lacking, leave_out, missing, note, out
from pairlab import Spec, measure, open_testbed, paths
from pairlab.errors import PairlabError
from pairlab.model import latencies
from pairlab.testbed import registry
from pairlab.testbed.requirements import Program

#: sockperf(3.7) prints half a round trip at each percentile.
_PERCENTILE = re.compile(r"percentile (50|99)\.000 = +([\d.]+)")
SECONDS, MESSAGE_BYTES = 3, 64

#: Of sockperf(3.7), the least that a message has; and the time and round trips that it counts.
SOCKPERF_BYTES = 14
_COUNTED = re.compile(r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=\d+; ReceivedMessages=(\d+)")
#: netperf's transactions per second: the one number of its line with -P 0 -o THROUGHPUT.
_NETPERF = re.compile(r"^([\d.]+)$", re.MULTILINE)

#: Prints how many ns it takes to record a time, of many that are no two alike.
RECORDING = """
#include <stdio.h>
#include "histogram.h"
#include "monotonic.h"
enum { TIMES = 1 << 14, ROUNDS = 1000 };
static uint64_t times[TIMES];
static struct histogram histogram;
int main(void) {
    uint64_t state = 1;
    for (int i = 0; i < TIMES; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        times[i] = 10000 + (state >> 33) % (UINT64_C(1) << (10 + (state >> 60)));
    }
    uint64_t begun_ns = monotonic_ns();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < TIMES; i++)
            histogram_record(&histogram, times[i]);
    printf("%f\\n", (double)(monotonic_ns() - begun_ns) / ((double)TIMES * ROUNDS));
}
"""


def networks(backends=None, drivers=None, seconds=SECONDS):
    """The median and the p99 of round trips over each network that this machine has, in microseconds."""
    for backend in backends or registry.backends.names():
        for name in drivers or registry.drivers.names():
            driver = registry.drivers.get(name)
            for hosts in (1, 2):
                asked = {"hosts": 2, "placement": "across"} if hosts == 2 else {}
                if driver.carries_traffic and (hosts == 1 or driver.spans_hosts):
                    _one(Spec(backend=backend, driver=name, pairs=1, workload="sockperf", **asked), seconds)


def _one(spec, seconds):
    what = f"{spec.backend}, {spec.driver}, {spec.hosts} host{'s' * (spec.hosts > 1)}: round trip"
    if lacks := missing(spec):
        return leave_out(what, lacks)
    try:
        with open_testbed(spec) as bed:
            found = _round_trips_us(bed, seconds)
    except PairlabError as error:
        return leave_out(what, str(error))
    out.print(f"{what}: p50 {found['50']:.1f} µs, p99 {found['99']:.1f} µs")


def _round_trips_us(bed, seconds):
    done = _sockperf(bed, seconds, MESSAGE_BYTES)
    return {percentile: 2 * float(half) for percentile, half in _PERCENTILE.findall(done)}


def transactions(n=15, seconds=2):
    """Round trips of one byte over p2p, by rr, sockperf's ping-pong and netperf's TCP_RR in turn on one testbed."""
    what = "one byte there and back, p2p: rr's {} over {}'s"
    rr = registry.workloads.get("rr")()
    spec = Spec(driver="p2p", workload="rr", pairs=1, duration_s=float(seconds), warmup_s=0.5)
    ways = {"rr": lambda bed: _by_rr(bed, rr, spec)}
    peers = {"sockperf": _by_sockperf, "netperf": _by_netperf}
    lacks = {name: lacking(*registry.workloads.get(name).programs) for name in peers}
    ways |= {name: partial(by, seconds=seconds) for name, by in peers.items() if not lacks[name]}
    found = {name: [] for name in ways}
    with open_testbed(spec) as bed:
        rr.prepare(spec, bed.directory)
        for turn in range(n):
            for name in list(ways)[:: -1 if turn % 2 else 1]:
                found[name].append(ways[name](bed))
    for name in ("sockperf", "netperf"):
        if name not in found:
            leave_out(what.format("transactions/s", name), lacks[name])
            continue
        rates = [ours[1] / theirs[1] for ours, theirs in zip(found["rr"], found[name], strict=True)]
        note(what.format("transactions/s", name), rates, at_least=0.97)
        if name == "sockperf":
            medians = [ours[0] / theirs[0] for ours, theirs in zip(found["rr"], found[name], strict=True)]
            note(what.format("p50", name), medians, at_most=1.05)


def exchanges(n=5, seconds=1, sizes=(1, 4)):
    """Rounds of all-to-all by flowgen and by MPICH in turn, over a bridge, for so many pairs of ranks.

    Within 10 % of each other, whichever is faster. Where there are fewer CPUs than ranks, the bound says so:
    MPICH's ranks poll while they wait, and flowgen's sleep.
    """
    for pairs in sizes:
        what = f"all-to-all, {2 * pairs} ranks over a bridge: mean round of flowgen over MPICH's"
        spec = Spec(workload="mpi-all-to-all", pairs=pairs, duration_s=float(seconds), warmup_s=0.5, max_foreign_cpu=1)
        if lacks := missing(spec):
            leave_out(what, lacks)
            continue
        ratios = []
        for turn in range(n):
            found = {}
            for name in ("all-to-all", "mpi-all-to-all")[:: -1 if turn % 2 else 1]:
                with tempfile.TemporaryDirectory() as root:
                    run = measure(spec.replace(workload=name, repetition=turn), root=Path(root))
                    found[name] = latencies.mean_of_flows(run.transactions, run.flows)
            ratios.append(found["all-to-all"] / found["mpi-all-to-all"])
        enough_cpus = (os.cpu_count() or 1) >= 2 * pairs
        bound = "0.9 to 1.1" + " (fewer CPUs than ranks)" * (not enough_cpus)
        note(what, ratios, bound, 0.9 <= statistics.median(ratios) <= 1.1)


def _by_rr(bed, rr, spec):
    """The median in s, and transactions per second."""
    (pair,) = bed.pairs
    done = _beside_server(bed, rr.server(pair, spec, bed.site), rr.client(pair, spec, bed.site), pair.port)
    (measured,) = rr.parse(done)
    rows = pd.DataFrame(measured.latencies, columns=["latency_s", "count"])
    return latencies.quantile(rows, 0.5), measured.flow["transactions"] / measured.flow["duration_s"]


def _by_sockperf(bed, seconds):
    done = _sockperf(bed, seconds, SOCKPERF_BYTES)
    run_s, messages = _COUNTED.search(done).groups()
    return 2e-6 * float(dict(_PERCENTILE.findall(done))["50"]), int(messages) / float(run_s)


def _sockperf(bed, seconds, message_bytes):
    """What its ping-pong prints."""
    (pair,) = bed.pairs
    server = ["sockperf", "server", "--tcp", "-i", pair.server.address, "-p", str(pair.port)]
    client = ["sockperf", "ping-pong", "--tcp", "-i", pair.target, "-p", str(pair.port)]
    return _beside_server(bed, server, [*client, "-t", str(seconds), "-m", str(message_bytes)], pair.port)


def _by_netperf(bed, seconds):
    (pair,) = bed.pairs
    server = ["netserver", "-D", "-L", pair.server.address, "-p", str(pair.port)]
    client = ["netperf", "-H", pair.target, "-p", str(pair.port), "-t", "TCP_RR", "-l", str(seconds), "-P", "0"]
    done = _beside_server(bed, server, [*client, "--", "-r", "1,1", "-o", "THROUGHPUT"], pair.port)
    return None, float(_NETPERF.search(done)[1])


def _beside_server(bed, server, client, port):
    """What the client prints, with a server of its own."""
    (pair,), launcher = bed.pairs, bed.launcher
    servers = launcher.start([(pair.server, server)], options=[["--listen", str(port)]])
    launcher.wait_ready(servers, 10)
    done = pair.client.run(client, timeout_s=60)
    launcher.stop(servers)
    launcher.results(servers)
    if done.returncode:
        raise PairlabError(f"{client[0]} failed: {done.stderr or done.stdout}")
    return done.stdout


def histogram(n=9):
    """What it costs to record a latency."""
    what = "recording a latency in flowgen's histogram"
    if lacks := lacking(Program("cc", "gcc")):
        return leave_out(what, lacks)
    with tempfile.TemporaryDirectory() as place:
        program = Path(place, "recording")
        program.with_suffix(".c").write_text(RECORDING)
        include = paths.ROOT / "lib" / "flowgen" / "src"
        build = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-I", str(include), "-o", str(program)]
        subprocess.run([*build, f"{program}.c"], check=True)
        values = [float(subprocess.run([program], check=True, capture_output=True, text=True).stdout) for _ in range(n)]
    note(what, values, at_most=30, unit=" ns")
