"""`make bench`: how fast pairlab is, as ratios measured in turn in one run, each beside its bound.

`python -m tests.bench NAME ...` does only these parts. What a machine lacks (Mininet, Docker, root) is said and left
out. Every figure is a median of n, with its range. Those that have a name are kept in .cache/bench/.

`python -m tests.bench --smallest` does each part once, of the least size, in one to two minutes: it shows that they
work. Such figures mean nothing, so none is kept.
"""

import sys
import time

from tests.bench import hosts as bench_hosts
from tests.bench import latency as bench_latency
from tests.bench import launching as bench_launching
from tests.bench import measuring as bench_measuring
from tests.bench import reports as bench_reports
from tests.bench import shared as bench_shared
from tests.bench import study as bench_study
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


#: With --smallest, what each part is called with; of two ratios there is an interval.
SMALLEST = {
    "mininet": {"n": 1, "pairs": 1},
    "growth": {"n": 1, "sizes": {"netns": (1, 2), "docker": (1, 2)}},
    "mininet_hosts": {"n": 1, "pairs": 1},
    "two_hosts": {"n": 1, "sizes": (1, 2, 3)},
    "by_hand": {"n": 1, "seconds": 1},
    "docker_hosts": {"n": 1, "pairs": 1, "unmeasured": 0},
    "latency": {"drivers": ("bridge",), "seconds": 1},
    "traffic": {"seconds": 1, "requests": 1000},
    "etg": {"n": 1, "closed": 100, "opened": 100},
    "transactions": {"n": 1, "seconds": 1},
    "all-to-all": {"n": 1, "seconds": 0.5, "sizes": (1,)},
    "histogram": {"n": 1},
    "docker": {"n": 1, "pairs": 1},
    "launch": {"n": 1},
    "skew": {"n": 1, "pairs": 2, "loops": 1},
    "nothing_lost": {"n": 1, "pairs": 1, "seconds": 1},
    "observer": {"n": 2, "runs": {1: 1}, "run_s": 3.0, "flows_bytes": 100_000_000},
    "live": {"n": 2, "sizes": (1,), "seconds": 1.0},
    "workbench": {"n": 2, "sizes": (1,), "seconds": 1.0},
    "cell": {"n": 1, "pairs": 1, "seconds": 0.5},
    "shared": {"workers": 2, "repetitions": 2, "cells": 8, "cell_s": 0.1},
    "paper": {"n": 1, "only": ("retransmissions",)},
    "flows": {"n": 1, "count": 300_000, "unmeasured": 0, "repetitions": 3},
    "many_flows": {"n": 1, "count": 300_000, "unmeasured": 0, "repetitions": 3},
    "starts": {"n": 1, "runs": 2},
    "coverage": {"times": 2},
}


def main():
    asked = sys.argv[1:]
    smallest = "--smallest" in asked
    asked = [word for word in asked if word != "--smallest"] or list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        sys.exit(f"bench: no {unknown[0]!r}; there are: {', '.join(PARTS)}")
    took = "bench-smallest-took.json" if smallest else "bench-took.json"
    for name in paced(asked, evidence.CACHE / took, out):
        if smallest:
            PARTS[name](**SMALLEST[name])
        else:
            run_one(name)
    if smallest:
        bench_study.main(1)
        table.title = "pairlab bench, smallest form: no figure here means anything"
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
