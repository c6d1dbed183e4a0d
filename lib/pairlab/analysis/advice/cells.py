"""The cells of an answer: one quantity of one network, measured as asked, or in the nearest setting.

A *setting* is a spec without the driver and the repetition, on one host and kernel, under one label and one congestion
control in force. Runs of two settings are never pooled, and numbers of two settings never decide between networks.
"""

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from pairlab.analysis import cell_estimates, repetitions, selection
from pairlab.analysis.advice.question import CRITERIA, Question
from pairlab.analysis.advice.usable import CONDITIONS, is_default, kind
from pairlab.model.records import Run
from pairlab.model.spec import describe
from pairlab.statistics.intervals import Estimate
from pairlab.store.dataset import Runs


class Setting(NamedTuple):
    """asked: the spec's values by name, without driver and repetition. in_force: host, kernel, label, congestion
    control.
    """

    asked: tuple[tuple[str, Any], ...]
    in_force: tuple[str, ...]

    @classmethod
    def of(cls, run: Run) -> "Setting":
        asked = run.spec.model_dump(exclude={"driver", "repetition"})
        environment = run.environment
        in_force = (environment.host, environment.kernel, environment.label, run.congestion_control)
        return cls(tuple(asked.items()), in_force)

    @property
    def values(self) -> dict[str, Any]:
        return dict(self.asked)

    @property
    def unusual(self) -> list[str]:
        """The CONDITIONS that are not the default."""
        return [name for name, value in self.asked if name in CONDITIONS and not is_default(name, value)]

    def __str__(self) -> str:
        values = self.values
        where = "one host" if values["hosts"] == 1 else f"{values['hosts']} hosts {values['placement']}"
        if values.get("launches"):
            return f"{values['backend']}, {values['pairs']} at once, {where}, {values['launches']} launches each"
        parts = [values["backend"], f"{values['pairs']} pair{'s' * (values['pairs'] != 1)}", where, values["workload"]]
        parts += ["UDP" if values["udp_share"] == 1 else f"TCP {self.in_force[-1]}".rstrip()]
        covered = {"hosts": 1, "launches": 0, "congestion_control": "", "udp_share": values["udp_share"] % 1}
        parts += describe.particulars(SimpleNamespace(**values | covered))
        return ", ".join([*parts, f"{values['duration_s']:g} s each"])


@dataclass(frozen=True)
class Cell:
    """An estimate with its setting and runs, or `gap`: why there is none.

    exact: whether it was measured as asked. runs: those behind the mean; by_block: their values by the label of the
    block.
    """

    quantity: str
    found: Estimate | None = None
    setting: Setting | None = None
    exact: bool = False
    runs: tuple[Run, ...] = ()
    by_block: Mapping[Hashable, float] = field(default_factory=dict, repr=False)
    gap: str = "not measured"


Measured = Mapping[Setting, Mapping[str, list[Run]]]


def by_setting(runs: Iterable[Run]) -> Measured:
    """The runs by setting and driver."""
    grouped: dict[Setting, dict[str, list[Run]]] = {}
    for run in runs:
        grouped.setdefault(Setting.of(run), {}).setdefault(run.spec.driver, []).append(run)
    return grouped


def find(measured: Measured, backend: str, quantity: str, question: Question) -> dict[str, Cell]:
    """The cell of each driver that has one, in the setting nearest to the question.

    Of equally near settings, the one that most networks have, so that they can be compared; of these, the one with most
    repetitions. Raises AnalysisError if runs of one setting do not belong together.
    """
    near = [setting for setting in measured if setting.values["backend"] == backend]

    def distance(setting: Setting) -> tuple:
        return _distance(setting, quantity, question), len(setting.unusual)

    by_driver: dict[str, Cell] = {}
    for (far, _), settings in itertools.groupby(sorted(near, key=distance), distance):
        if far and question.exactly:
            break
        candidates = [dict(_cells(setting, measured[setting], quantity, not far, by_driver)) for setting in settings]
        candidates.sort(key=lambda cells: (-len(cells), -sum(len(each.runs) for each in cells.values())))
        for cells in candidates:
            by_driver = cells | by_driver
    return by_driver


def _distance(setting: Setting, quantity: str, question: Question) -> tuple:
    """The distance of a setting from the question; (): measured as asked."""
    values = setting.values
    far = (
        abs(values["hosts"] - question.hosts),
        "placement" not in question.where and values["placement"] != question.placement,
        round(abs(math.log(values["pairs"] / question.pairs_of(quantity))), 9),
    )
    return far if any(far) else ()


def _cells(
    setting: Setting, by_driver: Mapping[str, list[Run]], quantity: str, exact: bool, known: Mapping[str, Cell]
) -> Iterator[tuple[str, Cell]]:
    """The cells of drivers that are not `known` yet and whose runs have the quantity."""
    of = CRITERIA[quantity]
    for driver, runs in by_driver.items():
        if driver in known or kind(runs[0]) != of.of:
            continue
        if all(math.isnan(repetitions.values(run, [of.column])[of.column]) for run in runs):
            continue
        selection.check_alike(runs)
        rows = repetitions.table(Runs(tuple(runs)), quantities=[of.column], alike=False)
        rows[of.column] *= of.scale
        (mean,) = cell_estimates.means(rows, selection.CELL, of.column).itertuples()
        estimate = None if mean.gap else Estimate(mean.value, mean.low, mean.high, mean.n)
        in_order = tuple(sorted(runs, key=lambda run: run.spec.repetition))
        by_block: dict[Hashable, float] = dict(zip(rows["block"], rows[of.column].astype(float), strict=True))
        yield (
            driver,
            Cell(quantity, estimate, setting, exact, in_order, by_block, mean.gap.replace(of.column, of.title)),
        )
