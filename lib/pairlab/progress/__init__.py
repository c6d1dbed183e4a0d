"""Where work shows how far it is: a bar in a notebook, a bar on a terminal, else a plain line for each phase.

with automatic() as progress:          # a contracts.Progress
    progress("bringing up", 31, 50)
"""

import contextlib
import os
import sys
from collections.abc import Iterator

from pairlab.progress import lines, notebook, relay, terminal
from pairlab.testbed.contracts import Progress

__all__ = ["automatic"]


@contextlib.contextmanager
def automatic() -> Iterator[Progress]:
    """The Progress that suits where this process runs; what it shows is gone, or one short line, after the block.

    In a kernel that papermill runs for `pairlab`, that process is told, and the notebook keeps the short line alone.
    Left by an exception, that line says in which phase.
    """
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(relay.told()) if relay.asked() else None
        if notebook.here():
            shown = stack.enter_context(notebook.bar(live=not told))
            yield _both(told, shown) if told else shown
        elif told:
            yield told
        elif sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            yield stack.enter_context(terminal.bar())
        else:
            yield lines.Lines()


def _both(one: Progress, other: Progress) -> Progress:
    def both(phase: str, done: float, total: float) -> None:
        one(phase, done, total)
        other(phase, done, total)

    return both
