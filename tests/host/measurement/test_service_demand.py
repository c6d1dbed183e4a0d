"""The CPU time of a transaction is what the whole host's /proc/stat gives, read from outside (proc(5))."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from pairlab import Spec, measure
from pairlab.model import cpu_use, latencies
from pairlab.testbed.host.cpu_sampler import CpuTelemetry


def worked_s():
    """CPU seconds that all CPUs worked since boot: neither idle, nor waiting, nor taken by a hypervisor."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@pytest.mark.whole
def test_the_service_demand_is_the_hosts_cpu_time_over_its_transactions(runs_dir, clean_host, monkeypatch):
    """Read at the moments of telemetry's samples: what other programs do in between is then in both counts alike."""
    read, sample = [], CpuTelemetry.sample

    def sample_beside(self):
        read.append((time.monotonic(), worked_s()))
        sample(self)

    monkeypatch.setattr(CpuTelemetry, "sample", sample_beside)
    spec = Spec(workload="rr", pairs=1, udp_share=1.0, pinning="different-cores", duration_s=5, max_skew_s=5)
    run = measure(spec)
    assert run.status in ("ok", "invalid"), run.reasons  # what else runs is in both counts
    moments_s, worked = np.array(read).T
    assert len(read) > run.cpu["start_s"].nunique()  # the first is where the first row begins
    begin_s, end_s = cpu_use.window_s(run)
    assert end_s - begin_s > 3
    window_s = np.array([begin_s, end_s]) + moments_s[0] - run.cpu["start_s"].min()
    before_s, after_s = np.interp(window_s, moments_s, worked)
    others_s = cpu_use.others_share(run) * os.cpu_count() * (end_s - begin_s)  # who they are, test_foreign_cpu tells
    by_host_s = (after_s - before_s - others_s) / (latencies.rate_per_s(run.flows) * (end_s - begin_s))
    assert cpu_use.service_demand_s(run) == pytest.approx(by_host_s, rel=0.03)
