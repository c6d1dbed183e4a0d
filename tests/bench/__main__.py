"""`make bench`: how fast pairlab is, as ratios measured in turn in one run, each beside its bound.

`python -m tests.bench NAME ...` does only these parts. What a machine lacks (Mininet, Docker, root) is said and left
out. Every figure is a median of n, with its range. Those that docs/trust.md quotes are kept in .cache/bench/.
"""

import sys
import time

from tests.bench import hosts as bench_hosts
from tests.bench import latency as bench_latency
from tests.bench import launching as bench_launching
from tests.bench import measuring as bench_measuring
from tests.bench import reports as bench_reports
from tests.bench import shared as bench_shared
from tests.bench import testbed as bench_testbed
from tests.bench import traffic as bench_traffic
from tests.bench import watching as bench_watching
from tests.bench.pace import paced
from tests.bench.table import figures, out, table, verdicts
from tests.support import evidence
from tests.support.evidence import Evidence

PARTS = {
    "mininet": bench_testbed.over_mininet,
    "growth": bench_testbed.growth,
    "mininet_hosts": bench_hosts.over_mininet_hosts,
    "two_hosts": bench_hosts.two_hosts_over_one,
    "by_hand": bench_hosts.over_by_hand,
    "docker_hosts": bench_hosts.docker_hosts,
    "latency": bench_latency.networks,
    "traffic": bench_traffic.load_and_sizes,
    "etg": bench_traffic.over_etg,
    "transactions": bench_latency.transactions,
    "all-to-all": bench_latency.exchanges,
    "histogram": bench_latency.histogram,
    "docker": bench_testbed.over_docker_run,
    "launch": bench_launching.over_docker_run_and_ping,
    "skew": bench_measuring.skew,
    "nothing_lost": bench_measuring.nothing_lost,
    "observer": bench_watching.observer,
    "live": bench_watching.live,
    "workbench": bench_watching.workbench,
    "cell": bench_measuring.cell,
    "shared": bench_shared.shared,
    "paper": bench_reports.paper,
    "flows": bench_reports.flows,
    "many_flows": bench_reports.many_flows,
    "starts": bench_reports.starts,
    "coverage": bench_reports.coverage,
}


def main():
    asked = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        sys.exit(f"bench: no {unknown[0]!r}; there are: {', '.join(PARTS)}")
    for name in paced(asked, evidence.CACHE / "bench-took.json", out):
        run_one(name)
    out.print(table)


def run_one(name):
    """Runs that part, and keeps what it measured under a name."""
    figures.clear()
    verdicts.clear()
    when, begun = evidence.now(), time.monotonic()
    PARTS[name]()
    outcome = "skipped" if not verdicts else "passed" if all(verdicts) else "failed"
    if figures:
        took_s = time.monotonic() - begun
        evidence.write(Evidence(f"bench:{name}", outcome, when, evidence.this_host(), took_s, dict(figures)))


if __name__ == "__main__":
    main()
