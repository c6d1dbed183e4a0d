"""HTML representations for notebooks: a titled summary and a table, escaped, readable in light and in dark themes.

Pure text in, text out. Colours are JupyterLab's variables, with fallbacks for pages without them; no information is in
a colour alone.
"""

from collections.abc import Iterable, Sequence
from html import escape

#: Badge colours by meaning: JupyterLab's, else one that is readable on black and on white.
TONES = {
    "good": "var(--jp-success-color1, #2e8540)",
    "warn": "var(--jp-warn-color1, #c77700)",
    "bad": "var(--jp-error-color1, #d13438)",
    "": "var(--jp-border-color1, #888)",
}

#: Longest text of a table cell that is kept on one line.
_SHORT = 24
_LINE = "1px solid var(--jp-border-color2, rgba(128, 128, 128, 0.4))"
_WIDE = ' style="max-width: none"'
_FAINT = "var(--jp-ui-font-color2, inherit)"
#: JupyterLab drops the style in untrusted notebooks, so the HTML must be readable without it. The class is doubled
#: where JupyterLab's own rules for tables would take precedence.
_STYLE = f"""<style>
.pairlab-card {{ display: inline-block; max-width: 60em; box-sizing: border-box; padding: 0.5em 0.9em 0.6em;
  border: {_LINE}; border-radius: 4px; font-family: var(--jp-ui-font-family, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px); line-height: 1.4; text-align: left;
  color: var(--jp-ui-font-color1, inherit); background: var(--jp-layout-color1, transparent); }}
.pairlab-card .pairlab-badge {{ margin-left: 0.8em; padding: 0 0.6em; border: 1px solid; border-left-width: 0.5em;
  border-radius: 3px; font-weight: 600; white-space: nowrap; }}
.pairlab-card .pairlab-colon {{ display: none; }}
.pairlab-card .pairlab-note {{ margin-top: 0.4em; color: {_FAINT}; overflow-wrap: anywhere; }}
.pairlab-card.pairlab-card table {{ margin: 0.4em 0 0; border-collapse: collapse; font-size: inherit; color: inherit; }}
.pairlab-card.pairlab-card table tbody tr {{ background: none; }}
.pairlab-card.pairlab-card table th, .pairlab-card.pairlab-card table td {{ padding: 0.05em 1.2em 0.05em 0;
  text-align: left; vertical-align: top; white-space: pre-line; max-width: none; overflow-wrap: anywhere;
  background: none; color: inherit; line-height: inherit; }}
.pairlab-card.pairlab-card table th {{ font-weight: 400; white-space: nowrap; color: {_FAINT}; }}
.pairlab-card.pairlab-card table thead th {{ border-bottom: {_LINE}; }}
.pairlab-card.pairlab-card table td.pairlab-short {{ white-space: nowrap; }}
</style>"""


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
        f'{_STYLE}<div class="pairlab-card"{_WIDE * wide}><div><strong>{escape(title)}</strong>'
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
