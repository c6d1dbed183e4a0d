"""How the experiments beyond the papers are laid out: more flows, congestion control, limits of the CPU.

Each question varies one setting of otherwise plain throughput runs, and compares with plain runs of the same pairs and
times, paired by repetition. UDP has a module of its own.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from pairlab.analysis import estimates, fairness, stats, udp
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, p_text, put, rows_by_driver, shown, slug, systems, with_bounds
from pairlab.analysis.origin import facts_of
from pairlab.analysis.selection import BEYOND, asked
from pairlab.collection import Runs
from pairlab.spec import Spec


class Question(NamedTuple):
    """What is varied: its name in keys and files, the spec's fields, and how their values together are called."""

    name: str
    fields: tuple[str, ...]
    label: Callable[..., str]

    @property
    def columns(self) -> list[str]:
        return [asked(field) for field in self.fields]

    @property
    def plain(self) -> str:
        """What the setting is called that runs have by default."""
        return self.label(*(Spec.model_fields[field].default for field in self.fields))


def _limits(quota: float, shares: int) -> str:
    told = [f"quota {quota:g}"] * bool(quota) + [f"shares {shares}"] * bool(shares)
    return ", ".join(told) or "no limit"


FLOWS = Question("flows-per-pair", ("flows_per_pair",), str)
CONTROL = Question("congestion-control", ("congestion_control",), lambda name: name or "default")
LIMITS = Question("cpu-limits", ("cpu_quota", "cpu_shares"), _limits)

BY = (*stats.CELL, "setting")
#: Of how many cells the prose tells one by one; of more, the tables do.
_MOST_LINES = 8
#: What is estimated, how tables and figures call it, its scale there, and digits.
MEASURES = {
    "total_bps": ("Total (Gbit/s)", 1e-9, 2),
    "jain_index": ("Jain's index", 1, 3),
    "ratio": ("Max/min", 1, 2),
}
_KEYS = {"total_bps": "total", "jain_index": "jain", "ratio": "ratio"}
#: Of these the change is told in percent, of Jain's index as a difference.
_RELATIVE = {"total_bps": True, "jain_index": False, "ratio": True}


class Answer(NamedTuple):
    """cells and changes (against the plain setting) by measure, the settings in order, and why there are none."""

    question: Question
    cells: dict[str, pd.DataFrame]
    changes: dict[str, pd.DataFrame]
    settings: list[str]
    gap: str


def answer(flows: pd.DataFrame, question: Question, confidence: float) -> Answer:
    """What a setting does to total throughput and fairness.

    flows: as Runs.flows of the experiment throughput, plain runs and special ones. Used are the runs that differ from
    plain in the question's fields only, and the plain ones of the same system, driver, pairs and times. Without any,
    the frames are empty and the gap says so. Raises AnalysisError where runs do not belong together.
    """
    varied, ordinary = _split(flows, question)
    same = [*stats.CELL, "asked_duration_s", "warmup_s"]
    beside = ordinary.merge(varied[same].drop_duplicates(), on=same) if len(varied) else ordinary.iloc[:0]
    used = pd.concat([varied, beside], ignore_index=True) if len(beside) else varied
    values = used[question.columns].drop_duplicates().sort_values(question.columns)
    labels = {tuple(row): question.label(*row) for row in values.itertuples(index=False, name=None)}
    told = [labels[tuple(row)] for row in used[question.columns].itertuples(index=False, name=None)]
    used = used.assign(setting=pd.Series(told, index=used.index, dtype=object))
    also = [*question.columns, "setting"]
    repetitions = fairness.by_repetition(fairness.clients(used, also), also)
    gap = "" if len(varied) else f"no run of 'throughput' varies {' or '.join(question.fields)} alone"
    if len(varied) and beside.empty:
        gap = f"no plain run of 'throughput' has the pairs and times of those that vary {' or '.join(question.fields)}"
    return Answer(
        question,
        {name: estimates.means(repetitions, BY, name, confidence) for name in MEASURES},
        {
            name: estimates.changes(
                repetitions,
                stats.CELL,
                name,
                setting="setting",
                against=question.plain,
                relative=relative,
                confidence=confidence,
            )
            for name, relative in _RELATIVE.items()
        },
        list(labels.values()),
        gap,
    )


def axis(answer: Answer, name: str) -> dict[str, object]:
    """The settings as panels.by_category takes its categories."""
    ticks = [setting.replace(", ", "\n") for setting in answer.settings]
    return {"category": "setting", "order": answer.settings, "ticks": ticks, "name": name}


def control_name(runs: Runs) -> str:
    """What the axis of congestion controls is called: it says which one the kernel takes by default."""
    default = facts_of(runs)["congestion-control"]
    return f"Congestion control (default here: {default})"


def tables(answer: Answer) -> dict[str, pd.DataFrame]:
    """table() of each system that has an answer, by its name."""
    return {system: table(answer, system) for system in systems(answer.cells["total_bps"])}


def table(answer: Answer, system: str) -> pd.DataFrame:
    """Total, Jain's index and max/min by driver and setting, with changes against the plain one, as text."""
    cells = {name: systems(frame)[system] for name, frame in answer.cells.items()}
    columns = {}
    for name, (title, scale, digits) in MEASURES.items():
        columns[title] = _tell(cells[name], lambda row, scale=scale, digits=digits: shown(row, digits, scale=scale))
        change = systems(answer.changes[name]).get(system, answer.changes[name].iloc[:0])
        if name != "ratio":
            columns["Change (%)" if _RELATIVE[name] else "Difference"] = _tell(
                change,
                lambda row, digits=1 if _RELATIVE[name] else 3: with_bounds(row.value, row.low, row.high, digits),
            )
    return rows_by_driver(
        cells["total_bps"],
        ("driver", "pairs", "setting"),
        columns,
        heads=("Driver", "Pairs", "Setting"),
        order={"setting": answer.settings},
    )


def remedies(limits: Answer) -> list[str]:
    """Of each cell and limit: whether it makes the sharing fairer, and what it costs, in words with intervals.

    A limit is said to raise or lower a measure where the interval of the paired change leaves zero out; else the data
    do not show it. From one repetition nothing is said.
    """
    changes = {name: {_cell(row): row for row in frame.itertuples()} for name, frame in limits.changes.items()}
    lines = []
    for key, jain in changes["jain_index"].items():
        ratio, total = changes["ratio"][key], changes["total_bps"][key]
        told = [
            _effect("Jain's index", jain, 3, ""),
            _effect("max/min", ratio, 1, " %"),
            _effect("the total", total, 1, " %"),
        ]
        lines.append(f"{_named(jain)}: {'; '.join(told)}")
    return lines


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
        told = f"fairer in {fairer[here].sum()} of {len(here)} cells, less fair in {less[here].sum()}"
        cost = cells["value"].dropna()
        if len(cost):
            span = f"{cost.min():+.1f} to {cost.max():+.1f}" if len(cost) > 1 else f"{cost.iloc[0]:+.1f}"
            told += f"; the total changes by {span} %"
        found[f"{backend}-{workload}", setting] = told
    return found


def values(
    runs: Runs, answers: Sequence[Answer], udp_cells: dict[str, pd.DataFrame], udp_changes: pd.DataFrame, gap_udp: str
) -> Values:
    r"""The keyed numbers beyond the papers, all below `beyond/`: those of layout.head, of put_answer for each question,
    and of udp.put_cells.
    """
    every = pd.concat([each.cells["total_bps"] for each in answers] + [udp_cells["client_bps"]])
    found = head("beyond", runs, every, *(each.gap for each in answers), gap_udp)
    if len(every):
        found.text("congestion-control/default", facts_of(runs)["congestion-control"])
    for each in answers:
        put_answer(found, each)
        found.names(f"{each.question.name}/systems", list(systems(each.cells["total_bps"])))
        if 0 < len(lines := remedies(each) if each.changes else []) <= _MOST_LINES:
            found.text(f"{each.question.name}/told", " ".join(f"{line}." for line in lines))
        if each.question is LIMITS:
            for (system, setting), told in summaries(each).items():
                found.text(f"{each.question.name}/{system}/{slug(setting)}/told", told)
    udp.put_cells(found, udp_cells, udp_changes, gap_udp)
    return found


def put_answer(found: Values, answer: Answer) -> None:
    r"""The keyed numbers of one question, below its name (such as cpu-limits/):

    - missing: why there are none; settings: those measured, as text; told: the changes in words, if they are few;
    - <system>/<driver>/<pairs>/<setting>/total, jain, ratio, with -interval; total-change, ratio-change (percent) and
      jain-change (difference) against the plain setting, with -interval; total-p, jain-p, ratio-p (Holm).
    """
    name = answer.question.name
    if answer.gap:
        found.text(f"{name}/missing", answer.gap)
    if answer.settings:
        found.text(f"{name}/settings", "; ".join(answer.settings))
    units = {"total_bps": "Gbit/s", "jain_index": "", "ratio": ""}
    for measure, frame in answer.cells.items():
        _, scale, digits = MEASURES[measure]
        for row in frame.itertuples():
            put(found, f"{name}/{_key(row)}/{_KEYS[measure]}", row, digits, units[measure], scale=scale)
    for measure, frame in answer.changes.items():
        digits, unit = (1, "%") if _RELATIVE[measure] else (3, "")
        for row in frame.itertuples():
            key = f"{name}/{_key(row)}/{_KEYS[measure]}"
            put(found, f"{key}-change", row, digits, unit, signed=True)
            if row.p_holm == row.p_holm:
                found.text(f"{key}-p", p_text(row.p_holm))


def _split(flows: pd.DataFrame, question: Question) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The flows of runs that differ from plain ones in the question's fields, and in nothing else; and plain ones."""
    others = _as_default(flows, [field for field in BEYOND if field not in question.fields])
    ordinary = _as_default(flows, question.fields)
    return flows[others & ~ordinary], flows[others & ordinary]


def _as_default(flows: pd.DataFrame, fields: Sequence[str]) -> pd.Series:
    found = pd.Series(True, index=flows.index)
    for field in fields:
        found &= flows[asked(field)] == Spec.model_fields[field].default
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


def _key(row) -> str:
    return f"{row.backend}-{row.workload}/{row.driver}/{row.pairs}/{slug(row.setting)}"


def _tell(frame: pd.DataFrame, text: Callable[..., str]) -> Callable[..., str]:
    keyed = {_cell(row): row for row in frame.itertuples()}
    return lambda cell: text(keyed[_cell(cell)]) if _cell(cell) in keyed else MISSING
