"""A sweep that 64 workers share: what each cell costs the runner, and its memory. Cells are made up, and take 1 s."""

import contextlib
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from tests.bench.table import leave_out, note, out
from tests.support import dask_workers

WORKERS, REPETITIONS, CELLS, CELL_S = 64, 125, 40, 1.0
KILL_EVERY_S = 20
#: What one worker takes of memory.
WORKER_BYTES = 150e6


def shared():
    """5,000 cells on 64 workers of this machine; then the same, with 3 % of the workers killed."""
    what = f"{REPETITIONS * CELLS:,} cells of {CELL_S:g} s, {WORKERS} workers"
    if (free_bytes := psutil.virtual_memory().available) < WORKERS * WORKER_BYTES:
        why = f"needs {WORKERS * WORKER_BYTES / 1e9:.0f} GB of memory, and {free_bytes / 1e9:.0f} are free"
        return leave_out(what, why)
    for killed, told in ((0, what), (round(0.03 * WORKERS), f"{what}, 3 % killed")):
        figure = "shared_killed" if killed else "shared"
        with tempfile.TemporaryDirectory() as folder:
            took_s, runner, again = _one(Path(folder), killed)
        cells = REPETITIONS * CELLS
        wall_ms = 1e3 * (took_s - cells * CELL_S / WORKERS) / cells
        cpu_ms = 1e3 * runner[-1][1] / cells
        early, late = (_mean([rss for _, _, rss in part]) for part in _ends(runner))
        own = f"{figure}_runner_ms_per_cell"
        note(f"{told}: runner's CPU time per cell", [cpu_ms], "≤ 20 ms", cpu_ms <= 20, " ms", own)
        note(f"{told}: time beyond the cells', per cell", [wall_ms], "none", True, " ms", f"{figure}_wall_ms_per_cell")
        note(f"{told}: runner's memory, last over first quarter", [late / early], "≤ 1.2", late / early <= 1.2)
        note(f"{told}: cells measured again", [again], "0" if not killed else "of the killed", killed > 0 or not again)


def _one(folder, kills):
    """Seconds that it took, the runner's moments, CPU seconds and memory, and how many cells were measured again."""
    file = dask_workers.sweep_file(folder, repetitions=REPETITIONS, cells=CELLS)
    with dask_workers.Processes(folder, dask_workers.free_port(), cell_s=CELL_S) as made:
        made.scheduler()
        workers = made.workers(WORKERS)
        begun_s = time.monotonic()
        sweep = made.sweep(file)
        runner, seen = psutil.Process(sweep.pid), []
        due_s = [KILL_EVERY_S * number for number in range(1, kills + 1)]
        while sweep.poll() is None:
            with contextlib.suppress(psutil.Error):
                spent = runner.cpu_times()
                seen.append((time.monotonic(), spent.user + spent.system, runner.memory_info().rss))
            if due_s and time.monotonic() - begun_s > due_s[0]:
                due_s.pop(0)
                workers.pop().kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                sweep.wait(1)
        took_s = time.monotonic() - begun_s
        printed, said = sweep.communicate()
        assert printed.split() == [str(REPETITIONS * CELLS), "0"], said
        assert not made.two_at_once
        times = Counter(made.measured())
    assert len(times) == REPETITIONS * CELLS
    out.print(f"  {took_s:.1f} s, {seen[-1][1]:.1f} s of the runner's CPU time, {seen[-1][2] / 1e6:.0f} MB")
    return took_s, seen, times.total() - len(times)


def _ends(seen):
    """The first quarter without its beginning, while the runner is loaded, and the last."""
    quarter = len(seen) // 4
    return seen[quarter // 2 : quarter], seen[-quarter:]


def _mean(values):
    return sum(values) / len(values)
