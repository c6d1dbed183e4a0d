"""`make bench`: how fast pairlab is, as ratios measured in turn in one run, each beside its bound.

What a machine lacks (Mininet, Docker, root) is said and left out. Every figure is a median of n, with its range.
"""

import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

from pairlab import Spec, experiments, open_testbed, paths
from pairlab.analysis import quantiles, texlive
from pairlab.measurement import READY_S, measure
from pairlab.testbed import image, registry
from pairlab.testbed.contracts import Endpoint
from pairlab.testbed.namespaces import inside, new_namespaces
from pairlab.testbed.telemetry import CpuTelemetry
from tests import bench_analysis

out = Console(highlight=False)
table = Table("what", "median", "range", "n", "bound", "met", title="pairlab bench")

MININET = """
import json, sys, time
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
from mininet.topo import SingleSwitchTopo
setLogLevel("error")
begun = time.monotonic()
net = Mininet(topo=SingleSwitchTopo(k=int(sys.argv[1])), switch=LinuxBridge, controller=None)
net.start()
up = time.monotonic()
net.stop()
print(json.dumps([up - begun, time.monotonic() - up]))
"""


def note(what, values, bound, met, unit=""):
    values = sorted(values)
    shown = [f"{value:.3g}{unit}" for value in (statistics.median(values), values[0], values[-1])]
    table.add_row(what, shown[0], f"{shown[1]} to {shown[2]}", str(len(values)), bound, "yes" if met else "[red]NO[/]")
    out.print(f"{what}: {shown[0]} ({shown[1]} to {shown[2]}, n={len(values)}), bound {bound}")


def leave_out(what, why):
    table.add_row(what, "left out", why, "", "", "")


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


def mininet(hosts):
    """Mininet in namespaces of its own: it changes sysctls and kills by name."""
    inside = 'mount -t tmpfs tmpfs /run && exec /usr/bin/python3 -c "$0" "$1"'
    command = ["unshare", "-nmpf", "--mount-proc", "sh", "-c", inside, MININET, str(hosts)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def bench_mininet(n=5):
    what = "netns, bridge, 50 pairs: {} over Mininet's (LinuxBridge, 100 hosts)"
    if os.geteuid() or subprocess.run(["/usr/bin/python3", "-c", "import mininet"], capture_output=True).returncode:
        return leave_out(what.format("time"), "needs root, and apt-get install mininet")
    ups, downs = [], []
    for _ in range(n):
        ours, theirs = up_and_down(Spec(pairs=50)), mininet(100)
        out.print(f"  ours {ours[0]:.2f} up {ours[1]:.2f} down, Mininet {theirs[0]:.2f} up {theirs[1]:.2f} down")
        ups.append(ours[0] / theirs[0])
        downs.append(ours[1] / theirs[1])
    note(what.format("up"), ups, "≤ 0.333", statistics.median(ups) <= 1 / 3)
    note(what.format("down"), downs, "≤ 0.333", statistics.median(downs) <= 1 / 3)


def bench_growth(n=5):
    ratios = []
    for _ in range(n):
        small, large = sum(up_and_down(Spec(pairs=50))), sum(up_and_down(Spec(pairs=150)))
        ratios.append(large / small)
    note("netns, bridge: 150 pairs over 50, up and down", ratios, "≤ 3.5", statistics.median(ratios) <= 3.5)


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


def docker_lacks():
    backend = registry.backends.get("docker")()
    return "; ".join(map(str, backend.lacks()))


def bench_docker(n=3):
    what = "docker, bridge, 25 pairs: {} over `docker run` all at once"
    if lacks := docker_lacks():
        return leave_out(what.format("time"), lacks)
    with open_testbed(Spec(backend="docker", pairs=1)):
        pass  # the image is built now
    ups, downs = [], []
    for _ in range(n):
        ours = up_and_down(Spec(backend="docker", pairs=25))
        theirs = shell_docker("pairlab-bench", 50)
        out.print(f"  ours {ours[0]:.2f} up {ours[1]:.2f} down, shell {theirs[0]:.2f} up {theirs[1]:.2f} down")
        ups.append(ours[0] / theirs[0])
        downs.append(ours[1] / theirs[1])
    note(what.format("up"), ups, "≤ 1.2", statistics.median(ups) <= 1.2)
    note(what.format("down"), downs, "≤ 1.2", statistics.median(downs) <= 1.2)


def bench_skew(n=9):
    with tempfile.TemporaryDirectory() as place:
        runs = [
            measure(Spec(pairs=50, duration_s=1, workload="flowgen", repetition=k, max_skew_s=5), root=Path(place))
            for k in range(n)
        ]
    skews = [run.skew_s * 1e3 for run in runs]
    note("release skew of 50 netns clients", skews, "≤ 15 ms", statistics.median(skews) <= 15, " ms")
    if lacks := docker_lacks():
        return leave_out("docker exec -d in a loop over our release skew", lacks)
    spreads = [exec_loop(50) * 1e3 for _ in range(3)]
    ratios = [spread / statistics.median(skews) for spread in spreads]
    note("docker exec -d in a loop over our release skew", ratios, "≥ 50", statistics.median(ratios) >= 50)


def exec_loop(count):
    """Seconds between the first and the last start of `count` clients started by `docker exec -d`, one by one."""
    name = "pairlab-bench-exec"
    subprocess.run(["docker", "run", "--detach", "--name", name, image.tag(), "sleep", "1000"], capture_output=True)
    try:
        for index in range(count):
            subprocess.run(["docker", "exec", "-d", name, "sh", "-c", f"date +%s%N > /t{index}"], check=True)
        time.sleep(0.5)
        told = subprocess.run(["docker", "exec", name, "sh", "-c", "cat /t*"], capture_output=True, text=True).stdout
        moments = [int(line) for line in told.split()]
        assert len(moments) == count
        return (max(moments) - min(moments)) / 1e9
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True)


def bench_nothing_lost(n=9, pairs=10, seconds=3):
    what = "total throughput, 10 pairs: with barrier and telemetry over the same commands by hand"
    iperf = registry.workloads.get("iperf")()
    if any(program.lack() for program in iperf.programs):
        return leave_out(what, "needs iperf: make tools")
    spec = Spec(pairs=pairs, duration_s=seconds, workload="iperf")
    ratios = []
    with open_testbed(spec) as bed:
        servers = bed.conductor.start(
            [(pair.server, iperf.server(pair, spec, bed.site)) for pair in bed.pairs],
            listen=[pair.port for pair in bed.pairs],
        )
        bed.conductor.wait_ready(servers, READY_S)
        for turn in range(n):
            ways = [with_harness, by_hand] if turn % 2 else [by_hand, with_harness]
            totals = {way: way(bed, iperf, spec) for way in ways}
            ratios.append(totals[with_harness] / totals[by_hand])
    note(what, ratios, "≥ 0.98", statistics.median(ratios) >= 0.98)


def with_harness(bed, workload, spec):
    gate = bed.conductor.gate()
    commands = [(pair.client, workload.client(pair, spec, bed.site)) for pair in bed.pairs]
    clients = bed.conductor.start(commands, gate=gate)
    bed.conductor.wait_ready(clients, READY_S)
    with CpuTelemetry(spec.interval_s):
        gate.release()
        bed.conductor.wait_ended(clients, spec.total_s + 10)
    return total_bps(workload, [client.stdout for client in bed.conductor.results(clients)])


def total_bps(workload, texts):
    return sum(measured.flow["throughput_bps"] for text in texts for measured in workload.parse(text))


def by_hand(bed, workload, spec):
    """One shell in the sandbox starts every client in its namespace, in the background, and waits."""
    where, start = [], []
    for pair in bed.pairs:
        inode = pair.client.run(["readlink", "/proc/self/ns/net"]).stdout.strip()
        command = " ".join(workload.client(pair, spec, bed.site))
        where.append(f'at{pair.index}=$(of "{inode}")')
        start.append(f"nsenter --net=$at{pair.index} {command} > {bed.site.directory}/hand-{pair.index} &")
    of = 'of() { for f in /proc/1/fd/*; do [ "$(readlink $f)" = "$1" ] && echo $f && break; done; }'
    sandbox = Endpoint("sandbox", "", bed.conductor.run)
    done = sandbox.run(["sh", "-c", "\n".join([of, *where, *start, "wait"])], timeout_s=spec.total_s + 20)
    assert done.returncode == 0, done.stderr
    texts = [Path(bed.site.directory, f"hand-{pair.index}").read_text() for pair in bed.pairs]
    return total_bps(workload, texts)


def bench_cell(n=7):
    costs = []
    with tempfile.TemporaryDirectory() as place:
        os.environ["PAIRLAB_RUNS"] = place
        experiments.run("throughput", {"pairs": 10, "repetition": 1000})  # the first warms the disk's cache
        for repetition in range(n):
            begun = time.monotonic()
            run = experiments.run("throughput", {"pairs": 10, "repetition": repetition})
            costs.append(time.monotonic() - begun - run.spec.total_s)
    note("a sweep cell above its traffic (netns, 10 pairs)", costs, "≤ 3 s", statistics.median(costs) <= 3, " s")


def bench_paper(n=3):
    """All analysis notebooks over the reference runs, and the paper; one process after the other, as a user has it."""
    what = "all analysis notebooks and the paper over runs/reference"
    if missing := texlive.missing():
        return leave_out(what, f"no {', '.join(missing)}")
    took = []
    for _ in range(n):
        with tempfile.TemporaryDirectory() as place:
            command = [
                sys.executable,
                "-c",
                "from pairlab.cli import main; main()",
                "report",
                "--runs",
                "runs/reference",
            ]
            begun = time.monotonic()
            subprocess.run(
                [*command, "--runs", "runs/reference", "--need-paper"],
                env=os.environ | {"PAIRLAB_OUT": place},
                cwd=paths.ROOT,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            took.append(time.monotonic() - begun)
    note(what, took, "< 180 s", max(took) < 180, " s")


def bench_flows(n=7):
    """Ten million flows: percentiles with intervals and CDFs of 12 groups, beside DuckDB's bare quantiles."""
    what = "10 million flows loaded and reduced over DuckDB's bare scan and quantiles"
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        bench_analysis.write_runs(root)
        ratios, peaks = [], []
        for turn in range(-1, n):  # the first warms the disk's cache
            sides = ["ours", "duckdb"] if turn % 2 else ["duckdb", "ours"]
            took = {side: bench_analysis.apart(side, root) for side in sides}
            out.print(f"  ours {took['ours']['took_s']:.2f} s, DuckDB {took['duckdb']['took_s']:.2f} s")
            if turn >= 0:
                ratios.append(took["ours"]["took_s"] / took["duckdb"]["took_s"])
                peaks.append(took["ours"]["peak_bytes"] / 1e9)
        note(what, ratios, "≤ 3", statistics.median(ratios) <= 3)
        note("the same: largest memory of its process", peaks, "< 2 GB", max(peaks) < 2, " GB")
        drawn = bench_analysis.apart("figure", root)
        for kind in ("pdf", "pgf"):
            if kind in drawn:
                size = drawn[kind] / 1e3
                note(f"a CDF figure of 10 million flows, {kind.upper()}", [size], "< 500 kB", size < 500, " kB")


def bench_coverage(times=500):
    """How often 95 % intervals hold the quantile of clustered log-normal flows; one value per case."""
    random, held = np.random.default_rng(1), []
    for repetitions, flows, q, between in itertools.product((3, 4, 5, 10), (100, 1000), (0.5, 0.9, 0.99), (0, 0.1)):
        if repetitions * flows * (1 - q) < 5:
            continue
        true = np.exp(norm.ppf(q) * np.hypot(between, 0.4))
        repetition = np.repeat(range(repetitions), flows)
        inside_it = 0
        for _ in range(times):
            drift = np.repeat(random.normal(0, between, repetitions), flows)
            values = np.exp(drift + random.normal(0, 0.4, len(drift)))
            found = quantiles.percentile(values, repetition, q, resamples=300)
            inside_it += found.low <= true <= found.high
        held.append(100 * inside_it / times)
    what = "95 % intervals of p50, p90, p99 hold the quantile (3 to 10 repetitions)"
    note(what, held, "90 to 98 %", 90 <= statistics.median(held) <= 98 and min(held) > 85, " %")


def main():
    known = {name[6:]: function for name, function in globals().items() if name.startswith("bench_")}
    for name in sys.argv[1:] or known:
        if name not in known:
            sys.exit(f"bench: no {name!r}; there are: {', '.join(known)}")
        known[name]()
    out.print(table)


if __name__ == "__main__":
    main()
