"""flowgen busy: CPU time, all of it or a share."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from tests.host.flowgen.helpers import PATIENCE_S, until


def used_s(process):
    return sum(psutil.Process(process.pid).cpu_times()[:2])


def test_busy_uses_cpu_time_until_it_is_stopped(flowgen, start):
    process = start(flowgen, "busy")
    until(lambda: used_s(process) > 0.2, "busy to use CPU time")
    process.terminate()
    assert process.wait(PATIENCE_S) == -signal.SIGTERM


@pytest.mark.parametrize("load", [0.1, 0.3])
def test_a_share_is_never_exceeded_however_long_it_runs(flowgen, start, load):
    begun_s = time.monotonic()
    process = start(flowgen, "busy", "--load", load)
    until(lambda: used_s(process) > 5 * 0.1 * load, "busy to use its share of some periods")
    lasted_s = time.monotonic() - begun_s
    assert used_s(process) <= load * (lasted_s + 0.1) + 0.03  # of the period that has begun; and the kernel's ticks
    assert lasted_s > 0.4  # that of five periods is not used in four


def test_busy_uses_no_more_afterwards_for_what_it_missed(flowgen, start):
    process = start(flowgen, "busy", "--load", 0.3)
    until(lambda: used_s(process) > 0, "busy to begin")
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)  # the time that it misses
    process.send_signal(signal.SIGCONT)
    before_s, begun_s = used_s(process), time.monotonic()
    until(lambda: used_s(process) > before_s + 0.06, "busy to go on")
    lasted_s = time.monotonic() - begun_s
    assert used_s(process) - before_s <= 0.3 * (lasted_s + 0.2) + 0.03
