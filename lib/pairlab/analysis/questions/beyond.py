"""Questions beyond the papers: more flows, congestion control, limits of the CPU, the MTU; and UDP (udp.py).

Each varies one setting of otherwise plain throughput runs, and compares with plain runs of the same pairs and times,
paired by block.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import selection
from pairlab.analysis.figures import estimates
from pairlab.analysis.output.formatting import slug, systems, with_interval
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, tabulate
from pairlab.analysis.output.provenance import conditions, facts_of
from pairlab.analysis.question import Answer, Change, Estimates, Frame, Made, Mean, Question, Table
from pairlab.analysis.questions.throughput import TOTAL, TOTAL_LABEL
from pairlab.analysis.questions.udp import UDP
from pairlab.analysis.repetitions import table
from pairlab.analysis.selection import CELL, NOT_IN_PAPERS, spec_column
from pairlab.analysis.sentences import changes
from pairlab.model.rates import client_bps
from pairlab.model.records import Run
from pairlab.store.dataset import Runs


@dataclass(frozen=True)
class Varied:
    """What is varied: its name in keys and files and in tables, the spec's fields, and how their values together are
    called.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    label: Callable[..., str]

    def split(self, runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The runs that differ from plain ones in these fields, and in nothing else; and plain ones."""
        others = _as_default(runs, [field for field in NOT_IN_PAPERS if field not in self.fields])
        ordinary = _as_default(runs, self.fields)
        return runs[others & ~ordinary], runs[others & ordinary]

    def used(self, answer: Answer) -> tuple[Runs, str]:
        """Those that vary it, and the plain ones of the same system, driver, pairs and times; why there are none."""
        every = answer.beside["throughput"]
        varied, ordinary = self.split(every.counted("flows"))
        same, gap = [*CELL, "asked_duration_s", "warmup_s"], ""
        what = " or ".join(self.fields)
        if varied.empty:
            none = every.where(lambda run: False) if len(every) else every
            return none, f"no run of 'throughput' varies {what} alone"
        beside = ordinary.merge(varied[same].drop_duplicates(), on=same)
        if beside.empty:
            gap = f"no plain run of 'throughput' has the pairs and times of those that vary {what}"
        keys = {*varied["key"], *beside["key"]}
        return every.where(lambda run: run.key in keys), gap

    def plain(self, answer: Answer) -> str:
        """What the setting is called that plain runs have."""
        every = answer.beside["throughput"].counted("flows")
        return self.label(*(selection.usual_value(field, every[spec_column(field)]) for field in self.fields))

    def repetitions(self, answer: Answer) -> pd.DataFrame:
        """A row per run that is used, with the columns setting and plain: the one that plain runs have."""
        found = table(self.used(answer)[0], (*CELL, *self.fields), list(MEASURES), parts=_with_priority)
        settings = pd.Series(self._labels(found), index=found.index, dtype=object)
        return found.assign(setting=settings, plain=self.plain(answer))

    def settings(self, answer: Answer) -> list[str]:
        """Those measured, in order."""
        return self._labels(answer.once(self.repetitions).drop_duplicates([*self.fields]).sort_values([*self.fields]))

    def _labels(self, rows: pd.DataFrame) -> list[str]:
        return [self.label(*row) for row in rows[[*self.fields]].itertuples(index=False, name=None)]


def _as_default(runs: pd.DataFrame, fields: Sequence[str]) -> pd.Series:
    found = pd.Series(True, index=runs.index)
    for field in fields:
        found &= runs[spec_column(field)] == selection.usual_value(field, runs[spec_column(field)])
    return found


def _limits(quota: float, of_fair_share: float, shares: int, prior_share: float, prior_shares: int) -> str:
    limits = [
        (quota, f"quota {quota:g}"),
        (of_fair_share, f"quota {of_fair_share:g} of fair share"),
        (shares, f"shares {shares}"),
        (prior_share, f"{prior_share * 100:g} % with shares {prior_shares}"),
    ]
    return ", ".join(text for given, text in limits if given) or "no limit"


FLOWS = Varied("flows-per-pair", "Flows per pair", ("flows_per_pair",), str)
CONTROL = Varied("congestion-control", "Congestion control", ("congestion_control",), lambda name: name or "default")
LIMITS = Varied(
    "cpu-limits",
    "CPU limits",
    ("cpu_quota", "cpu_quota_of_fair_share", "cpu_shares", "priority_share", "priority_cpu_shares"),
    _limits,
)
MTU = Varied("mtu", "MTU", ("mtu_bytes",), lambda mtu_bytes: f"{mtu_bytes:,} B" if mtu_bytes else "default")
ALL = (FLOWS, CONTROL, LIMITS, MTU)

#: By the column of repetitions.
MEASURES = {
    "total_bps": TOTAL,
    "jain_index": Quantity("Jain's index", "jain", 3),
    "most_over_least": Quantity("Max/min", "ratio", 2),
    "priority_times": Quantity("High/normal priority", "priority", 2),
}
#: The change of each: in percent, of Jain's index as a difference; with its head where several settings share a table.
CHANGES = {
    "total_bps": (Quantity("Change (%)", "total-change", 1, unit="%", change=True), "Total (%)"),
    "jain_index": (Quantity("Difference", "jain-change", 3, change=True), "Jain's index"),
    "most_over_least": (
        Quantity("Change of max/min (%)", "ratio-change", 1, unit="%", change=True),
        "Max/min (%)",
    ),
}
_JAIN = "Jain's index"
_TICK = 13  # characters of a tick's label side by side with others
_NAMES = ("system", "driver", "pairs", "setting")


def _with_priority(run: Run) -> Iterator[dict[str, object]]:
    """priority_times: how many times as much goodput a client with CPU priority has, on average, as one without; NaN
    where all have the same.
    """
    ranks = run.flows.groupby("pair")["priority"].first()
    means = client_bps(run.flows).groupby(ranks).mean()
    yield {"priority_times": means.get("high", np.nan) / means.get("normal", np.nan)}


def _estimates(varied: Varied) -> dict[str, Estimates]:
    by, rows = (*CELL, "setting"), varied.repetitions
    found: dict[str, Estimates] = {
        f"{varied.name} {column}": Mean(measure, column, by=by, rows=rows) for column, measure in MEASURES.items()
    }
    for column, (measure, _) in CHANGES.items():
        options: dict[str, Any] = {"relative": measure.unit == "%", "p": f"{MEASURES[column].key}-p"}
        options |= {"by": CELL, "rows": rows}
        found[f"{varied.name} {column} change"] = Change(measure, column, "setting", _plain, **options)
    return found


def _plain(rows: pd.DataFrame) -> str | None:
    return rows["plain"].iloc[0] if len(rows) else None


# --- tables, figures and sentences


def _table(varied: Varied) -> Table:
    """Total, Jain's index and max/min by driver and setting, with changes against the plain one."""
    shown = ("total_bps", "total_bps change", "jain_index", "jain_index change", "most_over_least", "priority_times")
    heads = {"driver": "Driver", "pairs": "Pairs", "setting": "Setting"}
    columns = [f"{varied.name} {name}" for name in shown]
    return Table(heads, columns, lambda answer: {"setting": varied.settings(answer)})


def changes_table(answer: Answer) -> pd.DataFrame:
    """What each setting of all that is varied changes, against plain runs of the same pairs."""
    names = {"question": "Varied", "setting": "Setting", "system": "System", "driver": "Driver", "pairs": "Pairs"}
    columns: dict[str, dict] = {head: {} for _, head in CHANGES.values()}
    for varied in ALL:
        for column, (measure, head) in CHANGES.items():
            changed = answer[f"{varied.name} {column} change"].assign(question=varied.title)
            columns[head] |= measure.texts(changed, *names)
    order = {"question": [varied.title for varied in ALL]}
    return tabulate(names, columns, order | {"setting": [each for varied in ALL for each in varied.settings(answer)]})


def _figure(answer: Answer, varied: Varied, column: str, name: str, label: str = "") -> Figure | None:
    runs, gap = varied.used(answer)
    if gap:
        return None
    settings = varied.settings(answer)
    ticks = ["\n".join(fill(part, _TICK) for part in setting.split(", ")) for setting in settings]
    options: dict[str, Any] = {"category": "setting", "order": settings, "ticks": ticks, "name": name, "label": label}
    options |= {"at_pairs": True, "conditions": conditions(runs)}
    return answer.panels(estimates.by_category, f"{varied.name} {column}", **options)


def _control_name(answer: Answer) -> str:
    """What the axis of congestion controls is called: it says which one the kernel takes where none is asked for."""
    runs = answer.beside["throughput"]
    asks_for_none = any(run.status == "ok" and not run.spec.congestion_control for run in runs)
    return "Congestion control" + (f" (default here: {facts_of(runs)['congestion-control']})" if asks_for_none else "")


def remedies(answer: Answer) -> list[str]:
    """Of each cell and limit of the CPU: whether it makes the sharing fairer, and what it costs, with intervals.

    A limit is said to raise or lower a measure where the interval of the paired change leaves zero out; else the data
    do not show it. From one repetition nothing is said.
    """
    columns = ("jain_index", "most_over_least", "total_bps")
    changed = (answer[f"cpu-limits {column} change"].itertuples() for column in columns)
    return [
        f"{_named(jain)}: {_effect(jain, _JAIN, 3, '')}; {_effect(ratio, 'max/min', 1, ' %')}; "
        f"{_effect(total, 'the total', 1, ' %')}"
        for jain, ratio, total in zip(*changed, strict=True)
    ]


def priorities(answer: Answer) -> list[str]:
    """Of each cell with CPU priority: how much more its clients with priority get than the others."""
    cells = answer["cpu-limits priority_times"]
    return [
        f"{_named(row)}: clients with priority get {with_interval(row.value, row.low, row.high, 2)} times the goodput"
        " of the others"
        for row in cells[cells["value"].notna()].itertuples()
    ]


def summaries(answer: Answer) -> dict[tuple[str, str], str]:
    """The remedies of each system in short, by system and limit: in how many cells fairer, and at what cost.

    A cell (driver and pairs) is fairer where the interval of the paired change shows Jain's index to rise or max/min
    to fall, less fair where it shows the contrary.
    """
    jain, ratio, total = (
        answer[f"cpu-limits {column} change"].set_index([*CELL, "setting"])
        for column in ("jain_index", "most_over_least", "total_bps")
    )
    fairer, less = (jain["low"] > 0) | (ratio["high"] < 0), (jain["high"] < 0) | (ratio["low"] > 0)
    found = {}
    for (backend, workload, setting), cells in total.groupby(["backend", "workload", "setting"], sort=True):
        here = cells.index
        summary = f"fairer in {fairer[here].sum()} of {len(here)} cells, less fair in {less[here].sum()}"
        if len(cost := cells["value"].dropna()):
            span = f"{cost.min():+.1f} to {cost.max():+.1f}" if len(cost) > 1 else f"{cost.iloc[0]:+.1f}"
            summary += f"; the total changes by {span} %"
        found[f"{backend}-{workload}", setting] = summary
    return found


def _effect(change: Any, what: str, digits: int, unit: str) -> str:
    if change.gap:
        return f"{what}: {change.gap}"
    size = with_interval(change.value, change.low, change.high, digits)
    if change.low != change.low:
        return f"{what} changes in one repetition ({size}{unit})"
    if change.low > 0 or change.high < 0:
        return f"{'raises' if change.low > 0 else 'lowers'} {what} ({size}{unit})"
    return f"no change of {what} shown ({size}{unit})"


def _named(row: Any) -> str:
    return f"{row.backend}-{row.workload}, {row.driver}, {row.pairs} pairs, {row.setting}"


# --- numbers


def udp(answer: Answer) -> Answer:
    """UDP beside TCP, of the same runs."""
    return answer.once(_udp)


def _udp(answer: Answer) -> Answer:
    return Answer(UDP, answer.beside["udp"], "", answer.origin, answer.confidence)


def sentences_beside(answer: Answer) -> list[str]:
    """What a TCP client gets beside UDP, against runs without it; of the cells that have both."""
    return [
        f"{row.backend}-{row.workload}, {row.driver}, {row.pairs} pairs, {row.load}: a TCP client's throughput"
        f" changes by {with_interval(row.value, row.low, row.high, 1)} %"
        for row in udp(answer).known("change").itertuples()
    ]


def gaps(answer: Answer) -> dict[str, str]:
    """By what is varied, why nothing is known of it, if so."""
    return {varied.name: varied.used(answer)[1] for varied in ALL} | {"udp": udp(answer).gap}


def _values(answer: Answer, found: Values) -> None:
    r"""congestion-control/default; below <varied>/, such as cpu-limits/: missing: why there are no numbers; settings:
    those measured, as text; systems: a list; cpu-limits/<system>/<setting>/told: `summaries`; below udp/: UDP's keys.
    """
    if len(answer["every"]):
        found.text("congestion-control/default", facts_of(answer.used)["congestion-control"])
    for varied in ALL:
        if settings := varied.settings(answer):
            found.text(f"{varied.name}/settings", "; ".join(settings))
        found.names(f"{varied.name}/systems", list(systems(answer[f"{varied.name} total_bps"])))
        for name, each in _estimates(varied).items():
            each.put(found, answer[name].assign(question=varied.name), "question", *_NAMES)
    for name, gap in gaps(answer).items():
        if gap:
            found.text(f"{name}/missing", gap)
    for (system, setting), summary in summaries(answer).items():
        found.text(f"cpu-limits/{system}/{slug(setting)}/told", summary)
    found.names("udp/systems", list(systems(udp(answer)["client"])))
    for name, each in UDP.estimates.items():
        each.put(found, udp(answer)[name].assign(question="udp"), "question", *UDP.keys)


def _every(answer: Answer) -> pd.DataFrame:
    frames = [answer[f"{varied.name} total_bps"] for varied in ALL] + [udp(answer)["client"]]
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1])


_LIMIT = "CPU limit (quota in CPUs or of the fair share)"


BEYOND_PAPERS = Question(
    topic="beyond",
    experiment="throughput",
    beside=["udp"],
    pooled=True,
    which=lambda spec: True,
    alike=False,
    estimates={name: each for varied in ALL for name, each in _estimates(varied).items()} | {"every": Frame(_every)},
    tables={f"beyond-{varied.name}": _table(varied) for varied in ALL}
    | {
        "beyond-udp": Made(lambda answer: udp(answer).table("beyond-udp")),
        "beyond-changes": Made(changes_table, split=False),
    },
    figures={
        "beyond-congestion-control": lambda answer: _figure(
            answer, CONTROL, "total_bps", _control_name(answer), TOTAL_LABEL
        ),
        "beyond-cpu-limits": lambda answer: _figure(answer, LIMITS, "jain_index", _LIMIT),
        "beyond-cpu-limits-cost": lambda answer: _figure(answer, LIMITS, "total_bps", _LIMIT),
        "beyond-udp": lambda answer: udp(answer).figure("beyond-udp"),
    },
    keys={},
    main=("every",),
    values=_values,
    answer=[
        changes(f"{varied.name} total_bps change", f"Total throughput by {varied.title.lower()}", "setting")
        for varied in (CONTROL, LIMITS, MTU)
    ],
)
