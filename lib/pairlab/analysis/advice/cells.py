"""One quantity of each network from stored runs: measured as asked, or in the nearest setting there is.

A *setting* is all that a spec asks for but the driver and the repetition, on one host and kernel, under one congestion
control in force. Runs of two settings are never pooled, and numbers of two settings never decide between networks.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from pairlab.analysis import cell_estimates, selection
from pairlab.analysis.advice.question import QUANTITIES, Question
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.statistics.intervals import Estimate

#: What a run may ask for and still tell what a network costs; each is named where it is not the default.
_CONDITIONS = ("congestion_control", "udp_share", "message_bytes", "request_bytes", "response_bytes", "launches")
_PLACE = ("hosts", "placement")
#: What sets nothing apart: the network itself, and how often it was measured.
_WITHIN = ("driver", "repetition")


class Setting(NamedTuple):
    """asked: the spec's values by name, without those of _WITHIN. in_force: host, kernel, congestion control."""

    asked: tuple[tuple[str, Any], ...]
    in_force: tuple[str, ...]

    @classmethod
    def of(cls, run: Run) -> "Setting":
        asked = tuple((name, value) for name, value in run.spec.model_dump().items() if name not in _WITHIN)
        return cls(asked, (run.ground.host, run.ground.kernel, selection.congestion_control(run)))

    @property
    def values(self) -> dict[str, Any]:
        return dict(self.asked)

    @property
    def unusual(self) -> dict[str, Any]:
        """Those of _CONDITIONS that are not the default."""
        return {
            name: value
            for name, value in self.asked
            if name in _CONDITIONS and value != Spec.model_fields[name].default
        }

    def __str__(self) -> str:
        values = self.values
        where = "one host" if values["hosts"] == 1 else f"{values['hosts']} hosts {values['placement']}"
        if values.get("launches"):
            return f"{values['backend']}, {values['pairs']} at once, {where}, {values['launches']} launches each"
        told = [values["backend"], f"{values['pairs']} pair{'s' * (values['pairs'] != 1)}", where, values["workload"]]
        told += ["UDP" if values["udp_share"] else f"TCP {self.in_force[-1]}".rstrip()]
        told += [f"{name} {value}" for name, value in self.unusual.items() if name.endswith("_bytes")]
        return ", ".join([*told, f"{values['duration_s']:g} s each"])


@dataclass(frozen=True)
class Cell:
    """An estimate with what it rests on, or `gap`, which says why there is none.

    exact: whether it was measured as asked. runs: those that it is the mean of.
    """

    quantity: str
    found: Estimate | None = None
    setting: Setting | None = None
    exact: bool = False
    runs: tuple[Run, ...] = ()
    gap: str = "not measured"

    def worse_than(self, other: "Cell") -> bool:
        """Whether it is for sure: of one setting, and its whole interval on the wrong side of the other's."""
        if not (self.found and other.found) or self.setting != other.setting:
            return False
        if QUANTITIES[self.quantity].less_is_better:
            return self.found.low > other.found.high  # NaN, where there is no interval, is above nothing
        return self.found.high < other.found.low


def by_setting(runs: Iterable[Run]) -> dict[Setting, dict[str, list[Run]]]:
    """The runs that count and tell what a network costs, by setting and driver.

    Bulk transfers in messages of a given size tell what a sender can do with such calls, not what a network carries.
    """
    found: dict[Setting, dict[str, list[Run]]] = {}
    for run in runs:
        if run.status == "ok" and _tells(run.spec) and not (run.spec.message_bytes and _kind(run) == "bulk"):
            found.setdefault(Setting.of(run), {}).setdefault(run.spec.driver, []).append(run)
    return found


def _tells(spec: Spec) -> bool:
    """Whether only the network, the traffic and the place decide: no limit, no other load, no end of flows.

    A round of messages between all containers is neither a transfer nor a request.
    """
    left_alone = [name for name in selection.BEYOND if name not in (*_CONDITIONS, *_PLACE)]
    usual = all(getattr(spec, name) == Spec.model_fields[name].default for name in left_alone)
    return usual and not spec.flows_end and spec.udp_share in (0, 1) and spec.experiment != "all-to-all"


def find(
    measured: Mapping[Setting, Mapping[str, list[Run]]], backend: str, quantity: str, question: Question
) -> dict[str, Cell]:
    """The cell of each driver that has one: of the setting that is nearest to the question.

    Of settings that are as near, of the one that most networks have, so that they can be held against each other; of
    these, of that with the most repetitions. Raises AnalysisError where runs of one setting do not belong together.
    """
    near = [
        setting
        for setting in measured
        # Within one host and between hosts are different paths: neither stands in for the other.
        if setting.values["backend"] == backend and (setting.values["hosts"] > 1) == (question.hosts > 1)
    ]

    def distance(setting: Setting) -> tuple:
        return _distance(setting, quantity, question), len(setting.unusual)

    found: dict[str, Cell] = {}
    for (far, _), settings in itertools.groupby(sorted(near, key=distance), distance):
        if far and question.exactly:
            break
        candidates = [dict(_cells(setting, measured[setting], quantity, not far, found)) for setting in settings]
        for cells in sorted(
            candidates, key=lambda cells: (-len(cells), -sum(len(each.runs) for each in cells.values()))
        ):
            for driver, cell in cells.items():
                found.setdefault(driver, cell)
    return found


def _distance(setting: Setting, quantity: str, question: Question) -> tuple:
    """How far the setting is from what is asked; () is as asked."""
    values = setting.values
    far = (
        abs(values["hosts"] - question.hosts),
        values["placement"] != question.placement,
        round(abs(math.log(values["pairs"] / question.pairs_of(quantity))), 9),
    )
    return far if any(far) else ()


def _cells(
    setting: Setting, by_driver: Mapping[str, list[Run]], quantity: str, exact: bool, known: Mapping[str, Cell]
) -> Iterator[tuple[str, Cell]]:
    for driver, runs in by_driver.items():
        of_kind = driver not in known and _kind(runs[0]) == QUANTITIES[quantity].of
        if of_kind and (cell := _cell(setting, runs, quantity, exact)):
            yield driver, cell


def _kind(run: Run) -> str:
    """Which of Quantity.of the runs of a setting have."""
    if len(getattr(run, "launches", ())):
        return "launch"
    return "requests" if latencies.measured(run.flows) else "bulk"


def _cell(setting: Setting, runs: list[Run], quantity: str, exact: bool) -> Cell | None:
    """None where no run has the quantity."""
    values = [QUANTITIES[quantity].value(run) for run in runs]
    if all(value != value for value in values):
        return None
    selection.check_alike(runs)
    names = (*selection.CELL, "repetition")
    rows = pd.DataFrame([{name: getattr(run.spec, name) for name in names} | {"key": run.key} for run in runs])
    selection.check_distinct(rows, selection.CELL)
    name = "latency_of_run_s" if quantity == "p99" else "value_of_run"
    (found,) = cell_estimates.means(rows.assign(**{name: values}), selection.CELL, name).itertuples()
    estimate = None if found.gap else Estimate(found.value, found.low, found.high, found.n)
    gap = found.gap.replace(name, QUANTITIES[quantity].title)
    in_order = tuple(sorted(runs, key=lambda run: run.spec.repetition))
    return Cell(quantity, estimate, setting, exact, in_order, gap)
