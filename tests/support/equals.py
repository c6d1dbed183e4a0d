"""Equals, measured on a machine that drifts: how often pairlab calls them different, and how often its intervals hold.

A made-up machine has a speed at each moment (NOISES). Two cells that are the same, or differ by what is planted, are
measured on it in one of ORDERS, and what pairlab itself makes of their runs is counted: by its questions, percentiles,
claims, and `compare`.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, flow_changes
from pairlab.analysis.claims import contrasts, judgement, run_table
from pairlab.analysis.claims.effect import AttemptsDiffer, MeasuredApart
from pairlab.analysis.comparison.compute import compare
from pairlab.analysis.repetitions import Attempts
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.statistics.clusters import Clusters
from tests.support.claimed import cells_of, claim_of
from tests.support.synthetic import run

#: The standard deviation of a run's own noise, as a logarithm, whatever the machine's speed is.
OWN = 0.03
#: That of the machine's speed, and over how many hours it forgets what it was.
DRIFT, MEMORY_H = 0.12, 2.0
#: How much slower the machine is at its lower speed, and for which share of the time.
SLOWER, SLOW_SHARE = 0.22, 0.4
#: From a repetition to the next; how long a block takes, and for how many runs it has room.
REPETITION_H, BLOCK_H, SLOTS = 1.0, 1 / 6, 8
#: The flows of a run, and how their times differ within it.
FLOWS, WITHIN = 40, 0.4
#: In how many moments for each repetition the machine's mean speed is taken.
_MOMENTS = 20
_BEGIN = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Measured(NamedTuple):
    """values: of each draw, side and repetition; hours: when each was measured; block: when its block began, NaN where
    it had none; mean: of each draw, that of all that could have been measured in these hours. A third side is the twin
    of the first. lost: what others took of each side's time; NaN: not known. discarded: how many measurements of
    each side did not count before its first repetition did.
    """

    values: np.ndarray
    hours: np.ndarray
    block: np.ndarray
    mean: np.ndarray
    lost: tuple[float, ...] = (np.nan, np.nan, np.nan)
    discarded: tuple[int, ...] = (0, 0, 0)

    def first(self, draws: int) -> "Measured":
        return Measured(*(part[:draws] for part in self[:4]), self.lost, self.discarded)

    @property
    def labels(self) -> np.ndarray:
        """Of the block of each value, as blocks.label_of has them."""
        by_side = np.arange(self.hours.shape[1])[:, None]
        alone = np.isnan(self.block)
        return _labels(np.where(alone, self.hours, self.block), np.where(alone, by_side + 1, 0))


class Found(NamedTuple):
    """Of each draw: whether the two were called different, and the interval of the change in percent."""

    different: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def covered(self, truth: float = 0.0) -> np.ndarray:
        """Of those that have an interval, whether it holds the truth."""
        known = ~np.isnan(self.low)
        return (self.low[known] <= truth) & (truth <= self.high[known])


# --- a machine's speed, as a logarithm, at rising hours


def steady(random, hours):
    return np.zeros_like(hours)


def walking(random, hours):
    """A random walk, which in an hour goes as far as a drift with a memory does in its time."""
    steps = np.sqrt(np.diff(hours, axis=1, prepend=hours[:, :1])) * DRIFT / np.sqrt(MEMORY_H)
    return np.cumsum(random.normal(0, 1, hours.shape) * steps, axis=1)


def returning(random, hours):
    """A drift with a memory: AR(1)."""
    kept = np.exp(-np.diff(hours, axis=1) / MEMORY_H)
    speeds = random.normal(0, DRIFT, hours.shape)
    for at in range(1, hours.shape[1]):
        part = kept[:, at - 1]
        speeds[:, at] = part * speeds[:, at - 1] + np.sqrt(1 - part**2) * speeds[:, at]
    return speeds


def switching(random, hours, memory_h):
    """Two speeds, between which a Markov chain goes to and fro."""
    slow = random.random(hours.shape) < SLOW_SHARE
    stays = random.random(hours.shape) < np.exp(-np.diff(hours, axis=1, prepend=np.nan) / memory_h)
    for at in range(1, hours.shape[1]):
        slow[:, at] = np.where(stays[:, at], slow[:, at - 1], slow[:, at])
    return np.log(1 - SLOWER * slow)


class Noise(NamedTuple):
    """long_run: the mean of what is measured, where there is one."""

    speed: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    long_run: float


_AT_OWN = np.exp(OWN**2 / 2)
_AT_TWO = (1 - SLOWER * SLOW_SHARE) * _AT_OWN
NOISES = {
    "independent": Noise(steady, _AT_OWN),
    "random walk": Noise(walking, np.nan),
    "drift": Noise(returning, np.exp(DRIFT**2 / 2) * _AT_OWN),
    "two speeds, by run": Noise(partial(switching, memory_h=1e-3), _AT_TWO),
    "two speeds, by hours": Noise(partial(switching, memory_h=MEMORY_H), _AT_TWO),
}


# --- when the sides are measured: hours, and those at which their blocks began


def in_blocks(random, draws, sides, n):
    begun = np.broadcast_to(REPETITION_H * np.arange(n), (draws, sides, n))
    slots = random.random((draws, SLOTS, n)).argsort(axis=1)[:, :sides]
    return begun + slots * BLOCK_H / SLOTS, begun


def in_turn(random, draws, sides, n):
    """Each repetition has each side once, in random order and far apart."""
    order = random.random((draws, sides, n)).argsort(axis=1)
    return REPETITION_H * (np.arange(n) + order / sides), None


def apart(random, draws, sides, n):
    hours = REPETITION_H * np.arange(sides * n).reshape(sides, n)
    return np.broadcast_to(hours, (draws, sides, n)), None


def hardly_in_turn(random, draws, sides, n):
    """The first side earlier, as far as it may be (blocks.apart): AABABABB."""
    hours = REPETITION_H * np.arange(n) + np.array([[0.0], [0.75]])
    hours[0, 1:] -= 0.5
    return np.broadcast_to(hours, (draws, sides, n)), None


ORDERS = {"in blocks": in_blocks, "in turn": in_turn, "hardly in turn": hardly_in_turn, "one after the other": apart}


def measured(noise: str, order: Callable, n: int, draws: int, *, seed=0, planted=0.0, sides=2) -> Measured:
    """So many draws of n repetitions of each side. planted: by how much the second is more, as a logarithm."""
    random = np.random.default_rng([seed, n, list(NOISES).index(noise), draws])
    hours, begun = order(random, draws, sides, n)
    runs = hours.reshape(draws, -1)
    others = np.linspace(0, hours.max(), _MOMENTS * n)
    moments = np.hstack([runs, np.broadcast_to(others, (draws, len(others)))])
    rising = moments.argsort(axis=1, kind="stable")
    speeds = np.empty(moments.shape)
    moved = NOISES[noise].speed(random, np.take_along_axis(moments, rising, axis=1))
    np.put_along_axis(speeds, rising, moved, axis=1)
    logs = speeds[:, : runs.shape[1]].reshape(hours.shape) + random.normal(0, OWN, hours.shape)
    logs[:, 1] += planted
    mean = np.exp(speeds[:, runs.shape[1] :]).mean(axis=1) * _AT_OWN
    return Measured(np.exp(logs), hours, np.full(hours.shape, np.nan) if begun is None else begun, mean)


# --- what pairlab finds


def by_questions(made: Measured) -> Found:
    """As notebooks do: cell_estimates.changes."""
    rows = _table(made)
    found = cell_estimates.changes(rows, ["backend", "cell"], "total_bps", setting="side", against=0)
    return Found((found["p"] <= 0.05).to_numpy(), found["low"].to_numpy(), found["high"].to_numpy())


def by_percentiles(made: Measured, q: float = 0.5) -> Found:
    """As the questions on completion times do: flow_changes.change of a percentile of all flows."""
    random, rows = np.random.default_rng(made.values.size), []
    labels = made.labels
    for values, names in zip(made.values, labels, strict=True):
        times = values[..., None] * random.lognormal(0, WITHIN, (*values.shape, FLOWS))
        times.sort(axis=-1)
        sides = (Clusters(names[side], tuple(times[side])) for side in (0, 1))
        found = flow_changes.change(*sides, q, 0.95)
        rows.append((found["low"], found["high"]))
    low, high = np.array(rows, dtype=float).T
    return Found((low > 0) | (high < 0), low, high)


def by_claims(made: Measured) -> Found:
    """As a claim on two drivers' ratio, that one is more, without a margin: either verdict is wrong of equals."""
    claim, frame = claim_of("drivers_change", margin=0.0), _claims_frame(made.values.shape[2])
    side = (frame["driver"] == claim.effect.of["driver"]).to_numpy().astype(int)
    rows = []
    for values, labels in zip(made.values, made.labels, strict=True):
        at = side, frame["repetition"].to_numpy()
        more = {"run": _runs(made)[side], "attempts": _attempts(made, side)}
        runs = frame.assign(total_bps=values[at], block=labels[at], **more)
        try:
            row = judgement.judge(claim, contrasts.find(claim.effect, runs))
        except (MeasuredApart, AttemptsDiffer):
            row = {"verdict": "undecided", "low": np.nan, "high": np.nan}
        rows.append((row["verdict"] != "undecided", row["low"], row["high"]))
    different, low, high = np.array(rows, dtype=float).T
    return Found(different > 0, low, high)


def by_compare(made: Measured) -> Found:
    """As `compare` says it, of runs; where a twin of the first side was measured, with its noise."""
    found = sorted(compare(runs_of(made)), key=lambda each: each.alike["pairs"])
    assert len(found) == len(made.values)
    low, high = np.array([(each.low, each.high) for each in found]).T
    return Found(np.array([each.verdict in ("better", "worse") for each in found]), low, high)


ESTIMATORS = {"questions": by_questions, "percentiles": by_percentiles, "claims": by_claims, "compare": by_compare}


def mean_covers(made: Measured, means: np.ndarray | float) -> np.ndarray:
    """Whether the interval of the first side's mean holds these: of each draw, or of all."""
    rows = _table(made)
    found = cell_estimates.means(rows[rows["side"] == 0], ["cell"], "total_bps")
    return ((found["low"] <= means) & (means <= found["high"])).to_numpy()


def runs_of(made: Measured) -> list[Run]:
    """The draws as runs: each has a number of pairs of its own."""
    templates, found = [run([1.0], driver=driver) for driver in ("bridge", "macvlan", "bridge")], []
    for place, value in np.ndenumerate(made.values):
        draw, side, repetition = place
        template, begun = templates[side], made.block[place]
        spec = template.spec.replace(twin=side == 2, repetition=repetition, pairs=draw + 1)
        flows = template.flows.assign(throughput_bps=1e9 * value)
        facts = {**template.facts, "block": "" if np.isnan(begun) else _label(float(begun), 0)}
        at = _BEGIN + timedelta(hours=float(made.hours[place]))
        bad = made.discarded[side] if repetition == 0 else 0
        facts["attempts"] = [{"reasons": ["disturbed"]}] * bad + [{"reasons": []}]
        checks = _runs(made)[side].checks
        found.append(replace(template, spec=spec, measured_at=at, facts=facts, flows=flows, checks=checks))
    return found


def allowed(rate: float, draws: int, errors: float = 3.0) -> float:
    """The share of so many draws that may be hit where that rate is: so many standard errors above it."""
    return rate + errors * np.sqrt(rate * (1 - rate) / draws)


def _table(made: Measured) -> pd.DataFrame:
    """A row per repetition, as analysis.repetitions has it: each draw is a cell."""
    cell, side, repetition = (axis.ravel() for axis in np.indices(made.values.shape))
    rows = {"backend": "made up", "cell": cell, "side": side, "repetition": repetition}
    more = {"run": _runs(made)[side], "attempts": _attempts(made, side)}
    return pd.DataFrame(rows | {"block": made.labels.ravel(), "total_bps": made.values.ravel(), **more})


def _runs(made: Measured) -> np.ndarray:
    """A run of each side, of whose time others took as much."""
    checks = [{} if np.isnan(share) else {"others_cpu": share} for share in made.lost]
    return np.array([Run(Spec(), "ok", checks=each) for each in checks], dtype=object)


def _attempts(made: Measured, sides: np.ndarray) -> list[Attempts]:
    """As repetitions.table has them, of each row's cell."""
    n = made.values.shape[2]
    return [Attempts(bad, bad + n) for bad in np.array(made.discarded)[sides]]


@cache
def _claims_frame(n: int) -> pd.DataFrame:
    return run_table.reduce(cells_of("drivers_change", 0.0, OWN, repetitions=n), {"throughput": ["total_bps"]})


@cache
def _label(hour: float, which: int) -> str:
    return f"{_BEGIN + timedelta(hours=hour):%Y-%m-%dT%H:%M:%S.%fZ} {which or 'made up'}"


_labels = np.vectorize(_label, otypes=[object])
