"""Progress in a notebook: a bar that is updated in place, and one short line in the end."""

import contextlib
import sys
import time
from collections.abc import Iterator
from html import escape
from typing import Any

from pairlab.progress.words import Phases, status

#: Seconds between two updates of one phase: more would not be seen, but would cost the machine that measures.
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


@contextlib.contextmanager
def bar(*, live: bool = True) -> Iterator["Bar"]:
    """A Progress shown below the cell that runs. live=False: only the line at the end."""
    shown = Bar(live)
    try:
        yield shown
    except BaseException:
        shown.close(whole=False)
        raise
    shown.close(whole=True)


class Bar:
    """A Progress that is drawn below the cell of its first call."""

    def __init__(self, live: bool):
        self._live = live
        self._phases = Phases()
        self._handle: Any = None
        self._drawn = float("-inf")

    def __call__(self, phase: str, done: float, total: float) -> None:
        goes_on = self._phases.goes_on(phase)
        if self._live and not (goes_on and time.monotonic() - self._drawn < _APART_S):
            self._drawn = time.monotonic()
            self._show(drawn(phase, done, total), status(phase, done, total))

    def close(self, *, whole: bool) -> None:
        """Leaves what was done as one line, or nothing if nothing was done."""
        if self._phases:
            words = self._phases.summary(whole=whole)
            self._show(f'<div style="{_STYLE}">{escape(words)}</div>', words)

    def _show(self, html: str, text: str) -> None:
        from IPython.display import display

        shown = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def drawn(phase: str, done: float, total: float) -> str:
    """A bar and its words as HTML; one without an end where nothing is counted."""
    words = escape(status(phase, done, total))
    filled = f' max="{total:g}" value="{done:g}"' if total else ""
    progress = f'<progress{filled} style="{_BAR_STYLE}" aria-label="{words}"></progress>'
    return f'<div role="status" style="{_STYLE}">{progress}<span>{words}</span></div>'
