"""What decides the claims of the ledger: pure functions from one row per run to one value per repetition.

An estimator takes the runs of one system as per_run.reduce gives them, and the parameters of a claim. It returns an
Effect: one value per repetition, on the scale on which they are averaged, and which cells it used. A sweep visits
every cell once per repetition, so cells are compared within a repetition, where slow drift of the machine cancels.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from pairlab.analysis.stats import Estimate, mean_interval
from pairlab.errors import BadInput, NotMeasured, TooFewSamples, UnknownName

#: The drivers of the papers; the host's own network is a baseline of ours, on which they state nothing.
DRIVERS = ("bridge", "macvlan", "ovs")

#: A number of pairs: exactly that, the least or the most that was measured, or one of these where it is not there.
PairCount = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^(\d+ or )?(least|most)$")]
Summary = Literal["total_bps", "client_bps", "fct_median_s", "fct_mean_s", "fct_max_s"]
Role = Literal["mouse_median_s", "mouse_max_s", "elephant_median_s", "elephant_max_s"]


class TooFewFlows(TooFewSamples):
    """Fewer flows than a percentile needs; repetitions_needed: how many repetitions have enough."""

    def __init__(self, told: str, repetitions_needed: int):
        super().__init__(f"{told}: measure {repetitions_needed} repetitions")
        self.repetitions_needed = repetitions_needed


#: By how much percentile_change widens its interval, see there.
PERCENTILE_WIDENING = 1.4
_RESAMPLES = 400


@dataclass(frozen=True)
class Scale:
    """How values are averaged, and how the result is shown: both ways are increasing, so bounds stay bounds."""

    shown: Callable[[float], float]
    kept: Callable[[float], float]


PERCENT = Scale(lambda log: 100 * np.expm1(log), lambda percent: np.log1p(np.maximum(percent, -99.9999) / 100))
CORRELATION = Scale(np.tanh, np.arctanh)  # Fisher 1915
PLAIN = Scale(lambda value: value, lambda value: value)


@dataclass(frozen=True)
class Effect:
    """One value per repetition, what cells they are of, and what a reader must know of them.

    stands_in: a number of pairs stands in for the one that a paper tells of, so sizes cannot be compared.
    """

    values: np.ndarray
    scale: Scale
    cells: str
    notes: tuple[str, ...] = ()
    stands_in: bool = False

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """The mean over repetitions with its Student t interval, as shown."""
        found = mean_interval(self.values, confidence)
        return Estimate(*(float(self.scale.shown(bound)) for bound in found[:3]), found.n)


@dataclass(frozen=True)
class Estimator:
    """A registered function, the unit of its effect, and the types of its parameters."""

    name: str
    unit: str
    function: Callable[..., Effect]

    def __call__(self, runs: pd.DataFrame, parameters: Mapping[str, Any]) -> Effect:
        return self.function(runs, **parameters)

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Raises BadInput where a parameter is missing, unknown, or of the wrong type or value."""
        known = {
            name: parameter
            for name, parameter in inspect.signature(self.function).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        if strange := sorted(set(parameters) - set(known)):
            told = f"estimator {self.name!r} has no parameter {', '.join(strange)}; there are: {', '.join(known)}"
            raise BadInput(told)
        if absent := [name for name in known if known[name].default is inspect.Parameter.empty]:
            absent = [name for name in absent if name not in parameters]
            if absent:
                raise BadInput(f"estimator {self.name!r} needs {', '.join(absent)}")
        for name, value in parameters.items():
            try:
                TypeAdapter(known[name].annotation, config=ConfigDict(strict=True)).validate_python(value)
            except ValidationError as error:
                raise BadInput(f"{name}: {error.errors()[0]['msg']}, not {value!r}") from None


ESTIMATORS: dict[str, Estimator] = {}


def get(name: str) -> Estimator:
    """The estimator of that name. Raises UnknownName, with the choices."""
    if name not in ESTIMATORS:
        raise UnknownName(f"no estimator {name!r}; there are: {', '.join(sorted(ESTIMATORS))}")
    return ESTIMATORS[name]


def estimator(unit: str) -> Callable[[Callable[..., Effect]], Callable[..., Effect]]:
    """Registers a function under its name."""

    def register(function: Callable[..., Effect]) -> Callable[..., Effect]:
        ESTIMATORS[function.__name__] = Estimator(function.__name__, unit, function)
        return function

    return register


@estimator("%")
def pairs_change(
    runs: pd.DataFrame,
    *,
    driver: str,
    pairs: Annotated[list[PairCount], Field(min_length=2, max_length=2)],
    what: Summary = "total_bps",
) -> Effect:
    """Change of a summary from one number of pairs to another. driver "all": the largest over the papers' drivers."""
    drivers = _drivers(runs, driver)
    cells = _Cells(runs)
    before, after = cells.choose(drivers, pairs)
    values = cells.ratio(cells.largest(what, drivers, pairs=after), cells.largest(what, drivers, pairs=before))
    return cells.effect(values, PERCENT, f"{before} → {after} pairs")


@estimator("%")
def pairs_trend(
    runs: pd.DataFrame,
    *,
    driver: str,
    pairs: Annotated[list[PairCount], Field(min_length=2, max_length=2)],
    what: Summary = "total_bps",
) -> Effect:
    """Change of a summary over a range of pairs, by a straight line through all its counts, both logarithmic."""
    drivers = _drivers(runs, driver)
    cells = _Cells(runs)
    first, last = cells.choose(drivers, pairs)
    counts = [count for count in _counts(runs, drivers) if first <= count <= last]
    table = cells.beside({count: cells.largest(what, drivers, pairs=count) for count in counts})
    values = _slopes(cells.positive(table), np.log(counts)) * np.log(last / first)
    return cells.effect(values, PERCENT, f"{', '.join(map(str, counts))} pairs")


@estimator("%")
def drivers_change(
    runs: pd.DataFrame,
    *,
    drivers: Annotated[list[str], Field(min_length=2, max_length=2)],
    pairs: PairCount,
    what: Summary | Role = "total_bps",
) -> Effect:
    """How much larger a summary is with the first driver than with the second."""
    cells = _Cells(runs)
    (count,) = cells.choose(drivers, [pairs])
    first, second = (cells.of(what, driver=driver, pairs=count) for driver in drivers)
    return cells.effect(cells.ratio(first, second), PERCENT, f"{count} pairs")


@estimator("share")
def share(runs: pd.DataFrame, *, driver: str, pairs: PairCount, what: Literal["least_over_most", "busy"]) -> Effect:
    """The mean of a share over repetitions."""
    cells = _Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    return cells.effect(cells.known(cells.of(what, driver=driver, pairs=count), what), PLAIN, f"{count} pairs")


@estimator("r")
def correlation(runs: pd.DataFrame, *, driver: str, pairs: PairCount) -> Effect:
    """Pearson's r of retransmits and throughput over the clients of a repetition, averaged as Fisher's z."""
    cells = _Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    found = cells.known(cells.of("correlation", driver=driver, pairs=count), "correlation")
    return cells.effect(np.arctanh(found.clip(-0.9999, 0.9999)), CORRELATION, f"{count} pairs")


@estimator("%")
def percentile_change(
    runs: pd.DataFrame,
    *,
    driver: str,
    pairs: Annotated[list[PairCount], Field(min_length=2, max_length=2)],
    q: Annotated[float, Field(gt=0, lt=1)],
) -> Effect:
    """Change of a percentile of the FCT from one number of pairs to another, over the flows of all repetitions.

    One repetition of few pairs has too few flows for a high percentile, so percentiles are of all flows together, and
    the spread is that of a bootstrap of whole repetitions; the one cell may have more of them than the other. Close to
    the largest flow the bootstrap is too narrow: simulated repetitions without a difference were called different
    twice to three times as often as they should, so the spread is widened by PERCENTILE_WIDENING. Raises TooFewFlows
    where a cell has less than 1/(1-q) flows.
    Source: Hyndman and Fan 1996 (the median-unbiased quantile, as the cells differ in size).
    """
    cells = _Cells(runs)
    counts = cells.choose([driver], pairs)
    fcts = [cells.of("fcts_s", driver=driver, pairs=count).dropna() for count in counts]
    needed = int(np.ceil(1 / (1 - q) - 1e-9))
    for count, cell in zip(counts, fcts, strict=True):
        if sum(map(len, cell)) < needed:
            raise TooFewFlows(
                f"percentile {100 * q:g} needs {needed} flows, and {driver} with {count} pairs has"
                f" {sum(map(len, cell))}",
                repetitions_needed=-(-needed // count),
            )

    def change(*which: np.ndarray) -> float:
        before, after = (
            np.quantile(np.concatenate(cell.iloc[drawn].to_list()), q, method="median_unbiased")
            for cell, drawn in zip(fcts, which, strict=True)
        )
        return float(np.log(after / before))

    def draw() -> tuple[np.ndarray, ...]:
        if fcts[0].index.equals(fcts[1].index):  # the same repetitions are drawn of both: what drifts slowly cancels
            return (random.integers(0, n, n),) * 2
        return tuple(random.integers(0, len(cell), len(cell)) for cell in fcts)

    n = min(map(len, fcts))
    whole = change(*(np.arange(len(cell)) for cell in fcts))
    random = np.random.default_rng(0)
    drawn = [change(*draw()) for _ in range(_RESAMPLES if n > 1 else 0)]
    # Values that have this mean and spread, for what is taken over repetitions later: n values spread as sqrt(n) means.
    pattern = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
    spread = np.std(drawn, ddof=1) * np.sqrt(n / (n - 1)) * PERCENTILE_WIDENING * np.sqrt(n) if n > 1 else 0.0
    values = whole + spread * (pattern / pattern.std(ddof=1) if n > 1 else pattern)
    return cells.effect(values, PERCENT, f"{counts[0]} → {counts[1]} pairs")


@estimator("%")
def experiments_change(
    runs: pd.DataFrame,
    *,
    driver: str,
    pairs: PairCount,
    of: Annotated[list[str], Field(min_length=2, max_length=2)],
    over: Annotated[list[str], Field(min_length=2, max_length=2)],
) -> Effect:
    """How much larger a summary is in one experiment than another is in another: (experiment, summary) of both."""
    drivers = _drivers(runs, driver)
    parts = [runs[runs["experiment"] == experiment] for experiment, _ in (of, over)]
    for (experiment, _), part in zip((of, over), parts, strict=True):
        if part.empty:
            raise NotMeasured(f"no runs of {experiment}")
    common = set(_counts(parts[0], drivers)) & set(_counts(parts[1], drivers))
    cells = _Cells(runs)
    (count,) = cells.choose(drivers, [pairs], sorted(common))
    found = [cells.largest(what, drivers, experiment=experiment, pairs=count) for experiment, what in (of, over)]
    return cells.effect(cells.ratio(*found), PERCENT, f"{count} pairs")


@estimator("%")
def roles_gap(
    runs: pd.DataFrame,
    *,
    drivers: Annotated[list[str], Field(min_length=2, max_length=2)],
    pairs: PairCount,
    roles: Annotated[list[Role], Field(min_length=2, max_length=2)],
) -> Effect:
    """How much larger the ratio of two drivers is for the first role than for the second.

    The drivers keep their order, as the larger of two noisy values would always make a gap.
    """
    cells = _Cells(runs)
    (count,) = cells.choose(drivers, [pairs])
    gaps = [cells.ratio(*(cells.of(role, driver=driver, pairs=count) for driver in drivers)) for role in roles]
    return cells.effect(cells.difference(*gaps), PERCENT, f"{count} pairs")


@estimator("%")
def core_ratio_change(
    runs: pd.DataFrame,
    *,
    driver: str,
    what: Literal["client_bps", "fct_mean_s"],
    per_step: bool = False,
) -> Effect:
    """Change of a summary from the least containers per core to the most; per_step: of one step of the ratio."""
    steps = _core_ratios(runs, [driver], what)
    cells = _Cells(runs)
    least, most = (cells.of(what, driver=driver, **steps[at].cell) for at in (0, -1))
    values = cells.ratio(most, least) / (len(steps) - 1 if per_step else 1)
    return cells.effect(values, PERCENT, _ratios_told(steps))


@estimator("%")
def core_ratio_gap(
    runs: pd.DataFrame,
    *,
    drivers: Annotated[list[str], Field(min_length=2, max_length=2)],
    what: Literal["client_bps", "fct_mean_s"],
) -> Effect:
    """How much larger the ratio of two drivers is at the most containers per core than at the least."""
    steps = _core_ratios(runs, drivers, what)
    cells = _Cells(runs)
    gaps = [cells.ratio(*(cells.of(what, driver=driver, **steps[at].cell) for driver in drivers)) for at in (-1, 0)]
    return cells.effect(cells.difference(*gaps), PERCENT, _ratios_told(steps))


@estimator("ms")
def core_ratio_gap_ms(
    runs: pd.DataFrame, *, drivers: Annotated[list[str], Field(min_length=2, max_length=2)]
) -> Effect:
    """How many ms more lie between two drivers' mean FCT at the most containers per core than at the least."""
    steps = _core_ratios(runs, drivers, "fct_mean_s")
    cells = _Cells(runs)
    gaps = [
        cells.difference(*(cells.of("fct_mean_s", driver=driver, **steps[at].cell) for driver in drivers))
        for at in (-1, 0)
    ]
    return cells.effect(1e3 * cells.difference(*gaps), PLAIN, _ratios_told(steps))


@estimator("%")
def pinning_change(runs: pd.DataFrame, *, driver: str, policy: str) -> Effect:
    """Change of the total throughput from no pinning to a policy, at the most pairs that have both."""
    mine = _of_driver(runs, driver)
    counts = {name: set(mine.loc[mine["pinning"] == name, "pairs"]) for name in ("none", policy)}
    for name, found in counts.items():
        if not found:
            raise NotMeasured(f"no runs of {driver} with pinning {name}")
    both = counts["none"] & counts[policy]
    if not both:
        raise NotMeasured(f"no number of pairs of {driver} with pinning {policy} and without")
    count = max(both)
    cells = _Cells(runs)
    after, before = (cells.of("total_bps", driver=driver, pairs=count, pinning=name) for name in (policy, "none"))
    return cells.effect(cells.ratio(after, before), PERCENT, f"{count} pairs")


@estimator("%")
def message_size_trend(runs: pd.DataFrame, *, driver: str) -> Effect:
    """Change of the total throughput when messages double, by a straight line through all sizes, both logarithmic."""
    mine = _of_driver(runs, driver)
    mine = mine[mine["message_bytes"] > 0]
    if mine.empty:
        raise NotMeasured(f"no runs of {driver} with a message size")
    count = max(mine.groupby("pairs")["message_bytes"].nunique().items(), key=lambda item: (item[1], item[0]))[0]
    sizes = sorted(mine.loc[mine["pairs"] == count, "message_bytes"].unique())
    if len(sizes) < 2:
        raise NotMeasured(f"one message size only of {driver} ({sizes[0]} B): a trend needs two")
    cells = _Cells(runs)
    table = cells.beside(
        {size: cells.of("total_bps", driver=driver, pairs=count, message_bytes=size) for size in sizes}
    )
    values = _slopes(cells.positive(table), np.log2(sizes))
    return cells.effect(values, PERCENT, f"{sizes[0]} to {sizes[-1]} B in {len(sizes)} sizes, {count} pairs")


class _Cells:
    """Reads cells by repetition, and remembers what of them could not be used."""

    def __init__(self, runs: pd.DataFrame):
        self._runs, self._rows, self._left_out, self._stand_ins = runs, {}, {}, []

    def choose(
        self, drivers: Sequence[str], wanted: Sequence[PairCount], counts: Sequence[int] | None = None
    ) -> list[int]:
        """The numbers of pairs meant by `wanted`, rising; from those at which all the drivers were measured."""
        counts = _counts(self._runs, drivers) if counts is None else counts
        there = f"there are, for {' and '.join(drivers)}: {', '.join(map(str, counts)) or 'none'}"
        chosen = []
        for each in wanted:
            exact = each if isinstance(each, int) else int(each.split()[0]) if each[0].isdigit() else None
            if exact in counts:
                chosen.append(exact)
            elif isinstance(each, int) or not counts:
                raise NotMeasured(f"no {each if isinstance(each, int) else 'common number of'} pairs ({there})")
            else:
                chosen.append(counts[0] if each.endswith("least") else counts[-1])
                if exact:
                    self._stand_ins.append(f"{chosen[-1]} pairs stand in for {exact}")
        if sorted(set(chosen)) != chosen:
            raise NotMeasured(f"no two numbers of pairs for {' and '.join(map(str, wanted))} ({there})")
        return chosen

    def of(self, what: str, **cell) -> pd.Series:
        """One value per repetition of a cell."""
        runs = self._runs
        for name, value in cell.items():
            runs = runs[runs[name] == value]
        # An experiment may hold flows that end and flows that do not; only one of them has what is asked for.
        runs = runs[runs["ends"] == ("fct" in what or what.startswith(("mouse", "elephant")))]
        if runs.duplicated("repetition").any():
            varied = [name for name in ("cores", "pinning", "message_bytes") if runs[name].nunique() > 1]
            raise NotMeasured(f"not told apart: runs differ in {', '.join(varied) or 'experiment'}")
        self._rows |= dict(zip(runs.index, runs[["flows", "failed_flows"]].itertuples(index=False), strict=True))
        return runs.set_index("repetition")[what].sort_index()

    def largest(self, what: str, drivers: Sequence[str], **cell) -> pd.Series:
        """One value per repetition: the largest over the drivers, where a repetition has them all."""
        return self.beside({driver: self.of(what, driver=driver, **cell) for driver in drivers}).max(axis=1)

    def beside(self, columns: Mapping[Any, pd.Series]) -> pd.DataFrame:
        """The cells of a repetition in one row; a repetition that lacks one is left out by name."""
        table = pd.DataFrame(dict(columns))
        whole = table.notna().all(axis=1)
        self._leave_out(table.index[~whole], "lacks a cell or its value")
        return table[whole]

    def ratio(self, first: pd.Series, second: pd.Series) -> pd.Series:
        """The logarithm of first over second, by repetition."""
        table = self.positive(self.beside({"first": first, "second": second}))
        return np.log(table["first"] / table["second"])

    def positive(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows that have a logarithm; a repetition of which a cell carried nothing is left out by name."""
        carried = (table > 0).all(axis=1)
        self._leave_out(table.index[~carried], "carried nothing")
        return table[carried]

    def difference(self, first: pd.Series, second: pd.Series) -> pd.Series:
        table = self.beside({"first": first, "second": second})
        return table["first"] - table["second"]

    def known(self, values: pd.Series, what: str) -> pd.Series:
        self._leave_out(values.index[values.isna()], f"has no {what.replace('_', ' ')}")
        return values.dropna()

    def effect(self, values: Sequence[float], scale: Scale, cells: str) -> Effect:
        notes = self._stand_ins + [
            f"left out: repetition {', '.join(map(str, sorted(which)))} {why}" for why, which in self._left_out.items()
        ]
        if not len(values):
            raise NotMeasured(f"no repetition has {cells} whole" + "".join(f"; {note}" for note in notes))
        flows, failed = map(sum, zip(*self._rows.values(), strict=True))
        if failed:
            notes.append(f"{failed} of {flows} flows failed")
        return Effect(np.asarray(values, dtype=float), scale, cells, tuple(notes), bool(self._stand_ins))

    def _leave_out(self, repetitions: pd.Index, why: str) -> None:
        if len(repetitions):
            self._left_out.setdefault(why, set()).update(repetitions)


def _slopes(table: pd.DataFrame, across: np.ndarray) -> np.ndarray:
    """The least-squares slope of each row's logarithm."""
    logs = np.log(table.to_numpy(dtype=float))
    centred = np.asarray(across, dtype=float) - np.mean(across)
    return logs @ centred / (centred @ centred)


def _of_driver(runs: pd.DataFrame, driver: str) -> pd.DataFrame:
    mine = runs[runs["driver"] == driver]
    if mine.empty:
        raise NotMeasured(f"no runs of {driver}")
    return mine


def _drivers(runs: pd.DataFrame, driver: str) -> list[str]:
    if driver != "all":
        return [driver]
    there = [name for name in DRIVERS if name in set(runs["driver"])]
    if not there:
        raise NotMeasured(f"no runs of {', '.join(DRIVERS)}")
    return there


def _counts(runs: pd.DataFrame, drivers: Sequence[str]) -> list[int]:
    """The numbers of pairs at which all these drivers were measured."""
    found = [set(_of_driver(runs, driver)["pairs"]) for driver in drivers]
    return sorted(map(int, set.intersection(*found)))


@dataclass(frozen=True)
class _Step:
    ratio: float
    pairs: int
    cores: int
    varied: str

    @property
    def cell(self) -> dict[str, int]:
        return {"pairs": self.pairs, "cores": self.cores}


def _core_ratios(runs: pd.DataFrame, drivers: Sequence[str], what: str) -> list[_Step]:
    """The settings of one series, by rising containers per core: cores varied at one number of pairs, where they were,
    else pairs varied on the same cores, which changes the offered load too."""
    ends = "fct" in what
    runs = runs[runs["ends"] == ends]
    if runs.empty:
        raise NotMeasured(f"no runs of flows {'with' if ends else 'without'} an end")
    settings = [
        set(zip(*(_of_driver(runs, driver)[name] for name in ("containers_per_core", "pairs", "cores")), strict=True))
        for driver in drivers
    ]
    common = [_Step(*setting, "") for setting in set.intersection(*settings) if setting[0] == setting[0]]
    for fixed, varied in (("pairs", "cores"), ("cores", "pairs")):
        series = [
            sorted((step for step in common if getattr(step, fixed) == value), key=lambda step: step.ratio)
            for value in sorted({getattr(step, fixed) for step in common})
        ]
        longest = max(series, key=lambda steps: (len(steps), getattr(steps[0], fixed)), default=[])
        if len(longest) > 1:
            return [_Step(step.ratio, step.pairs, step.cores, varied) for step in longest]
    raise NotMeasured(f"one container-to-core ratio only of {' and '.join(drivers)}: a change needs two")


def _ratios_told(steps: Sequence[_Step]) -> str:
    return f"{', '.join(f'{step.ratio:g}' for step in steps)} containers per core, by {steps[0].varied}"
