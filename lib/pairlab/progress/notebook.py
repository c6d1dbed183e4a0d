"""Progress in a notebook: a bar that is updated in place, and one short line at the end."""

import sys
import time
from html import escape
from typing import Any

from pairlab.progress.describe import Phases, status
from pairlab.testbed.contracts import Progress

#: Seconds between two updates of a phase: faster updates would be invisible, and cost CPU time while measuring.
_APART_S = 0.2

_STYLE = (
    "display:flex;align-items:center;gap:0.6em;font-size:var(--jp-ui-font-size1,13px);"
    "font-family:var(--jp-ui-font-family,sans-serif);color:var(--jp-ui-font-color1,inherit)"
)
_BAR_STYLE = "width:14em;accent-color:var(--jp-brand-color1,#1976d2)"


def here() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython else False


class Bar:
    """A Progress that is drawn below the cell of the first call, and leaves a line (a context manager).

    also: another Progress to call, in place of the bar; then only the final line appears, if there were phases.
    """

    def __init__(self, also: Progress | None = None):
        self._also = also
        self._phases = Phases()
        self._handle: Any = None
        self._drawn = float("-inf")

    def __call__(self, phase: str, done: float, total: float) -> None:
        goes_on = self._phases.goes_on(phase)
        if self._also:
            self._also(phase, done, total)
        elif not goes_on or time.monotonic() - self._drawn >= _APART_S:
            self._drawn = time.monotonic()
            self._show(drawn(phase, done, total), status(phase, done, total))

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._phases:
            words = self._phases.summary(whole=error is None)
            self._show(f'<div style="{_STYLE}">{escape(words)}</div>', words)

    def _show(self, html: str, text: str) -> None:
        from IPython.display import display

        content = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def drawn(phase: str, done: float, total: float) -> str:
    """A bar with the status as HTML; an indeterminate bar without a total."""
    words = escape(status(phase, done, total))
    filled = f' max="{total:g}" value="{done:g}"' if total else ""
    progress = f'<progress{filled} style="{_BAR_STYLE}" aria-label="{words}"></progress>'
    return f'<div role="status" style="{_STYLE}">{progress}<span>{words}</span></div>'
