"""What watching costs: telemetry, the live samples, and the workbench that shows them."""

import statistics
import tempfile
from pathlib import Path

from pairlab.errors import Unavailable
from tests.bench import live as bench_live
from tests.bench import slots as bench_slots
from tests.bench import telemetry as bench_telemetry
from tests.bench import workbench as bench_workbench
from tests.bench.table import leave_out, note, note_mean

#: How many pairs are watched.
SIZES = (10, 50)


def observer(n=10, runs=bench_slots.RUNS, run_s=bench_slots.DURATION_S, flows_bytes=bench_telemetry.ALL_FLOWS_BYTES):
    """Telemetry may cost 2 % of the throughput; of completion times, it must not be shown to cost more."""
    with tempfile.TemporaryDirectory() as place:
        for pairs, count in runs.items():
            ratios = bench_slots.ratios(pairs, count, Path(place), run_s)
            mean = bench_telemetry.overall(ratios)
            figure = f"total_throughput_of_{pairs}_pairs_with_over_without_telemetry"
            what = f"total throughput, {pairs} pairs: of slots with telemetry over slots without"
            note(what, ratios, "mean ≥ 0.98", mean.value >= 0.98)
            note_mean(mean, figure)
        for pairs in runs:
            ratios = bench_telemetry.completion_ratios(pairs, n, Path(place), flows_bytes)
            mean = bench_telemetry.overall(ratios)
            figure = f"median_completion_time_of_{pairs}_pairs_with_over_without_telemetry"
            what = f"median completion time, {pairs} pairs: with telemetry over without"
            note(what, ratios, "not shown to be above 2 %", not mean.low > 1.02, "", figure)
            note_mean(mean, figure)


def live(n=20, sizes=SIZES, seconds=5.0):
    """Watching a measurement live may cost 3 % of a core, and of throughput 2 %, as telemetry may."""
    with tempfile.TemporaryDirectory() as place:
        for pairs, ratios, mean, core_shares in bench_live.costs(n, Path(place), sizes, seconds):
            what, figure = f"{pairs} pairs: total throughput watched live over not", f"live_over_not_of_{pairs}_pairs"
            note(what, ratios, "not shown to be above 2 %", not mean.high < 0.98, "", figure)
            note_mean(mean, figure)
            shares = [100 * share for share in core_shares]
            what, figure = f"{pairs} pairs: sampling, of one core", f"live_sampling_of_{pairs}_pairs_core_percent"
            note(what, shares, "≤ 1 %", statistics.median(shares) <= 1, " %", figure)


def workbench(n=10, sizes=SIZES, seconds=8.0):
    """The live view may cost 3 % of a core in the kernel; what server and browser take on this host is told beside."""
    with tempfile.TemporaryDirectory() as place:
        try:
            for cost in bench_workbench.costs(n, Path(place), sizes, seconds):
                note_workbench(cost)
        except Unavailable as error:
            leave_out("the workbench's live view", str(error))


def note_workbench(cost):
    pairs = cost.pairs
    what, figure = f"{pairs} pairs: total throughput from the panel over without", f"panel_over_bare_of_{pairs}_pairs"
    note(what, cost.ratios, "told", True, "", figure)
    note_mean(cost.mean, figure)
    for process, shares in cost.core_shares.items():
        percents = [100 * share for share in shares]
        met = process != "kernel" or statistics.median(percents) <= 3
        bound = "≤ 3 %" if process == "kernel" else "told"
        what = f"{pairs} pairs: the live view's {process}, of one core"
        note(what, percents, bound, met, " %", f"live_view_{process}_of_{pairs}_pairs_core_percent")
