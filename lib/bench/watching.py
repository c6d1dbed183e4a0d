"""What watching costs: telemetry, the live samples, and the workbench that shows them."""

import asyncio
import json
import shutil
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from bench import telemetry
from bench import workbench as bench_workbench
from bench.table import leave_out, note, note_mean
from pairlab import Spec, store
from pairlab.errors import Unavailable
from pairlab.measurement import measure as measurement
from pairlab.model.records import Run
from pairlab.model.tables import table
from pairlab.testbed.host import facts
from pairlab.testbed.host.live_sampler import Sampler
from pairlab.widgets.panel import RunPanel

#: How many pairs are watched.
SIZES = (10, 50)


def observer(n=10, runs=telemetry.RUNS, run_s=telemetry.DURATION_S, flows_bytes=telemetry.ALL_FLOWS_BYTES):
    """Telemetry may cost 2 % of the throughput; of completion times, it must not be shown to cost more."""
    with tempfile.TemporaryDirectory() as place:
        for pairs, count in runs.items():
            ratios = telemetry.ratios(pairs, count, Path(place), run_s)
            mean = telemetry.overall(ratios)
            figure = f"total_throughput_of_{pairs}_pairs_with_over_without_telemetry"
            what = f"total throughput, {pairs} pairs: of slots with telemetry over slots without"
            note(what, ratios, "mean ≥ 0.98", mean.value >= 0.98)
            note_mean(mean, figure)
        for pairs in runs:
            ratios = telemetry.completion_ratios(pairs, n, Path(place), flows_bytes)
            mean = telemetry.overall(ratios)
            figure = f"median_completion_time_of_{pairs}_pairs_with_over_without_telemetry"
            what = f"median completion time, {pairs} pairs: with telemetry over without"
            note(what, ratios, "not shown to be above 2 %", not mean.low > 1.02, "", figure)
            note_mean(mean, figure)


def account(n=7, sizes=(1, *SIZES), seconds=5.0):
    """While flows run, pairlab's own process, all its samplers included, may take 1 % of the CPUs."""
    with tempfile.TemporaryDirectory() as place:
        for pairs in sizes:
            spec = Spec(pairs=pairs, duration_s=seconds, workload="flowgen", max_skew_s=5.0, max_foreign_cpu=1.0)
            runs = [telemetry.counted(spec.replace(repetition=turn), Path(place)) for turn in range(n)]
            percents = [100 * run.checks["pairlab_cpu"] for run in runs]
            figure = f"pairlab_while_{pairs}_pairs_send_cpu_percent"
            note(f"{pairs} pairs: pairlab's own CPU time, of all CPUs", percents, at_most=1, unit=" %", figure=figure)


class _Timed(Sampler):
    """A sampler that knows what CPU time it has taken."""

    cpu_s = 0.0

    def look(self, elapsed_s: float, last: bool = False) -> None:
        begun_s = time.thread_time()
        super().look(elapsed_s, last)
        _Timed.cpu_s += time.thread_time() - begun_s


def live(n=20, sizes=SIZES, seconds=5.0):
    """Watching a measurement live may cost 3 % of a core, and of throughput 2 %, as telemetry may.

    What is done with the samples is not counted: here nothing is.
    """
    with tempfile.TemporaryDirectory() as place, mock.patch.object(measurement, "Sampler", _Timed):
        for pairs in sizes:
            spec = Spec(pairs=pairs, duration_s=seconds, workload="flowgen", max_skew_s=5.0, max_foreign_cpu=1.0)
            shares = []

            def throughput_bps(turn, watched, spec=spec, shares=shares):
                _Timed.cpu_s, samples = 0.0, []
                watch = samples.append if watched else None
                run = telemetry.counted(spec.replace(repetition=turn), Path(place), watch=watch)
                if watched:
                    shares.append(100 * _Timed.cpu_s / samples[-1].elapsed_s)
                return run.total_throughput_bps

            ratios = telemetry.in_turn(n, throughput_bps)
            mean = telemetry.overall(ratios)
            what, figure = f"{pairs} pairs: total throughput watched live over not", f"live_over_not_of_{pairs}_pairs"
            note(what, ratios, "not shown to be above 2 %", not mean.high < 0.98, "", figure)
            note_mean(mean, figure)
            what, figure = f"{pairs} pairs: sampling, of one core", f"live_sampling_of_{pairs}_pairs_core_percent"
            note(what, shares, at_most=1, unit=" %", figure=figure)


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


#: What a person waits for in the workbench, and how long at most.
_WITHIN_S = {"the panel is there": 2.0, "its runs are listed": None, "a run is over": 0.3, "a letter in Find": 0.1}


def many_runs(n=7, runs=10_000):
    """What a person waits for in the workbench of a store of so many runs, of which none is new since it was listed."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        made = store.write(_run(repetition=0), root)
        for number in range(1, runs):
            _copy(made, number)
        took = asyncio.run(_in_the_panel(n, root))
    for what, most_s in _WITHIN_S.items():
        note(f"workbench, {runs:,} runs: {what}", took[what], at_most=most_s, unit=" s")


def _copy(run, repetition):
    """A run beside it, of another repetition: written anew, ten thousand would take minutes."""
    spec = run.spec.replace(repetition=repetition)
    place = run.path.with_name(run.path.name.replace(run.spec.key, spec.key))
    shutil.copytree(run.path, place)
    head = json.loads((place / "run.json").read_text())
    head["spec"]["repetition"] = repetition
    (place / "run.json").write_text(json.dumps(head))


def _run(repetition):
    flows = table("flows", [{"pair": pair, "flow": 0, "status": "ok", "throughput_bps": 1e9} for pair in range(2)])
    at = datetime.now(UTC) - timedelta(days=1)
    spec = Spec(pairs=2, workload="flowgen", repetition=repetition)
    return Run(spec, "ok", measured_at=at, skew_s=0.001, facts={"host": facts.host()}, flows=flows)


async def _in_the_panel(n, root):
    took = {name: [] for name in _WITHIN_S}

    def note_time(name, begun_s):
        took[name].append(time.monotonic() - begun_s)

    for turn in range(n + 1):
        begun_s = time.monotonic()
        panel = RunPanel({"workload": "flowgen"}, root=root)
        note_time("the panel is there", begun_s)
        await panel.history.reading
        note_time("its runs are listed", begun_s)
        measured = store.write(_run(repetition=1_000_000 + turn), root)
        begun_s = time.monotonic()
        panel.history.choose([measured])
        note_time("a run is over", begun_s)
        begun_s = time.monotonic()
        panel.history.text.value = "bridge"[: 1 + turn % 6]
        note_time("a letter in Find", begun_s)
        await panel._estimating
        panel.close()
    return {name: seconds[1:] for name, seconds in took.items()}  # the first lists them all
