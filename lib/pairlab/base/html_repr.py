"""HTML representations for notebooks: a titled summary and a table, escaped, readable in light and in dark themes.

Pure text in, text out. Colours are JupyterLab's variables, with fallbacks for pages without them; no information is in
a colour alone.
"""

import functools
from collections.abc import Iterable, Sequence
from html import escape

from pairlab import paths

#: Badge colours by meaning: JupyterLab's, else one that is readable on black and on white.
TONES = {
    "good": "var(--jp-success-color1, #2e8540)",
    "warn": "var(--jp-warn-color1, #c77700)",
    "bad": "var(--jp-error-color1, #d13438)",
    "": "var(--jp-border-color1, #888)",
}

#: Longest text of a table cell that is kept on one line.
_SHORT = 24
_WIDE = ' style="max-width: none"'


@functools.cache
def _style() -> str:
    """JupyterLab drops the style in untrusted notebooks, so the HTML must be readable without it. The class is doubled
    where JupyterLab's own rules for tables would take precedence.
    """
    return f"<style>\n{(paths.DATA / 'card.css').read_text(encoding='utf-8')}</style>"


def summary(
    title: str,
    rows: Iterable[tuple[str, object]],
    *,
    badge: str = "",
    tone: str = "",
    note: str = "",
    body: str = "",
    wide: bool = False,
) -> str:
    """A titled list of labels and values, as HTML; all texts are escaped here.

    rows: labels with their values and units; empty values are left out. badge: a word beside the title; tone: one of
    TONES. note: a sentence below. body: HTML between the rows and the note, such as a `table`. wide: without a bound.
    """
    listed = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{escape(str(value))}</td></tr>'
        for label, value in rows
        if value != ""
    )
    listed = f"<table><tbody>{listed}</tbody></table>" if listed else ""
    return (
        f'{_style()}<div class="pairlab-card"{_WIDE * wide}><div><strong>{escape(title)}</strong>'
        f"{_badge(badge, tone) if badge else ''}</div>{listed}{body}"
        + (f'<div class="pairlab-note">{escape(note)}</div>' if note else "")
        + "</div>"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as HTML; all texts are escaped here. Columns without text are left out."""
    texts = [[str(cell) for cell in row] for row in rows]
    shown = [column for column in range(len(heads)) if any(row[column] for row in texts)]
    head = "".join(f'<th scope="col">{escape(heads[column])}</th>' for column in shown)
    body = "".join(f"<tr>{''.join(_cell(row[column]) for column in shown)}</tr>" for row in texts)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    short = ' class="pairlab-short"' if len(text) <= _SHORT else ""
    return f"<td{short}>{escape(text)}</td>"


def _badge(text: str, tone: str) -> str:
    colon = '<span class="pairlab-colon">: </span>'
    return f'{colon}<span class="pairlab-badge" style="border-color: {TONES[tone]}">{escape(text)}</span>'
