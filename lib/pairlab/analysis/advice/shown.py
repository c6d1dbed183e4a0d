"""How an answer shows: in sentences, as a table of texts, as HTML with links to the runs, and as data for programs."""

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pandas as pd

from pairlab.analysis.advice.answer import Advice, Row
from pairlab.analysis.advice.cells import Cell, Setting
from pairlab.analysis.advice.question import QUANTITIES
from pairlab.analysis.output.formatting import MISSING, three_digits, with_bounds
from pairlab.base import html_repr, units

_HEADS = ("Network", *(each.title for each in QUANTITIES.values()), "Isolation", "Needs", "Remark")


def settings(advice: Advice) -> dict[Setting, str]:
    """The settings behind the numbers, each with the letter that marks it in the table: those as asked first."""
    cells = [cell for row in advice.rows for cell in row.cells.values() if cell.found]
    used = [*(cell for cell in cells if cell.exact), *(cell for cell in cells if not cell.exact)]
    known = dict.fromkeys(cell.setting for cell in used if cell.setting)
    return {setting: _letters(number) for number, setting in enumerate(known)}


def _letters(number: int) -> str:
    more, last = divmod(number, len(ascii_lowercase))
    return (_letters(more - 1) if more else "") + ascii_lowercase[last]


def text_of(cell: Cell, mark: str = "") -> str:
    """An estimate with its interval in one unit, and the mark of its setting: "81.2 [80.1, 82.4] µs (a)"."""
    if not cell.found:
        return MISSING
    unit = QUANTITIES[cell.quantity].unit
    factor, name = (1.0, unit) if unit == "%" else units.prefix(cell.found.value, unit)
    value, low, high = (number / factor for number in cell.found[:3])
    number = with_bounds(value, low, high, three_digits(value, low, high))
    return f"{number} {name}" + (f" ({mark})" if mark else "")


def rows_of(advice: Advice, backend: str) -> list[Row]:
    """The rows that a table shows: a network that is ruled out only where it was measured (`sentences` names it)."""
    return [row for row in advice.backends[backend] if row.measured or not row.ruled_out]


def table(advice: Advice, backend: str) -> pd.DataFrame:
    """The networks of a backend as texts, a row each."""
    marks = settings(advice)
    rows = [
        [row.network.name, *(_marked(cell, marks) for cell in row.cells.values()), *_known(row)]
        for row in rows_of(advice, backend)
    ]
    return pd.DataFrame(rows, columns=list(_HEADS)).set_index("Network")


def _marked(cell: Cell, marks: dict[Setting, str]) -> str:
    return text_of(cell, marks.get(cell.setting, "") if cell.setting else "")


def _known(row: Row) -> list[str]:
    return [row.network.isolation[0], row.network.needs, row.remark]


def notes(advice: Advice) -> list[str]:
    """What the marks mean, what the words for isolation mean, and why numbers are missing: a line each."""
    exact = {cell.setting for row in advice.rows for cell in row.cells.values() if cell.exact}
    lines = [
        f"({mark}) {'' if setting in exact else 'not as asked: '}{setting}"
        for setting, mark in settings(advice).items()
    ]
    meant = dict(row.network.isolation for backend in advice.backends for row in rows_of(advice, backend))
    lines += [f"isolation {word}: {meaning}" for word, meaning in meant.items()]
    gaps = {
        f"{row.network.name}, {QUANTITIES[name].title}: {cell.gap}": None
        for row in advice.rows
        for name, cell in row.cells.items()
        if not cell.found and cell.runs
    }
    return [*lines, *gaps]


def sentences(advice: Advice, backend: str) -> list[str]:
    """The answer in words: the best by what is first, what cannot be told from it, and what is dominated."""
    name = advice.question.decisive
    title = QUANTITIES[name].title
    first, others = advice.best(backend)
    if first is None:
        none = f"{backend}: no run says which network is best: {title} was not measured of any that is not ruled out."
        return [none, *_ruled_out(advice, backend)]
    cell = first.cells[name]
    most = "shortest" if QUANTITIES[name].unit == "s" else "least" if QUANTITIES[name].less_is_better else "highest"
    asked = "" if cell.exact else f", measured with {cell.setting}, not as asked"
    told = [f"{backend}: {first.network.name} has the {most} {title}, {text_of(cell)}{asked}."]
    alike = [row.network.name for row in others if row.cells[name].setting == cell.setting]
    elsewhere = [row.network.name for row in others if row.cells[name].setting != cell.setting]
    if alike:
        told.append(f"Not told apart from it: {', '.join(alike)}.")
    if elsewhere:
        told.append(f"Not held against it, as measured otherwise: {', '.join(elsewhere)}.")
    matter = [
        each
        for each in advice.question.that_matter
        if any(row.cells[each].found for row in advice.backends[backend] if not row.ruled_out)
    ]
    if dominated := [row.network.name for row in advice.backends[backend] if row.dominated_by]:
        by = " and ".join(QUANTITIES[each].title for each in matter)
        told.append(f"Worse for sure in {by} than another network: {', '.join(dominated)}.")
    if unmeasured := [QUANTITIES[each].title for each in advice.question.that_matter if each not in matter]:
        told.append(f"Measured of none, and so not considered: {', '.join(unmeasured)}.")
    return [*told, *_ruled_out(advice, backend)]


def _ruled_out(advice: Advice, backend: str) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in advice.backends[backend]:
        if row.ruled_out:
            reasons.setdefault(row.ruled_out, []).append(row.network.name)
    told = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    return [f"Ruled out: {told}."] if told else []


def as_dict(advice: Advice) -> dict[str, Any]:
    """For programs: values in base units, a CPU's share for CPU per Gbit/s in %; what there is not is null."""
    question = advice.question
    return {
        "question": {
            "pairs": question.pairs,
            "hosts": question.hosts,
            "traffic": question.traffic,
            "first": question.decisive,
            "matter": list(question.that_matter),
            "isolation": question.isolation,
        },
        "networks": [
            {
                "network": row.network.name,
                "backend": row.network.backend,
                "isolation": row.network.isolation[0],
                "needs": row.network.needs,
                "ruled_out": row.ruled_out or None,
                "dominated_by": list(row.dominated_by),
                "cells": {name: _cell_as_dict(cell) for name, cell in row.cells.items()},
            }
            for row in advice.rows
        ],
    }


def _cell_as_dict(cell: Cell) -> dict[str, Any]:
    value, low, high, n = cell.found or (float("nan"),) * 3 + (0,)
    return {
        "unit": QUANTITIES[cell.quantity].unit,
        **{key: units.none_if_nan(number) for key, number in (("value", value), ("low", low), ("high", high))},
        "n": n,
        "conditions": str(cell.setting) if cell.setting else None,
        "as_asked": cell.exact,
        "gap": cell.gap or None,
        "runs": [run.key for run in cell.runs],
    }


def html(advice: Advice, *, seen_from: Path | None = None) -> str:
    """The answer for a notebook: networks that are ruled out or dominated in grey, and a link to each run of a number.

    seen_from: the folder from which links count, by default the current one.
    """
    marks, here = settings(advice), seen_from or Path.cwd()
    parts = []
    for backend in advice.backends:
        heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in _HEADS)
        rows = "".join(_html_row(row, marks, here) for row in rows_of(advice, backend))
        told = "".join(f"<div>{escape(each)}</div>" for each in sentences(advice, backend))
        parts.append(f"{told}<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
    legend = "".join(f"<div>{escape(note)}</div>" for note in notes(advice))
    body = "".join(parts) + f'<div class="pairlab-note">{legend}</div>'
    return html_repr.summary(str(advice.question), [], body=body, wide=True)


def _html_row(row: Row, marks: dict[Setting, str], here: Path) -> str:
    style = ' style="opacity: 0.5"' if row.grey else ""
    numbers = [
        f"{escape(_marked(cell, marks))}<small>{''.join(_links(cell, here))}</small>" for cell in row.cells.values()
    ]
    texts = [escape(row.network.name), *numbers, *map(escape, _known(row))]
    cells = "".join(f'<td class="pairlab-short">{text}</td>' for text in texts)
    return f"<tr{style}>{cells}</tr>"


def _links(cell: Cell, here: Path) -> Iterator[str]:
    """Numbers of the repetitions behind a cell, as links to their folders."""
    for run in cell.runs:
        if run.path:
            link = Path(os.path.relpath(run.path, here)).as_posix()
            yield f' <a href="{escape(link)}/" title="{escape(run.key)}">{run.spec.repetition + 1}</a>'
