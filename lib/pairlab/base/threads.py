"""Threads that run while flows fill the CPUs, and threads without an event loop."""

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def run_before_flows(*, with_children: bool = False) -> None:
    """Gives the calling thread real-time priority (sched(7)) where it may; for threads that sleep nearly always.

    with_children: also to the threads and processes that it starts from now on.

    Who has to look, or to end things, in time cannot wait for its turn. Seen on Linux 6.18: flows in nested cgroups
    that filled the CPUs kept ordinary processes outside waiting for up to 10 s, as their cgroup's vruntime stood still
    while it ran (/sys/kernel/debug/sched/debug).
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | (0 if with_children else os.SCHED_RESET_ON_FORK), os.sched_param(1))


@contextlib.contextmanager
def before_flows() -> Iterator[None]:
    """The calling thread runs before flows in this block, where it may, and as it did before it afterwards."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    run_before_flows()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, parameters)


def run_in_thread(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Calls the function in a new thread and returns its result: pyroute2 needs one without an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()
