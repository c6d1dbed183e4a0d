"""Calibration: the same thing measured as if it were two, and what that tells of the host's noise.

Each repetition visits every cell in an order drawn from the seed, as sweeps do; a cell that is to be compared with
itself twice. Beside them stand planted differences: shaped links, of which one carries so many percent less. The runs
are kept apart from all others, in runs/.calibration/, and a calibration that was interrupted goes on from them.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pairlab import __version__, paths, store
from pairlab.analysis import floors
from pairlab.analysis.floors import Calibration, Cell, Planted
from pairlab.analysis.measures import MEASURES, summaries
from pairlab.course import left_s, traffic_s
from pairlab.errors import BadInput, BadSpec, MeasurementFailed, TestbedError, Unavailable
from pairlab.measurement import check, measure, resolve
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.testbed import facts
from pairlab.testbed.contracts import Progress, silent

EXPERIMENT = "calibration"
#: Of the one shaped link that planted differences are taken from: so slow that other load does not keep it from being
#: full, and so fast that what is under way when the time is over is a small part of all.
PLANTED_RATE_BPS = 250e6
#: In how many repetitions, the first ones, planted differences take part: shaped links are quiet, so few will do.
PLANTED_REPETITIONS = 6
#: Fewer repetitions than this tell no noise.
LEAST_REPETITIONS = 3
#: How often a visit is made whose run does not count.
ATTEMPTS = 2


@dataclass(frozen=True)
class Visit:
    """One measurement of a calibration. cell: which it is of; second: whether it is the cell's second in this
    repetition. cost_percent: of a planted difference, by how much its link carries less (0: the one to compare with).
    """

    spec: Spec
    cell: Spec
    repetition: int
    second: bool = False
    cost_percent: float | None = None


@dataclass(frozen=True)
class Plan:
    """What a calibration measures: cells without a repetition of their own, and what differences are planted.

    not_planted: why there are none although they were asked for; empty where there are.
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
    """The calibration of a driver: the throughput of these numbers of pairs and, given flow_bytes, completion times.

    more: other parameters of every Spec; the noise under those that are special (floors.special) is recorded apart.
    costs_percent: what planted differences cost. Raises BadInput for what cannot be asked, Unavailable for what this
    host cannot do; where only shaped links are not to be had, none are planted.
    """
    if repetitions < LEAST_REPETITIONS:
        raise BadInput(f"repetitions: {repetitions} tell no noise, at least {LEAST_REPETITIONS} are needed")
    if not pairs or len(set(pairs)) < len(pairs):
        raise BadInput(f"pairs: one number or several different ones, not {list(pairs)}")
    if bad := [cost for cost in costs_percent if not 0 < cost < 100]:
        raise BadInput(f"a planted difference costs between 0 and 100 %, not {bad[0]:g}")
    shared = {"experiment": EXPERIMENT, "backend": backend, "driver": driver, "workload": workload}
    if taken := sorted({*shared, "pairs", "repetition", "duration_s", "flow_bytes"} & set(more or {})):
        raise BadInput(f"{', '.join(taken)}: given to a calibration by its own name, or set by it")
    shared |= more or {}
    shared["interval_s"] = min(duration_s, shared.get("interval_s", Spec.model_fields["interval_s"].default))
    cells = [resolve(Spec(**shared, pairs=count, duration_s=duration_s)) for count in pairs]
    if flow_bytes:  # what has an end is not held to the duration, but to the time that a spec leaves by default
        ending = {**shared, "flow_bytes": flow_bytes, "interval_s": Spec.model_fields["interval_s"].default}
        cells += [resolve(Spec(**ending, pairs=count)) for count in pairs]
    for cell in cells:
        check(cell)
    shaped, trouble = None, ""
    if costs_percent:
        shaped = cells[0].replace(pairs=1, link_rate_bps=PLANTED_RATE_BPS)
        try:
            check(shaped)
        except (BadSpec, Unavailable) as error:
            shaped, trouble = None, str(error)
    return Plan(tuple(cells), repetitions, shaped, tuple(costs_percent) if shaped else (), trouble)


def visits(plan: Plan, seed: int = 0) -> Iterator[Visit]:
    """Every measurement in its order: repetition by repetition, each shuffled by the seed.

    The two of a cell are repetitions 2n and 2n + 1 of the same spec, so that nothing but chance sets them apart.
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


#: Hears of each visit: its number, of how many, its spec, what came of it, and seconds still to go.
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
    """Measures what the plan says, records what it tells of this host in runs/.calibration/, and returns that.

    root: the folder of runs, by default runs/. fresh: measure again what is stored already. tell: hears of each visit
    that has ended; progress: of the phases of each; execute: by default `measure`. A visit that does not count is made
    again once, and then its repetition is left out. Raises MeasurementFailed where too few repetitions are left, and
    what stops every measurement: BadInput, Unavailable, HostBusy, StoreError.
    """
    root = root or paths.runs()
    own = root / floors.FOLDER
    for place, _ in store.debris(own):
        store.discard(place)
    execute = execute or partial(measure, progress=progress)
    done, troubles = _measure_all(list(visits(plan, seed)), own, fresh, execute, tell)
    times = [made.measured_at for _, made in done if made.measured_at] or [datetime.now(UTC)]
    calibration = Calibration(
        schema=floors.SCHEMA,
        host=facts.host()["fingerprint"],
        backend=plan.backend,
        pairlab=__version__,
        measured_from=min(times),
        measured_to=max(times),
        cells=tuple(_cells(plan, done, troubles)),
        planted=tuple(_planted(plan, done, troubles)),
    )
    floors.write(calibration, root)
    return calibration


def _measure_all(
    todo: Sequence[Visit], root: Path, fresh: bool, execute: Callable[..., Run], tell: Tell
) -> tuple[list[tuple[Visit, Run]], list[str]]:
    """Every visit with its run that counts, and what was wrong with the others."""
    done: list[tuple[Visit, Run]] = []
    troubles: list[str] = []
    waiting = {visit.spec for visit in todo if fresh or not _counts(store.find(visit.spec, root))}
    costs: list[float] = []
    for number, visit in enumerate(todo, 1):
        begun = time.monotonic()
        made, told = _make(visit.spec, root, fresh, execute)
        if visit.spec in waiting:
            waiting.remove(visit.spec)
            costs.append(time.monotonic() - begun - traffic_s(visit.spec))
        if made:
            done.append((visit, made))
        else:
            troubles.append(told)
        tell(number, len(todo), visit.spec, told, left_s(((spec, 1) for spec in waiting), costs))
    return done, troubles


def _make(spec: Spec, root: Path, fresh: bool, execute: Callable[..., Run]) -> tuple[Run | None, str]:
    """A run of that spec that counts, else none; and what came of it in words."""
    fresh = fresh or not _counts(store.find(spec, root))  # else one of another host would be taken
    told = ""
    for _ in range(ATTEMPTS):
        try:
            made = execute(spec, root=root, fresh=fresh)
        except (MeasurementFailed, TestbedError) as error:
            told = f"failed: {error}"
            continue
        if made.status == "ok":
            return made, made.outcome
        told = f"{made.status}: {'; '.join(made.reasons)}"
    return None, told


def _counts(stored: Run | None) -> bool:
    """Whether a stored run is one of this host that came off."""
    here = facts.host()["fingerprint"]
    return bool(stored) and stored.status == "ok" and stored.facts.get("host", {}).get("fingerprint") == here


def _cells(plan: Plan, done: Sequence[tuple[Visit, Run]], troubles: Sequence[str]) -> Iterator[Cell]:
    for cell in plan.cells:
        mine = [(visit, run) for visit, run in done if visit.cell == cell and visit.cost_percent is None]
        for measure_name in [name for name in MEASURES if name.startswith("fct") == bool(cell.flow_bytes)]:
            first, second = _both(mine, measure_name, cell, troubles)
            yield Cell(**_described(cell), measure=measure_name, first=first, second=second)


def _planted(plan: Plan, done: Sequence[tuple[Visit, Run]], troubles: Sequence[str]) -> Iterator[Planted]:
    for cost in plan.costs_percent:
        mine = [(visit, run) for visit, run in done if visit.cost_percent in (0, cost)]
        first, second = _both(mine, "total_bps", plan.shaped, troubles)
        told = _described(plan.shaped)
        yield Planted(**told, measure="total_bps", first=first, second=second, cost_percent=cost)


def _both(
    done: Sequence[tuple[Visit, Run]], measure_name: str, cell: Spec, troubles: Sequence[str]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The first and the second value of each repetition that has both."""
    sides: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for visit, run in done:
        value = summaries(run).get(measure_name, 0.0)
        if value > 0:
            sides[visit.second][visit.repetition] = value
    both = sorted(set(sides[0]) & set(sides[1]))
    if len(both) < LEAST_REPETITIONS:
        failed = sum(run.failed_flows for _, run in done)
        why = troubles[-1] if troubles else f"{failed} flows failed" if failed else "too few were asked for"
        raise MeasurementFailed(
            f"{cell}: {len(both)} repetitions came off whole, and noise needs {LEAST_REPETITIONS}:"
            f" {why}. Calibrate again on a quiet host; what came off is kept"
        )
    return tuple(sides[0][at] for at in both), tuple(sides[1][at] for at in both)


def _described(cell: Spec) -> dict:
    told = {name: getattr(cell, name) for name in Cell.model_fields if name in Spec.model_fields}
    return {**told, "parameters": {name: value for name, value in floors.special(cell).items() if name not in told}}
