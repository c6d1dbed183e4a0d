"""Questions beyond the papers: more flows, congestion control, limits of the CPU, the MTU.

Each question varies one setting of otherwise plain throughput runs, and compares with plain runs of the same pairs and
times, paired by repetition. UDP has a module of its own.
"""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, selection
from pairlab.analysis.output.formatting import slug, systems, with_bounds
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, put_p, tabulate
from pairlab.analysis.output.provenance import facts_of
from pairlab.analysis.questions import fairness, udp
from pairlab.analysis.selection import BEYOND, asked
from pairlab.store.dataset import Runs


class Question(NamedTuple):
    """What is varied: its name in keys and files and in tables, the spec's fields, and how their values together are
    called.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    label: Callable[..., str]

    @property
    def columns(self) -> list[str]:
        return [asked(field) for field in self.fields]

    def plain(self, flows: pd.DataFrame) -> str:
        """What the setting is called that plain runs among these have."""
        return self.label(*(selection.usual_value(field, flows[asked(field)]) for field in self.fields))


def _limits(quota: float, of_fair_share: float, shares: int, prior_share: float, prior_shares: int) -> str:
    limits = [
        (quota, f"quota {quota:g}"),
        (of_fair_share, f"quota {of_fair_share:g} of fair share"),
        (shares, f"shares {shares}"),
        (prior_share, f"{prior_share * 100:g} % with shares {prior_shares}"),
    ]
    return ", ".join(text for given, text in limits if given) or "no limit"


FLOWS = Question("flows-per-pair", "Flows per pair", ("flows_per_pair",), str)
CONTROL = Question("congestion-control", "Congestion control", ("congestion_control",), lambda name: name or "default")
LIMITS = Question(
    "cpu-limits",
    "CPU limits",
    ("cpu_quota", "cpu_quota_of_fair_share", "cpu_shares", "priority_share", "priority_cpu_shares"),
    _limits,
)
MTU = Question("mtu", "MTU", ("mtu_bytes",), lambda mtu_bytes: f"{mtu_bytes:,} B" if mtu_bytes else "default")

BY = (*selection.CELL, "setting")
MEASURES = {
    "total_bps": Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s"),
    "jain_index": Measure("Jain's index", "jain", 3),
    "ratio": Measure("Max/min", "ratio", 2),
    "priority_times": Measure("High/normal priority", "priority", 2),
}
#: The change of each: in percent, of Jain's index as a difference.
CHANGES = {
    "total_bps": Measure("Change (%)", "total-change", 1, unit="%", change=True, short=True),
    "jain_index": Measure("Difference", "jain-change", 3, change=True),
    "ratio": Measure("Change of max/min (%)", "ratio-change", 1, unit="%", change=True, short=True),
}
_TICK = 13  # characters of a tick's label side by side with others
#: The heads of the same where several questions share a table.
_CHANGED = {"total_bps": "Total (%)", "jain_index": "Jain's index", "ratio": "Max/min (%)"}


class Answer(NamedTuple):
    """cells and changes (against the plain setting) by measure, the settings in order, why there are none, and the keys
    of the runs that these are of.
    """

    question: Question
    cells: dict[str, pd.DataFrame]
    changes: dict[str, pd.DataFrame]
    settings: list[str]
    gap: str
    keys: frozenset[str]

    def of(self, runs: Runs) -> Runs:
        """Those of the runs that the answer is of."""
        return runs.where(lambda run: run.key in self.keys)


def answer(flows: pd.DataFrame, question: Question, confidence: float) -> Answer:
    """What a setting does to total throughput and fairness.

    flows: as Runs.flows of the experiment throughput, plain runs and special ones. Used are the runs that differ from
    plain in the question's fields only, and the plain ones of the same system, driver, pairs and times. Without any,
    the frames are empty and the gap says so. Raises AnalysisError where runs do not belong together.
    """
    varied, ordinary = _split(flows, question)
    same = [*selection.CELL, "asked_duration_s", "warmup_s"]
    beside = ordinary.merge(varied[same].drop_duplicates(), on=same) if len(varied) else ordinary.iloc[:0]
    used = pd.concat([varied, beside], ignore_index=True) if len(beside) else varied
    values = used[question.columns].drop_duplicates().sort_values(question.columns)
    labels = {tuple(row): question.label(*row) for row in values.itertuples(index=False, name=None)}
    settings = [labels[tuple(row)] for row in used[question.columns].itertuples(index=False, name=None)]
    used = used.assign(setting=pd.Series(settings, index=used.index, dtype=object))
    also = [*question.columns, "setting"]
    repetitions = fairness.by_repetition(fairness.clients(used, also), also)
    repetitions = _with_priority_times(repetitions, used, also)
    gap = "" if len(varied) else f"no run of 'throughput' varies {' or '.join(question.fields)} alone"
    if len(varied) and beside.empty:
        gap = f"no plain run of 'throughput' has the pairs and times of those that vary {' or '.join(question.fields)}"
    return Answer(
        question,
        {name: cell_estimates.means(repetitions, BY, name, confidence) for name in MEASURES},
        {
            name: cell_estimates.changes(
                repetitions,
                selection.CELL,
                name,
                setting="setting",
                against=question.plain(flows),
                relative=measure.unit == "%",
                confidence=confidence,
            )
            for name, measure in CHANGES.items()
        },
        list(labels.values()),
        gap,
        frozenset(used["key"]),
    )


def _with_priority_times(repetitions: pd.DataFrame, flows: pd.DataFrame, also: Sequence[str]) -> pd.DataFrame:
    """The repetitions with priority_times: how many times as much goodput a client with CPU priority has, on average,
    as one without; NaN where all have the same.
    """
    by = [*selection.CELL, *also, "repetition"]
    clients = fairness.clients(flows[flows["priority"] != ""], [*also, "priority"])
    each = clients.groupby([*by, "priority"])["throughput_bps"].mean().unstack("priority")
    times = (each["high"] / each["normal"]).to_dict() if len(each) else {}
    found = [times.get(names, np.nan) for names in repetitions[by].itertuples(index=False, name=None)]
    return repetitions.assign(priority_times=np.array(found, dtype=float))


def axis(answer: Answer, name: str) -> dict[str, object]:
    """The settings as estimates.by_category takes its categories."""
    ticks = ["\n".join(fill(part, _TICK) for part in setting.split(", ")) for setting in answer.settings]
    return {"category": "setting", "order": answer.settings, "ticks": ticks, "name": name}


def control_name(runs: Runs) -> str:
    """What the axis of congestion controls is called: it says which one the kernel takes where none is asked for."""
    asks_for_none = any(run.status == "ok" and not run.spec.congestion_control for run in runs)
    return "Congestion control" + (f" (default here: {facts_of(runs)['congestion-control']})" if asks_for_none else "")


def table(answer: Answer) -> pd.DataFrame:
    """Total, Jain's index and max/min by driver and setting, with changes against the plain one."""
    names = {"system": "System", "driver": "Driver", "pairs": "Pairs", "setting": "Setting"}
    columns: dict[str, Texts] = {}
    for name, measure in MEASURES.items():
        columns[measure.title] = measure.texts(answer.cells[name], *names)
        if name in CHANGES and name != "ratio":
            columns[CHANGES[name].title] = CHANGES[name].texts(answer.changes[name], *names)
    return tabulate(names, columns, {"setting": answer.settings})


def changes_table(answers: Sequence[Answer]) -> pd.DataFrame:
    """What each setting of all questions changes, against plain runs of the same pairs."""
    names = {"question": "Varied", "setting": "Setting", "system": "System", "driver": "Driver", "pairs": "Pairs"}
    columns: dict[str, Texts] = {_CHANGED[name]: {} for name in CHANGES}
    for each in answers:
        for name, measure in CHANGES.items():
            changes = each.changes[name].assign(question=each.question.title)
            columns[_CHANGED[name]] |= measure.texts(changes, *names)
    order = {"question": [each.question.title for each in answers]}
    return tabulate(names, columns, order | {"setting": [setting for each in answers for setting in each.settings]})


def remedies(limits: Answer) -> list[str]:
    """Of each cell and limit: whether it makes the sharing fairer, and what it costs, in words with intervals.

    A limit is said to raise or lower a measure where the interval of the paired change leaves zero out; else the data
    do not show it. From one repetition nothing is said.
    """
    changes = {name: {_cell(row): row for row in frame.itertuples()} for name, frame in limits.changes.items()}
    lines = []
    for key, jain in changes["jain_index"].items():
        ratio, total = changes["ratio"][key], changes["total_bps"][key]
        effects = [
            _effect("Jain's index", jain, 3, ""),
            _effect("max/min", ratio, 1, " %"),
            _effect("the total", total, 1, " %"),
        ]
        lines.append(f"{_named(jain)}: {'; '.join(effects)}")
    return lines


def priorities(limits: Answer) -> list[str]:
    """Of each cell with CPU priority: how much more its clients with priority get than the others, in words."""
    cells = limits.cells["priority_times"]
    return [
        f"{_named(row)}: clients with priority get {with_bounds(row.value, row.low, row.high, 2)} times the goodput"
        " of the others"
        for row in cells[cells["value"].notna()].itertuples()
    ]


def summaries(limits: Answer) -> dict[tuple[str, str], str]:
    """The remedies of each system in short, by system and limit: in how many cells fairer, and at what cost.

    A cell (driver and pairs) is fairer where the interval of the paired change shows Jain's index to rise or max/min
    to fall, less fair where it shows the contrary.
    """
    jain, ratio, total = (limits.changes[name].set_index(list(BY)) for name in ("jain_index", "ratio", "total_bps"))
    fairer, less = (jain["low"] > 0) | (ratio["high"] < 0), (jain["high"] < 0) | (ratio["low"] > 0)
    found = {}
    for (backend, workload, setting), cells in total.groupby(["backend", "workload", "setting"], sort=True):
        here = cells.index
        summary = f"fairer in {fairer[here].sum()} of {len(here)} cells, less fair in {less[here].sum()}"
        cost = cells["value"].dropna()
        if len(cost):
            span = f"{cost.min():+.1f} to {cost.max():+.1f}" if len(cost) > 1 else f"{cost.iloc[0]:+.1f}"
            summary += f"; the total changes by {span} %"
        found[f"{backend}-{workload}", setting] = summary
    return found


def values(
    runs: Runs, answers: Sequence[Answer], udp_cells: dict[str, pd.DataFrame], udp_changes: pd.DataFrame, gap_udp: str
) -> Values:
    r"""The keyed numbers beyond the papers, all below `beyond/`: those of measures.common_values, of put_answer for
    each question, and of udp.put_cells.
    """
    every = pd.concat([each.cells["total_bps"] for each in answers] + [udp_cells["client_bps"]])
    gaps = [*(each.gap for each in answers), gap_udp]
    found = common_values("beyond", runs, every, *(gaps if all(gaps) else ()))
    if len(every):
        found.text("congestion-control/default", facts_of(runs)["congestion-control"])
    for each in answers:
        put_answer(found, each)
        found.names(f"{each.question.name}/systems", list(systems(each.cells["total_bps"])))
        if each.question is LIMITS:
            for (system, setting), summary in summaries(each).items():
                found.text(f"{each.question.name}/{system}/{slug(setting)}/told", summary)
    udp.put_cells(found, udp_cells, udp_changes, gap_udp)
    return found


def put_answer(found: Values, answer: Answer) -> None:
    r"""The keyed numbers of one question, below its name (such as cpu-limits/):

    - missing: why there are none; settings: those measured, as text;
    - <system>/<driver>/<pairs>/<setting>/total, jain, ratio, priority, with -interval; total-change, ratio-change
      (percent) and jain-change (difference) against the plain setting, with -interval; total-p, jain-p, ratio-p (Holm).
    """
    name = answer.question.name
    if answer.gap:
        found.text(f"{name}/missing", answer.gap)
    if answer.settings:
        found.text(f"{name}/settings", "; ".join(answer.settings))
    names = ("question", "system", "driver", "pairs", "setting")
    for measure in MEASURES:
        MEASURES[measure].put(found, answer.cells[measure].assign(question=name), *names)
    for measure in CHANGES:
        changes = answer.changes[measure].assign(question=name)
        CHANGES[measure].put(found, changes, *names)
        put_p(found, changes, *names, key=f"{MEASURES[measure].key}-p")


def _split(flows: pd.DataFrame, question: Question) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The flows of runs that differ from plain ones in the question's fields, and in nothing else; and plain ones."""
    others = _as_default(flows, [field for field in BEYOND if field not in question.fields])
    ordinary = _as_default(flows, question.fields)
    return flows[others & ~ordinary], flows[others & ordinary]


def _as_default(flows: pd.DataFrame, fields: Sequence[str]) -> pd.Series:
    found = pd.Series(True, index=flows.index)
    for field in fields:
        found &= flows[asked(field)] == selection.usual_value(field, flows[asked(field)])
    return found


def _effect(what: str, change, digits: int, unit: str) -> str:
    if change.gap:
        return f"{what}: {change.gap}"
    size = with_bounds(change.value, change.low, change.high, digits)
    if change.low != change.low:
        return f"{what} changes in one repetition ({size}{unit})"
    if change.low > 0 or change.high < 0:
        return f"{'raises' if change.low > 0 else 'lowers'} {what} ({size}{unit})"
    return f"no change of {what} shown ({size}{unit})"


def _cell(row) -> tuple:
    return (row.backend, row.workload, row.driver, row.pairs, row.setting)


def _named(row) -> str:
    return f"{row.backend}-{row.workload}, {row.driver}, {row.pairs} pairs, {row.setting}"
