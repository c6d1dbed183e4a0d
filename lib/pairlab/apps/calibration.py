"""Calibration: every cell measured as if it were two different ones, which shows the noise of this host.

Each repetition measures all cells in an order drawn from the seed, as sweeps do, every cell twice. Known differences
are measured beside them: shaped links, of which one has a lower rate. The runs are stored apart from all others, in
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
from pairlab.batch.eta import left_s, traffic_s
from pairlab.errors import BadInput, BadSpec, MeasurementFailed, TestbedError, TooFewSamples, Unavailable
from pairlab.measurement import in_store
from pairlab.measurement.measure import check, measure, resolve
from pairlab.model import fct, latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec, value_of
from pairlab.model.summaries import MEASURES, QUANTILES, summaries
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.testbed.contracts import Progress, silent
from pairlab.testbed.host import facts

EXPERIMENT = "calibration"
#: Rate of the shaped link for planted differences: low enough that other load does not keep the link from being full,
#: and high enough that the bytes in flight at the end are a small part of all.
PLANTED_RATE_BPS = 250e6
#: Repetitions of planted differences. Shaped links have little noise, so a few are enough.
PLANTED_REPETITIONS = 6
#: The noise cannot be estimated from fewer repetitions.
LEAST_REPETITIONS = 3
#: How often a measurement is tried whose run is not ok.
ATTEMPTS = 2


@dataclass(frozen=True)
class Visit:
    """One measurement of a calibration.

    cell: what it measures; second: whether it is the cell's second measurement in this repetition. cost_percent: of a
    planted difference, by how much its link is slower (0: the link to compare with).
    """

    spec: Spec
    cell: Spec
    repetition: int
    second: bool = False
    cost_percent: float | None = None


@dataclass(frozen=True)
class Plan:
    """What a calibration measures: cells, as of repetition 0, and the planted differences in percent.

    not_planted: why there are no planted differences although they were requested; else empty.
    """

    cells: tuple[Spec, ...]
    repetitions: int
    shaped: Spec | None = None
    costs_percent: tuple[float, ...] = ()
    not_planted: str = ""

    @property
    def backend(self) -> str:
        return (self.shaped or self.cells[0]).backend


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
    """The calibration of a driver: throughput at these numbers of pairs and, given flow_bytes, completion times.

    more: other parameters of every Spec; noise under parameters that change it (noise_floor.special) is recorded apart.
    costs_percent: the planted differences. Raises BadInput for wrong arguments, Unavailable for what this host cannot
    do; if only shaped links are unavailable, no differences are planted.
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


def visits(plan: Plan, seed: int = 0) -> Iterator[Visit]:
    """All measurements in order: repetition by repetition, each shuffled by the seed.

    The two measurements of a cell are repetitions 2n and 2n + 1 of the same spec, so that they differ by chance only.
    """
    for repetition in range(plan.repetitions):
        block = [
            Visit(cell.replace(repetition=2 * repetition + second), cell, repetition, bool(second))
            for cell in plan.cells
            for second in (0, 1)
        ]
        if plan.shaped and repetition < PLANTED_REPETITIONS:
            for cost in (0.0, *plan.costs_percent):
                link = plan.shaped.replace(
                    link_rate_bps=plan.shaped.link_rate_bps * (1 - cost / 100), repetition=repetition
                )
                block.append(Visit(link, plan.shaped, repetition, bool(cost), cost))
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
    progress: Progress = silent,
    execute: Callable[..., Run] | None = None,
) -> Calibration:
    """Measures the plan, stores the calibration of this host in runs/.calibration/, and returns it.

    root: the folder of runs, by default runs/. fresh: measure again what is stored. tell: called after each
    measurement; progress: hears of the phases of each. execute: by default `measure`. A measurement that is not ok is
    repeated once; then its repetition is left out. Raises MeasurementFailed if too few repetitions are left, and what
    stops every measurement: BadInput, Unavailable, HostBusy, StoreError.
    """
    root = root or paths.runs()
    own = root / noise_floor.FOLDER
    for place, _ in store.debris(own):
        store.discard(place)
    execute = execute or partial(measure, progress=progress)
    done, troubles = _measure_all(list(visits(plan, seed)), own, fresh, execute, tell)
    times = [made.measured_at for _, made in done if made.measured_at] or [datetime.now(UTC)]
    calibration = Calibration(
        schema=noise_floor.SCHEMA,
        host=facts.host()["fingerprint"],
        backend=plan.backend,
        pairlab=__version__,
        measured_from=min(times),
        measured_to=max(times),
        cells=tuple(_cells(plan, done, troubles)),
        planted=tuple(_planted(plan, done, troubles)),
    )
    noise_floor.write(calibration, root)
    return calibration


def _measure_all(
    todo: Sequence[Visit], root: Path, fresh: bool, execute: Callable[..., Run], tell: Tell
) -> tuple[list[tuple[Visit, Run]], list[str]]:
    """Every visit with its run, if it is ok, and what was wrong with the others."""
    done: list[tuple[Visit, Run]] = []
    troubles: list[str] = []
    stored = in_store.statuses((visit.spec for visit in todo), root)
    waiting = {spec for spec, status in stored.items() if fresh or status != "ok"}
    costs: list[float] = []
    for number, visit in enumerate(todo, 1):
        begun = time.monotonic()
        made, text = _make(visit.spec, root, fresh, execute)
        if visit.spec in waiting:
            waiting.remove(visit.spec)
            costs.append(time.monotonic() - begun - traffic_s(visit.spec))
        if made:
            done.append((visit, made))
        else:
            troubles.append(text)
        tell(number, len(todo), visit.spec, text, left_s(((spec, 1) for spec in waiting), costs))
    return done, troubles


def _make(spec: Spec, root: Path, fresh: bool, execute: Callable[..., Run]) -> tuple[Run | None, str]:
    """A run of that spec that is ok, else None; and its outcome in words."""
    text = ""
    for _ in range(ATTEMPTS):
        try:
            made = execute(spec, root=root, fresh=fresh)
        except (MeasurementFailed, TestbedError) as error:
            text = f"failed: {error}"
            continue
        if made.status == "ok":
            return made, made.outcome
        text = f"{made.status}: {'; '.join(made.reasons)}"
    return None, text


def _cells(plan: Plan, done: Sequence[tuple[Visit, Run]], troubles: Sequence[str]) -> Iterator[Cell]:
    for cell in plan.cells:
        mine = [(visit, run) for visit, run in done if visit.cell == cell and visit.cost_percent is None]
        of = ("fct",) if cell.flows_end else ("", "transactions") if _all_transactions(mine) else ("",)
        had = {name for _, run in mine for name, value in summaries(run).items() if value > 0}
        whole = had and not any(run.failed_flows for _, run in mine)  # then what is absent is what the tool cannot tell
        for measure_name in [name for name, each in MEASURES.items() if each.of in of and (name in had or not whole)]:
            sides = _both(mine, measure_name, cell, troubles)
            yield Cell(**_described(cell), **_values(sides, measure_name), pooled=_pooled(sides, measure_name))


def _all_transactions(done: Sequence[tuple[Visit, Run]]) -> bool:
    return bool(done) and all(latencies.measured(run.flows) for _, run in done)


def _planted(plan: Plan, done: Sequence[tuple[Visit, Run]], troubles: Sequence[str]) -> Iterator[Planted]:
    if plan.shaped is None:
        return
    for cost in plan.costs_percent:
        mine = [(visit, run) for visit, run in done if visit.cost_percent in (0, cost)]
        sides = _both(mine, "total_bps", plan.shaped, troubles)
        yield Planted(**_described(plan.shaped), **_values(sides, "total_bps"), cost_percent=cost)


def _both(
    done: Sequence[tuple[Visit, Run]], measure_name: str, cell: Spec, troubles: Sequence[str]
) -> tuple[list[Run], list[Run]]:
    """The first and the second run of every repetition in which both have that measure."""
    sides: tuple[dict[int, Run], dict[int, Run]] = ({}, {})
    for visit, run in done:
        if summaries(run).get(measure_name, 0.0) > 0:
            sides[visit.second][visit.repetition] = run
    both = sorted(set(sides[0]) & set(sides[1]))
    if len(both) < LEAST_REPETITIONS:
        failed = sum(run.failed_flows for _, run in done)
        why = troubles[-1] if troubles else f"{failed} flows failed" if failed else "too few were requested"
        raise MeasurementFailed(
            f"{cell}: {len(both)} complete repetitions, and at least {LEAST_REPETITIONS} are needed:"
            f" {why}. Calibrate again on a quiet host; what was measured is kept"
        )
    return [sides[0][at] for at in both], [sides[1][at] for at in both]


def _values(sides: tuple[list[Run], list[Run]], measure_name: str) -> dict[str, Any]:
    first, second = (tuple(summaries(run)[measure_name] for run in side) for side in sides)
    return {"measure": measure_name, "first": first, "second": second}


def _pooled(sides: tuple[list[Run], list[Run]], measure_name: str) -> tuple[float, float, float] | None:
    """The change of a percentile of all flows, as a Cell has it; None of another measure, or of too few flows."""
    if measure_name not in QUANTILES:
        return None
    flows = [[np.sort(fct.of_run(run).to_numpy()) for run in side] for side in sides]
    before, after = (Clusters(np.arange(len(parts)), tuple(parts)) for parts in flows)
    try:
        found = quantiles.percent_change(before, after, QUANTILES[measure_name])
    except TooFewSamples:
        return None
    return (found.centre, found.error, found.df) if found.known else None


def _described(cell: Spec) -> dict:
    fields = {name: getattr(cell, name) for name in Cell.model_fields if name in Spec.model_fields}
    return {
        **fields,
        "parameters": {name: value for name, value in noise_floor.special(cell).items() if name not in fields},
    }
