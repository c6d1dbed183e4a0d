"""An answer in sentences, as a table of texts, as HTML with links to the runs, and as data for programs."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pandas as pd

from pairlab.analysis.advice.answer import Advice, Row
from pairlab.analysis.advice.cells import Cell, Setting
from pairlab.analysis.advice.question import CRITERIA
from pairlab.analysis.cell_estimates import UNPAIRED
from pairlab.analysis.output.formatting import MISSING, digits_of, with_interval
from pairlab.base import html_repr, units
from pairlab.statistics.intervals import Estimate
from pairlab.store import file_of

_HEADS = ("Rank", "Network", *(each.title for each in CRITERIA.values()), "Isolation", "Cannot", "Needs", "Remark")


def settings(advice: Advice) -> dict[Setting, str]:
    """The settings behind the numbers, each with its letter in the table: exact ones first."""
    cells = [cell for row in advice.rows for cell in row.cells.values() if cell.found]
    used = [*(cell for cell in cells if cell.exact), *(cell for cell in cells if not cell.exact)]
    marked = dict.fromkeys(cell.setting for cell in used if cell.setting)
    letters = ("".join(each) for length in count(1) for each in product(ascii_lowercase, repeat=length))
    return dict(zip(marked, letters, strict=False))


def text_of(cell: Cell, mark: str = "") -> str:
    """An estimate with its interval in one unit, and the mark of its setting: "81.2 [80.1, 82.4] µs (a)"."""
    if not cell.found:
        return MISSING
    unit = CRITERIA[cell.quantity].unit
    factor, name = (1.0, unit) if unit == "%" else units.prefix(cell.found.value, unit)
    value, low, high = (number / factor for number in cell.found[:3])
    number = with_interval(value, low, high, digits_of(value, low, high, 2))
    return f"{number} {name}" + (f" ({mark})" if mark else "")


def rows_of(advice: Advice, backend: str) -> list[Row]:
    """The rows of a table: a network that is ruled out only if it was measured (`sentences` names it)."""
    return [row for row in advice.backends[backend] if row.measured or not row.ruled_out]


def table(advice: Advice, backend: str) -> pd.DataFrame:
    """The networks of a backend as a table of texts."""
    return pd.DataFrame(_texts(advice, backend), columns=list(_HEADS)).set_index("Network")


def _texts(advice: Advice, backend: str) -> list[list[str]]:
    """The texts of the table; a shared rank has a "=" behind it."""
    marks, rows = settings(advice), rows_of(advice, backend)
    shared = Counter(row.rank.number for row in rows)
    lines = []
    for row in rows:
        network, number = row.network, row.rank.number
        rank = f"{number}{'=' * (shared[number] > 1)}" if number else MISSING
        numbers = [
            text_of(cell, marks[cell.setting] if cell.found and cell.setting else "") for cell in row.cells.values()
        ]
        ends = (network.isolation[0], network.cannot, network.needs, row.remark)
        lines.append([rank, network.name, *numbers, *ends])
    return lines


def notes(advice: Advice) -> list[str]:
    """The meanings of the marks and the words for isolation, and the reasons for missing numbers."""
    exact = {cell.setting for row in advice.rows for cell in row.cells.values() if cell.exact}
    lines = [
        f"({mark}) {'' if setting in exact else 'not as asked: '}{setting}"
        for setting, mark in settings(advice).items()
    ]
    isolations = dict(row.network.isolation for backend in advice.backends for row in rows_of(advice, backend))
    lines += [f"isolation {word}: {meaning}" for word, meaning in isolations.items()]
    gaps = {
        f"{row.network.name}, {CRITERIA[name].title}: {cell.gap}": None
        for row in advice.rows
        for name, cell in row.cells.items()
        if not cell.found and cell.runs
    }
    return [*lines, *gaps]


def sentences(advice: Advice, backend: str) -> list[str]:
    """The answer in words: the best by the decisive quantity, or the networks that share the first rank; what networks
    with a value cannot do; networks without a rank, dominated ones, and those that share no blocks with others.
    """
    name = advice.question.decisive
    title = CRITERIA[name].title
    leaders = advice.leaders(backend)
    if not leaders:
        none = f"{backend}: no run says which network is best: {title} was not measured of any that is not ruled out."
        return [none, *_ruled_out(advice, backend)]
    lines = [f"{backend}: {_first(leaders, name)}."]
    rows = advice.backends[backend]
    candidates = [row for row in rows if not row.ruled_out]
    valued = [row for row in candidates if row.cells[name].found]
    lines += [f"{row.network.name} cannot {row.network.cannot}." for row in valued if row.network.cannot]
    if unranked := _by_reason((row.rank.why, row) for row in valued if not row.rank.number):
        lines.append(f"Without a rank: {unranked}.")
    matter = [each for each in advice.question.that_matter if any(row.cells[each].found for row in candidates)]
    if dominated := [row.network.name for row in rows if row.dominated_by]:
        by = " and ".join(CRITERIA[each].title for each in matter)
        lines.append(f"Worse for sure in {by} than another network: {', '.join(dominated)}.")
    if without_blocks := [
        f"{row.network.name} with {' and '.join(row.unpaired_with)}" for row in rows if row.unpaired_with
    ]:
        lines.append(f"Compared {UNPAIRED}, as no block has both of them: {', '.join(without_blocks)}.")
    if unmeasured := [CRITERIA[each].title for each in advice.question.that_matter if each not in matter]:
        lines.append(f"Measured of none, and so not considered: {', '.join(unmeasured)}.")
    return [*lines, *_ruled_out(advice, backend)]


def _first(leaders: Sequence[Row], name: str) -> str:
    """The network with the best value, or the networks that share the first rank, and why they tie."""
    of, cells = CRITERIA[name], [row.cells[name] for row in leaders]
    caveat = "" if cells[0].exact else f", measured with {cells[0].setting}, not as asked"
    if len(leaders) == 1:
        most = "shortest" if of.unit == "s" else "least" if of.less_is_better else "highest"
        return f"{leaders[0].network.name} has the {most} {of.title}, {text_of(cells[0])}{caveat}"
    each = [f"{row.network.name} {text_of(cell)}" for row, cell in zip(leaders, cells, strict=True)]
    why = " or ".join(dict.fromkeys(row.rank.why for row in leaders if row.rank.why))
    return (
        f"{', '.join(each[:-1])} and {each[-1]} share the first rank in {of.title}{caveat}: their differences are {why}"
    )


def _by_reason(each: Iterable[tuple[str, Row]]) -> str:
    """The networks by reason: "host, process (within one host only); bgp (measured otherwise)"."""
    reasons: dict[str, list[str]] = {}
    for why, row in each:
        reasons.setdefault(why, []).append(row.network.name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def _ruled_out(advice: Advice, backend: str) -> list[str]:
    names = _by_reason((row.ruled_out, row) for row in advice.backends[backend] if row.ruled_out)
    return [f"Ruled out: {names}."] if names else []


def runs_used(advice: Advice) -> list[str]:
    """The number of runs behind the numbers, and of the others by reason, a line each."""
    runs = advice.runs
    lines = [f"These numbers are of {advice.used:,} of {len(runs):,} runs. Of the others,"]
    lines += [f"  {each}" for each in advice.left_out]
    lines += [f"  {each}" for each in runs.elsewhere]
    lines += [f"  {len(runs.unread):,} could not be read, the first: {runs.unread[0]}"] if runs.unread else []
    return lines if len(lines) > 1 else [lines[0].removesuffix(" Of the others,")]


def as_dict(advice: Advice) -> dict[str, Any]:
    """For programs: values in base units, a CPU's share for CPU per Gbit/s in %; a missing value is null."""
    question = advice.question
    fields = {name: value for name, value in vars(question).items() if name != "exactly"}
    where = {name: list(values) for name, values in question.where.items()}
    return {
        "question": fields | {"first": question.decisive, "matter": list(question.that_matter), "where": where},
        "networks": [
            {
                "network": row.network.name,
                "backend": row.network.backend,
                "rank": row.rank.number,
                "rank_why": row.rank.why or None,
                "isolation": row.network.isolation[0],
                "needs": row.network.needs,
                "cannot": row.network.cannot or None,
                "ruled_out": row.ruled_out or None,
                "dominated_by": list(row.dominated_by),
                "unpaired_with": list(row.unpaired_with),
                "cells": {name: _cell_as_dict(cell) for name, cell in row.cells.items()},
            }
            for row in advice.rows
        ],
        "runs": {"read": len(advice.runs), "used": advice.used},
        "left_out": [
            {"n": len(each.runs), "why": each.why, "ask": list(each.ask), "runs": [run.key for run in each.runs]}
            for each in advice.left_out
        ],
        "elsewhere": list(advice.runs.elsewhere),
        "unread": list(advice.runs.unread),
    }


def _cell_as_dict(cell: Cell) -> dict[str, Any]:
    estimate = cell.found or Estimate(*(float("nan"),) * 3, 0)
    return {
        "unit": CRITERIA[cell.quantity].unit,
        **{name: units.none_if_nan(getattr(estimate, name)) for name in ("value", "low", "high")},
        "n": estimate.n,
        "conditions": str(cell.setting) if cell.setting else None,
        "as_asked": cell.exact,
        "gap": cell.gap or None,
        "runs": [run.key for run in cell.runs],
    }


def html(advice: Advice, *, seen_from: Path | None = None) -> str:
    """The answer for a notebook: networks ruled out or dominated in grey, and a link to each run of a number.

    seen_from: the folder that links are relative to, by default the current one.
    """
    here = seen_from or Path.cwd()
    parts = []
    for backend in advice.backends:
        heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in _HEADS)
        each = zip(rows_of(advice, backend), _texts(advice, backend), strict=True)
        rows = "".join(_html_row(row, texts, here) for row, texts in each)
        lines = "".join(f"<div>{escape(each)}</div>" for each in sentences(advice, backend))
        parts.append(f"{lines}<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
    legend = "".join(f"<div>{escape(note)}</div>" for note in [*notes(advice), *runs_used(advice)])
    body = "".join(parts) + f'<div class="pairlab-note">{legend}</div>'
    return html_repr.summary(str(advice.question), [], body=body, wide=True)


def _html_row(row: Row, shown: Sequence[str], here: Path) -> str:
    style = ' style="opacity: 0.5"' if row.grey else ""
    texts = [escape(text) for text in shown]
    for at, cell in enumerate(row.cells.values(), _HEADS.index("Network") + 1):
        texts[at] += f"<small>{''.join(_links(cell, here))}</small>"
    sentence = _HEADS.index("Cannot")
    classes = ["" if at == sentence else ' class="pairlab-short"' for at in range(len(texts))]
    cells = "".join(f"<td{of}>{text}</td>" for of, text in zip(classes, texts, strict=True))
    return f"<tr{style}>{cells}</tr>"


def _links(cell: Cell, here: Path) -> Iterator[str]:
    """The numbers of the repetitions behind a cell, as links to the folders of their runs."""
    for run in cell.runs:
        if run.path:
            link = Path(os.path.relpath(file_of(run.path).parent, here)).as_posix()  # of a pack: the folder it is in
            yield f' <a href="{escape(link)}/" title="{escape(run.key)}">{run.spec.repetition + 1}</a>'
