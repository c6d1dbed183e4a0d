"""Calibration: every cell is measured as if it were two different cells, which shows the noise of this host.

Each repetition measures every cell twice, in an order drawn from the seed, as sweeps do. Planted differences are
measured beside the cells: pairs of shaped links, one with a lower rate. The runs are stored separately, in
runs/.calibration/, and an interrupted calibration resumes from them.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pairlab import paths, store
from pairlab._version import __version__
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.comparison.noise_floor import Calibration, Cell, Planted
from pairlab.batch.schedule import left_s
from pairlab.errors import BadInput, BadSpec, MeasurementFailed, TestbedError, TooFewSamples, Unavailable
from pairlab.measurement.estimate import traffic_s
from pairlab.measurement.measure import check, measure, resolve
from pairlab.model import fct, latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec, value_of
from pairlab.model.summaries import MEASURES, QUANTILES, summaries
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.testbed import environment
from pairlab.testbed.contracts import Progress, no_progress
from pairlab.testbed.host import facts

EXPERIMENT = "calibration"
#: Rate of the shaped link for planted differences: low enough that the link is full despite other load, and high enough
#: that the bytes in flight at the end are a small part of all.
PLANTED_RATE_BPS = 250e6
#: Repetitions of planted differences. Shaped links have little noise, so a few are enough.
PLANTED_REPETITIONS = 6
#: The noise cannot be estimated from fewer repetitions.
LEAST_REPETITIONS = 3
#: Attempts of a measurement whose run is not ok.
ATTEMPTS = 2


@dataclass(frozen=True)
class Plan:
    """The measurements of a calibration: cells, as of repetition 0, and the planted differences in percent.

    not_planted: the reason for having none of the requested planted differences, or empty.
    """

    cells: tuple[Spec, ...]
    repetitions: int
    shaped: Spec | None = None
    costs_percent: tuple[float, ...] = ()
    not_planted: str = ""

    @property
    def backend(self) -> str:
        return (self.shaped or self.cells[0]).backend

    def sides(self, cell: Spec, cost_percent: float = 0.0) -> list[tuple[Spec, Spec]]:
        """The two compared specs of each repetition.

        For a cell: its repetitions 2n and 2n + 1, which differ by chance only. For a planted difference: the shaped
        link, and one that is slower by that cost.
        """
        if not cost_percent:
            return [
                (cell.replace(repetition=2 * n), cell.replace(repetition=2 * n + 1)) for n in range(self.repetitions)
            ]
        slower = cell.replace(link_rate_bps=cell.link_rate_bps * (1 - cost_percent / 100))
        planted = range(min(self.repetitions, PLANTED_REPETITIONS))
        return [(cell.replace(repetition=n), slower.replace(repetition=n)) for n in planted]


def plan(
    *,
    backend: str = "netns",
    driver: str = "bridge",
    workload: str = "auto",
    pairs: Sequence[int] = (10,),
    repetitions: int = 20,
    duration_s: float = 2.0,
    flow_bytes: int = 0,
    costs_percent: Sequence[float] = (5, 10, 20),
    more: Mapping[str, Any] | None = None,
) -> Plan:
    """The calibration of a driver: throughput at these numbers of pairs and, given flow_bytes, FCTs.

    more: other parameters of every Spec; noise under special parameters (noise_floor.special) is recorded separately.
    costs_percent: the planted differences. Raises BadInput for wrong arguments, Unavailable if this host cannot measure
    the cells; if only shaped links are unavailable, no differences are planted.
    """
    if repetitions < LEAST_REPETITIONS:
        raise BadInput(f"repetitions: at least {LEAST_REPETITIONS} are needed to estimate the noise, not {repetitions}")
    if not pairs or len(set(pairs)) < len(pairs):
        raise BadInput(f"pairs: give one number or several different ones, not {list(pairs)}")
    if bad := [cost for cost in costs_percent if not 0 < cost < 100]:
        raise BadInput(f"a planted difference must be between 0 and 100 %, not {bad[0]:g}")
    shared = {"experiment": EXPERIMENT, "backend": backend, "driver": driver, "workload": workload}
    if taken := sorted({*shared, "pairs", "repetition", "duration_s", "flow_bytes"} & set(more or {})):
        raise BadInput(f"{', '.join(taken)}: has an option of its own, or is set by the calibration")
    shared |= {name: value_of(name, given) for name, given in (more or {}).items()}
    shared["interval_s"] = min(duration_s, shared.get("interval_s", Spec.model_fields["interval_s"].default))
    cells = [resolve(Spec(**shared, pairs=count, duration_s=duration_s)) for count in pairs]
    if flow_bytes:  # flows of a fixed size have the default time limit, not the duration
        ending = {**shared, "flow_bytes": flow_bytes, "interval_s": Spec.model_fields["interval_s"].default}
        cells += [resolve(Spec(**ending, pairs=count)) for count in pairs]
    for cell in cells:
        check(cell)
    shaped, not_planted = None, ""
    if costs_percent:
        shaped = cells[0].replace(pairs=1, link_rate_bps=PLANTED_RATE_BPS)
        try:
            check(shaped)
        except (BadSpec, Unavailable) as error:
            shaped, not_planted = None, str(error)
    return Plan(tuple(cells), repetitions, shaped, tuple(costs_percent) if shaped else (), not_planted)


def visits(plan: Plan, seed: int = 0) -> Iterator[Spec]:
    """All measurements in order: repetition by repetition, each shuffled by the seed."""
    sides = [plan.sides(cell) for cell in plan.cells]
    sides += [plan.sides(plan.shaped, cost) for cost in plan.costs_percent] if plan.shaped else []
    for repetition in range(plan.repetitions):
        block = list(
            dict.fromkeys(spec for each in sides for both in each[repetition : repetition + 1] for spec in both)
        )
        random.Random(f"{seed}/{repetition}").shuffle(block)
        yield from block


#: Called after each measurement: its number, the total, its spec, its outcome in words, and the seconds left.
Tell = Callable[[int, int, Spec, str, float], None]


def run(
    plan: Plan,
    *,
    root: Path | None = None,
    seed: int = 0,
    fresh: bool = False,
    tell: Tell = lambda *_: None,
    progress: Progress = no_progress,
    execute: Callable[..., Run] | None = None,
) -> Calibration:
    """Measures the plan, stores the calibration of this host in runs/.calibration/, and returns it.

    root: the folder of runs, by default runs/. fresh: repeat stored measurements. tell: called after each measurement;
    progress: called with the phases of each. execute: by default `measure`. A measurement that is not ok is repeated
    once; then its repetition is left out. Raises MeasurementFailed if too few repetitions are left, and the errors that
    stop every measurement: BadInput, Unavailable, HostBusy, StoreError.
    """
    root = root or paths.runs()
    own = root / noise_floor.FOLDER
    for place, _ in store.leftovers(own):
        store.clean_up(place)
    execute = execute or partial(measure, progress=progress)
    made, troubles = _measure_all(list(visits(plan, seed)), own, fresh, execute, tell)
    times = [run.measured_at for run in made.values() if run.measured_at] or [datetime.now(UTC)]
    calibration = Calibration(
        schema=noise_floor.SCHEMA,
        host=facts.host()["fingerprint"],
        backend=plan.backend,
        pairlab=__version__,
        measured_from=min(times),
        measured_to=max(times),
        cells=tuple(_cells(plan, made, troubles)),
        planted=tuple(
            Planted(**_described(plan.shaped, pairs, "total_bps"), cost_percent=cost)
            for cost in plan.costs_percent
            if plan.shaped
            for pairs in [_both(plan.sides(plan.shaped, cost), made, "total_bps", plan.shaped, troubles)]
        ),
    )
    noise_floor.write(calibration, root)
    return calibration


def _measure_all(
    todo: Sequence[Spec], root: Path, fresh: bool, execute: Callable[..., Run], tell: Tell
) -> tuple[dict[Spec, Run], list[str]]:
    """The runs that are ok, and the faults of the others."""
    made: dict[Spec, Run] = {}
    troubles: list[str] = []
    statuses = store.statuses(todo, root, environment.here)
    waiting = {spec for spec, status in statuses.items() if fresh or status != "ok"}
    costs: list[float] = []
    for number, spec in enumerate(todo, 1):
        begun = time.monotonic()
        run, text = _make(spec, root, fresh, execute)
        if spec in waiting:
            waiting.remove(spec)
            costs.append(time.monotonic() - begun - traffic_s(spec))
        if run:
            made[spec] = run
        else:
            troubles.append(text)
        tell(number, len(todo), spec, text, left_s(((each, 1) for each in waiting), costs))
    return made, troubles


def _make(spec: Spec, root: Path, fresh: bool, execute: Callable[..., Run]) -> tuple[Run | None, str]:
    """A run of the spec if it is ok, else None; and the outcome in words."""
    text = ""
    for _ in range(ATTEMPTS):
        try:
            run = execute(spec, root=root, fresh=fresh)
        except (MeasurementFailed, TestbedError) as error:
            text = f"failed: {error}"
            continue
        if run.status == "ok":
            return run, run.outcome
        text = f"{run.status}: {'; '.join(run.reasons)}"
    return None, text


def _cells(plan: Plan, made: Mapping[Spec, Run], troubles: Sequence[str]) -> Iterator[Cell]:
    for cell in plan.cells:
        sides = plan.sides(cell)
        runs = [made[spec] for both in sides for spec in both if spec in made]
        transactions = ("transactions",) if runs and all(latencies.measured(run.flows) for run in runs) else ()
        of = ("fct",) if cell.flows_end else ("", *transactions)
        names = {name for run in runs for name, value in summaries(run).items() if value > 0}
        whole = names and not any(run.failed_flows for run in runs)  # the tool cannot report an absent measure then
        for measure_name in [name for name, each in MEASURES.items() if each.of in of and (name in names or not whole)]:
            pairs = _both(sides, made, measure_name, cell, troubles)
            yield Cell(**_described(cell, pairs, measure_name), pooled=_pooled(pairs, measure_name))


def _both(
    sides: Sequence[tuple[Spec, Spec]], made: Mapping[Spec, Run], measure_name: str, cell: Spec, troubles: Sequence[str]
) -> list[tuple[Run, Run]]:
    """The two runs of every repetition in which both have the measure."""
    pairs = [(made[first], made[second]) for first, second in sides if first in made and second in made]
    pairs = [both for both in pairs if all(summaries(run).get(measure_name, 0.0) > 0 for run in both)]
    if len(pairs) < LEAST_REPETITIONS:
        failed = sum(made[spec].failed_flows for both in sides for spec in both if spec in made)
        why = troubles[-1] if troubles else f"{failed} flows failed" if failed else "too few were requested"
        raise MeasurementFailed(
            f"{cell}: {len(pairs)} complete repetitions, and at least {LEAST_REPETITIONS} are needed:"
            f" {why}. Calibrate again on a quiet host; what was measured is kept"
        )
    return pairs


def _described(cell: Spec, pairs: Sequence[tuple[Run, Run]], measure_name: str) -> dict[str, Any]:
    """The fields of a Cell of these runs, without `pooled`."""
    fields = {name: getattr(cell, name) for name in Cell.model_fields if name in Spec.model_fields}
    more = {name: value for name, value in noise_floor.special(cell).items() if name not in fields}
    first, second = (tuple(summaries(run)[measure_name] for run in side) for side in zip(*pairs, strict=True))
    return {**fields, "parameters": more, "measure": measure_name, "first": first, "second": second}


def _pooled(pairs: Sequence[tuple[Run, Run]], measure_name: str) -> tuple[float, float, float] | None:
    """The change of a percentile of all flows, as in a Cell; None for other measures, or too few flows."""
    if measure_name not in QUANTILES:
        return None
    flows = (tuple(np.sort(fct.of_run(run).to_numpy()) for run in side) for side in zip(*pairs, strict=True))
    before, after = (Clusters(np.arange(len(pairs)), parts) for parts in flows)
    try:
        change = quantiles.percent_change(before, after, QUANTILES[measure_name])
    except TooFewSamples:
        return None
    return (change.centre, change.error, change.df) if change.known else None
