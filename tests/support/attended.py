"""Measurements in a process of their own: both ways to attend one, its child, and what stands in for that child."""

import asyncio
import sys

import psutil
import pytest

from pairlab import Spec
from pairlab.measurement import in_subprocess
from pairlab.measurement.in_subprocess import attend, attend_async
from tests.support import host

SPEC = Spec(workload="flowgen", pairs=2, duration_s=1.0, max_skew_s=5.0, max_foreign_cpu=1.0)
LONG = SPEC.replace(duration_s=60.0)


def blocking(spec, **asked):
    return attend(spec, **asked)


def in_a_loop(spec, **asked):
    return asyncio.run(attend_async(spec, **asked))


ways = pytest.mark.parametrize("way", [blocking, in_a_loop], ids=lambda way: way.__name__)
#: Where each measures: the other way is of the whole.
ways_in_turn = pytest.mark.parametrize(
    "way", [blocking, pytest.param(in_a_loop, marks=pytest.mark.whole)], ids=lambda way: way.__name__
)


def cancelled_at(phase, spec=LONG):
    """Attends a measurement in a loop, and cancels that when it comes to this phase."""

    async def stopped():
        come = asyncio.Event()
        task = asyncio.create_task(attend_async(spec, on_phase=lambda name, *_: name == phase and come.set()))
        await asyncio.wait_for(come.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())


def the_child():
    """The process that measures for this one."""
    (found,) = [each for each in psutil.Process().children() if "pairlab.measurement.in_subprocess" in each.cmdline()]
    return found


def no_process_left(before):
    """Whether nothing of ours runs any more, already now; clean_host sees to the rest, where others come and go."""
    return "processes" not in host.difference(before)


def playing(monkeypatch, script):
    """Has this script play the child."""
    monkeypatch.setattr(in_subprocess, "_command", lambda: [sys.executable, "-c", script])
