"""The CPU time of a transaction is what the whole host's /proc/stat gives, read from outside (proc(5))."""

import os
import time
from pathlib import Path

import pytest

from pairlab import Spec, measure
from pairlab.model import cpu_use, latencies


def worked_s():
    """CPU seconds that all CPUs worked since boot: neither idle, nor waiting, nor taken by a hypervisor."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def test_the_service_demand_is_the_hosts_cpu_time_over_its_transactions(runs_dir, clean_host):
    read = []
    spec = Spec(workload="rr", pairs=1, udp_share=1.0, pinning="different-cores", duration_s=5, max_skew_s=5)
    run = measure(spec, watch=lambda sample: read.append((time.monotonic(), worked_s())))
    assert run.status in ("ok", "invalid"), run.reasons  # what else runs is in both counts
    (begun_s, before_s), *_, (ended_s, after_s) = read
    assert ended_s - begun_s > 3
    by_host_s = (after_s - before_s) / (latencies.rate_per_s(run.flows) * (ended_s - begun_s))
    assert cpu_use.service_demand_s(run) == pytest.approx(by_host_s, rel=0.03)
