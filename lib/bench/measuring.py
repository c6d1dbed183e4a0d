"""What measuring adds: how far apart clients start, what they lose to the harness, a sweep's cell above its traffic."""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.table import DOCKER_CLI, lacking, leave_out, missing, note
from pairlab import Spec, open_testbed
from pairlab.batch import experiments, kernels
from pairlab.measurement.getting_ready import READY_S
from pairlab.measurement.measure import measure
from pairlab.testbed import registry
from pairlab.testbed.contracts import no_progress
from pairlab.testbed.docker import image
from pairlab.testbed.host.cpu_sampler import CpuTelemetry


def skew(n=9, pairs=50, loops=3):
    with tempfile.TemporaryDirectory() as place:
        runs = [
            measure(
                Spec(pairs=pairs, duration_s=1, workload="flowgen", repetition=k, max_skew_s=5, max_foreign_cpu=1),
                root=Path(place),
                progress=no_progress,
            )
            for k in range(n)
        ]
    skews = [run.skew_s * 1e3 for run in runs]
    note(f"release skew of {pairs} netns clients", skews, at_most=15, unit=" ms")
    if lacks := missing(Spec(backend="docker"), DOCKER_CLI):
        return leave_out("docker exec -d in a loop over our release skew", lacks)
    with open_testbed(Spec(backend="docker", pairs=1)):
        pass  # the image is built now
    spreads = [exec_loop(pairs) * 1e3 for _ in range(loops)]
    ratios = [spread / statistics.median(skews) for spread in spreads]
    note("docker exec -d in a loop over our release skew", ratios, at_least=50)


def exec_loop(count):
    """Seconds between the first and the last start of `count` clients started by `docker exec -d`, one by one."""
    name = "pairlab-bench-exec"
    subprocess.run(
        ["docker", "run", "--detach", "--name", name, image.tag(), "sleep", "1000"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
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


def nothing_lost(n=9, pairs=10, seconds=3):
    what = f"total throughput, {pairs} pairs: with barrier and telemetry over the same commands by hand"
    iperf = registry.workloads.get("iperf")()
    if lacks := lacking(*iperf.programs):
        return leave_out(what, lacks)
    spec = Spec(pairs=pairs, duration_s=seconds, workload="iperf")
    ratios = []
    with open_testbed(spec) as bed:
        for turn in range(n):
            ways = [with_harness, by_hand] if turn % 2 else [by_hand, with_harness]
            totals = {way: carried_bps(way, bed, iperf, spec) for way in ways}
            ratios.append(totals[with_harness] / totals[by_hand])
    note(what, ratios, at_least=0.98)


def carried_bps(way, bed, workload, spec):
    """The total throughput of clients that were started that way; their servers are new ones, as they serve once."""
    servers = bed.launcher.start(
        [(pair.server, workload.server(pair, spec, bed.site)) for pair in bed.pairs],
        options=[["--listen", str(pair.port)] for pair in bed.pairs],
    )
    bed.launcher.wait_ready(servers, READY_S)
    total = way(bed, workload, spec)
    bed.launcher.stop(servers)
    return total


def with_harness(bed, workload, spec):
    gate = bed.launcher.gate()
    commands = [(pair.client, workload.client(pair, spec, bed.site)) for pair in bed.pairs]
    clients = bed.launcher.start(commands, gate=gate)
    bed.launcher.wait_ready(clients, READY_S)
    with CpuTelemetry(spec.interval_s):
        gate.release()
        bed.launcher.wait_ended(clients, spec.total_s + 10)
    return total_bps(workload, [client.stdout for client in bed.launcher.results(clients)])


def total_bps(workload, texts):
    return sum(measured.flow["throughput_bps"] for text in texts for measured in workload.parse(text))


def by_hand(bed, workload, spec):
    """One shell, in the first client's namespace, starts every client in its own, in the background, and waits."""
    where, start = [], []
    for pair in bed.pairs:
        inode = pair.client.run(["readlink", "/proc/self/ns/net"]).stdout.strip()
        command = " ".join(workload.client(pair, spec, bed.site))
        where.append(f'at{pair.index}=$(of "{inode}")')
        start.append(f"nsenter --net=$at{pair.index} {command} > {bed.site.directory}/hand-{pair.index} &")
    of = 'of() { for f in /proc/1/fd/*; do [ "$(readlink $f)" = "$1" ] && echo $f && break; done; }'
    script = "\n".join([of, *where, *start, "wait"])
    done = bed.pairs[0].client.run(["sh", "-c", script], timeout_s=spec.total_s + 20)
    assert done.returncode == 0, done.stderr
    texts = [Path(bed.site.directory, f"hand-{pair.index}").read_text() for pair in bed.pairs]
    return total_bps(workload, texts)


def cell(n=10, pairs=10, seconds=None):
    """As in a sweep: with one parent for all kernels, which the first cell starts."""
    costs, asked = [], {"pairs": pairs} | ({} if seconds is None else {"duration_s": seconds})
    with tempfile.TemporaryDirectory() as place, kernels.kept():
        os.environ["PAIRLAB_RUNS"] = place
        experiments.run("throughput", asked | {"repetition": 1000})  # the first starts the kernels' parent
        for repetition in range(n):
            begun = time.monotonic()
            run = experiments.run("throughput", asked | {"repetition": repetition})
            costs.append(time.monotonic() - begun - run.spec.total_s)
    note(f"a sweep cell above its traffic (netns, {pairs} pairs)", costs, at_most=1.3, unit=" s")
