"""`make bench`: how fast pairlab is, as ratios measured in turn in one run, each beside its bound.

`python -m bench NAME ...` does only these parts. What a machine lacks (Mininet, Docker, root) is said and left
out. Every figure is a median of n, with its range. Those that have a name are kept in .cache/bench/.

`python -m bench --smallest` does each part once, of the least size, in one to two minutes: it shows that they
work. Such figures mean nothing, so none is kept.
"""

import sys
import time

from bench import equals as bench_equals
from bench import hosts as bench_hosts
from bench import latency as bench_latency
from bench import measuring as bench_measuring
from bench import reports as bench_reports
from bench import shared as bench_shared
from bench import study as bench_study
from bench import testbed as bench_testbed
from bench import traffic as bench_traffic
from bench import watching as bench_watching
from bench.table import figures, out, paced, table, verdicts
from tests.support import evidence
from tests.support.evidence import Evidence

#: Each part, and what it is called with for --smallest; of two ratios there is an interval.
PARTS = {
    "mininet": (bench_testbed.over_mininet, {"n": 1, "pairs": 1}),
    "growth": (bench_testbed.growth, {"n": 1, "sizes": {"netns": (1, 2), "docker": (1, 2)}}),
    "mininet_hosts": (bench_hosts.over_mininet_hosts, {"n": 1, "pairs": 1}),
    "two_hosts": (bench_hosts.two_hosts_over_one, {"n": 1, "sizes": (1, 2, 3)}),
    "by_hand": (bench_hosts.over_by_hand, {"n": 1, "seconds": 1}),
    "docker_hosts": (bench_hosts.docker_hosts, {"n": 1, "pairs": 1, "unmeasured": 0}),
    "latency": (bench_latency.networks, {"backends": ("netns",), "drivers": ("bridge",), "seconds": 1}),
    "traffic": (bench_traffic.load_and_sizes, {"seconds": 1, "requests": 1000}),
    "transactions": (bench_latency.transactions, {"n": 1, "seconds": 1}),
    "all-to-all": (bench_latency.exchanges, {"n": 1, "seconds": 0.5, "sizes": (1,)}),
    "histogram": (bench_latency.histogram, {"n": 1}),
    "docker": (bench_testbed.over_docker_run, {"n": 1, "pairs": 1}),
    "launch": (bench_testbed.over_docker_run_and_ping, {"n": 1}),
    "skew": (bench_measuring.skew, {"n": 1, "pairs": 2, "loops": 1}),
    "nothing_lost": (bench_measuring.nothing_lost, {"n": 1, "pairs": 1, "seconds": 1}),
    "observer": (bench_watching.observer, {"n": 2, "runs": {1: 1}, "run_s": 3.0, "flows_bytes": 100_000_000}),
    "account": (bench_watching.account, {"n": 1, "sizes": (1,), "seconds": 1.0}),
    "live": (bench_watching.live, {"n": 2, "sizes": (1,), "seconds": 1.0}),
    "workbench": (bench_watching.workbench, {"n": 1, "sizes": (1,), "seconds": 1.0}),
    "many_runs": (bench_watching.many_runs, {"n": 1, "runs": 20}),
    "cell": (bench_measuring.cell, {"n": 1, "pairs": 1, "seconds": 0.5}),
    "shared": (
        bench_shared.shared,
        {"workers": 2, "repetitions": 2, "cells": 4, "cell_s": 0.1, "killed_shares": (0.03,)},
    ),
    "paper": (bench_reports.paper, {"n": 1, "only": ("retransmissions",)}),
    "flows": (bench_reports.flows, {"n": 1, "count": 120_000, "unmeasured": 0, "repetitions": 3}),
    "many_flows": (
        bench_reports.many_flows,
        {"n": 1, "count": 120_000, "reported": False, "unmeasured": 0, "repetitions": 3},
    ),
    "starts": (bench_reports.starts, {"n": 1, "runs": 2}),
    "packs": (bench_reports.packs, {"n": 1, "only": ("networks", "udp")}),
    "equals": (bench_equals.equals, {"draws": 2, "compared": 2, "real": False}),
}


def main():
    asked = sys.argv[1:]
    smallest = "--smallest" in asked
    asked = [word for word in asked if word != "--smallest"] or list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        sys.exit(f"bench: no {unknown[0]!r}; there are: {', '.join(PARTS)}")
    took = "bench-smallest-took.json" if smallest else "bench-took.json"
    for name in paced(asked, evidence.CACHE / took, out):
        part, least = PARTS[name]
        if smallest:
            part(**least)
        else:
            run_one(name, part)
    if smallest:
        if asked == list(PARTS):
            bench_study.main(1)
        table.title = "pairlab bench, smallest form: no figure here means anything"
    out.print(table)


def run_one(name, part):
    """Runs that part, and keeps what it measured under a name."""
    figures.clear()
    verdicts.clear()
    when, begun = evidence.now(), time.monotonic()
    part()
    outcome = "skipped" if not verdicts else "passed" if all(verdicts) else "failed"
    if figures:
        took_s = time.monotonic() - begun
        evidence.write(Evidence(f"bench:{name}", outcome, when, evidence.this_host(), took_s, dict(figures)))


if __name__ == "__main__":
    main()
