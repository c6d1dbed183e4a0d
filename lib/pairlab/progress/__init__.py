"""How progress is shown: a bar in a notebook, a bar on a terminal, otherwise a plain line for each phase.

with automatic() as progress:          # a contracts.Progress
    progress("bringing up", 31, 50)
"""

import contextlib
import os
import sys
from collections.abc import Iterator

import click

from pairlab.progress import notebook, relay, terminal
from pairlab.progress.words import Phases, extent
from pairlab.testbed.contracts import Progress

__all__ = ["automatic"]


@contextlib.contextmanager
def automatic() -> Iterator[Progress]:
    """The Progress for where this process runs; after the block, what it showed is removed or becomes one short line.

    In a kernel that papermill runs for `pairlab`, progress goes to that process, and the notebook has only the short
    line. If an exception ends the block, that line says in which phase.
    """
    with contextlib.ExitStack() as stack:
        sent = relay.wanted()
        if notebook.here():
            shown = stack.enter_context(notebook.bar(live=not sent))
            yield _both(relay.report_phase, shown) if sent else shown
        elif sent:
            yield relay.report_phase
        elif sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            yield stack.enter_context(terminal.bar())
        else:
            yield _Lines()


def _both(one: Progress, other: Progress) -> Progress:
    def both(phase: str, done: float, total: float) -> None:
        one(phase, done, total)
        other(phase, done, total)

    return both


class _Lines:
    """A Progress that is read later, such as in a log: a line on stderr when a phase begins, and what it has to do."""

    def __init__(self):
        self._phases = Phases()

    def __call__(self, phase: str, done: float, total: float) -> None:
        if not self._phases.goes_on(phase):
            click.echo(f"pairlab: {extent(phase, total)}", err=True)
