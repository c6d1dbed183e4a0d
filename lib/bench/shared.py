"""A sweep that 64 workers share: what each cell costs the runner, and its memory. Cells are made up, and take 1 s."""

import contextlib
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.table import leave_out, note, out
from tests.support import dask_workers

#: What one worker takes of memory.
WORKER_BYTES = 150e6


def shared(workers=64, repetitions=125, cells=40, cell_s=1.0, killed_shares=(0, 0.03)):
    """5,000 cells on 64 workers of this machine; then the same, with 3 % of the workers killed, or at least one."""
    every = repetitions * cells
    what = f"{every:,} cells of {cell_s:g} s, {workers} workers"
    if (free_bytes := psutil.virtual_memory().available) < workers * WORKER_BYTES:
        why = f"needs {workers * WORKER_BYTES / 1e9:.0f} GB of memory, and {free_bytes / 1e9:.0f} are free"
        return leave_out(what, why)
    for share in killed_shares:
        killed = math.ceil(share * workers)
        told = f"{what}, {share:.0%} killed" if killed else what
        figure = "shared_killed" if killed else "shared"
        with tempfile.TemporaryDirectory() as folder:
            asked = {"repetitions": repetitions, "cells": cells}
            took_s, runner, again = _one(Path(folder), workers, killed, cell_s, **asked)
        wall_ms = 1e3 * (took_s - every * cell_s / workers) / every
        cpu_ms = 1e3 * runner[-1].cpu_s / every
        early, late = (_rss_bytes(runner, *(share * every for share in part)) for part in ((0.125, 0.25), (0.75, 1)))
        note(
            f"{told}: runner's CPU time per cell", [cpu_ms], "≤ 20 ms", cpu_ms <= 20, " ms", f"{figure}_cpu_per_cell_ms"
        )
        note(f"{told}: time beyond the cells', per cell", [wall_ms], "none", True, " ms")
        flat = f"{figure}_memory_last_over_first_quarter"
        note(
            f"{told}: runner's memory, last over first quarter", [late / early], "≤ 1.2", late / early <= 1.2, "", flat
        )
        again_as = f"{figure}_cells_measured_again"
        note(f"{told}: cells measured again", [again], f"≤ {killed}", again <= killed, "", again_as)


class Moment(NamedTuple):
    """The runner at one moment: how many cells it has stored, its CPU time and its memory so far."""

    cells: int
    cpu_s: float
    rss_bytes: int


def _one(folder, count, kills, cell_s, **asked):
    """Seconds that it took, the runner's moments, and how many cells were measured again.

    Workers are killed at equal numbers of cells, while they measure.
    """
    every = asked["repetitions"] * asked["cells"]
    file = dask_workers.sweep_file(folder, **asked)
    with dask_workers.Processes(folder, dask_workers.free_port(), cell_s=cell_s) as made:
        made.scheduler()
        workers = made.workers(count)
        begun_s = time.monotonic()
        sweep = made.sweep(file)
        runner, seen = psutil.Process(sweep.pid), []
        due = [every * number // (kills + 1) for number in range(1, kills + 1)]
        while sweep.poll() is None:
            with contextlib.suppress(psutil.Error):
                cells, spent, rss_bytes = _stored(made.runs), runner.cpu_times(), runner.memory_info().rss
                if rss_bytes:  # else it has just ended
                    seen.append(Moment(cells, spent.user + spent.system, rss_bytes))
            if due and seen[-1].cells > due[0]:
                due.pop(0)
                made.at_work(workers).kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                sweep.wait(cell_s)
        took_s = time.monotonic() - begun_s
        printed, said = sweep.communicate()
        assert printed.split() == [str(every), "0"], said
        assert not due
        assert not made.two_at_once
        times = Counter(made.measured())
    assert len(times) == every
    out.print(f"  {took_s:.1f} s, {seen[-1].cpu_s:.1f} s of the runner's CPU time, {seen[-1].rss_bytes / 1e6:.0f} MB")
    return took_s, seen, times.total() - len(times)


def _stored(runs):
    folder = runs / "throughput"
    return len(os.listdir(folder)) if folder.exists() else 0


def _rss_bytes(seen, begin, end):
    """The runner's mean memory while it stored the cells of these numbers; nan: it was not looked at then."""
    found = [each.rss_bytes for each in seen if begin <= each.cells <= end]
    return statistics.mean(found) if found else math.nan
