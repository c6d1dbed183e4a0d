"""Display of progress: a bar in a notebook, a bar on a terminal, otherwise a plain line for each phase.

with automatic() as progress:          # a contracts.Progress
    progress("bringing up", 31, 50)
"""

import contextlib
import os
import sys
from collections.abc import Iterator

from pairlab.base.printing import echo
from pairlab.progress import notebook, relay, terminal
from pairlab.progress.describe import Phases, extent
from pairlab.testbed.contracts import Progress

__all__ = ["automatic"]


@contextlib.contextmanager
def automatic() -> Iterator[Progress]:
    """The Progress for this process's output; after the block, the display is removed or becomes one short line.

    In a kernel that papermill runs for `pairlab`, progress goes to that process, and the notebook shows only the short
    line. If an exception ends the block, the line names the phase.
    """
    with contextlib.ExitStack() as stack:
        sent = relay.wanted()
        if notebook.here():
            yield stack.enter_context(notebook.Bar(also=relay.report_phase if sent else None))
        elif sent:
            yield relay.report_phase
        elif sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            yield terminal.Bar(stack.enter_context(terminal.bars()))
        else:
            yield _Lines()


class _Lines:
    """A Progress for logs: a line on stderr at the begin of each phase, with its total."""

    def __init__(self):
        self._phases = Phases()

    def __call__(self, phase: str, done: float, total: float) -> None:
        if not self._phases.goes_on(phase):
            echo(f"pairlab: {extent(phase, total)}", err=True)
