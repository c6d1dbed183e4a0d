"""The sweep board in a notebook: it reads the store again and again, beside a sweep that runs elsewhere."""

import asyncio
from pathlib import Path

import ipywidgets

from pairlab import cards
from pairlab.board import Watcher
from pairlab.errors import PairlabError
from pairlab.widgets.style import dressed, sheet


class BoardView(ipywidgets.VBox):
    """What board returns. task: reads the store until the sweep is complete, or this is closed; shown: its HTML.

    Without an event loop, as in a script, there is no task, and it shows what it read when it was made.
    """

    def __init__(self, watcher: Watcher, every_s: float):
        self._watcher, self._every_s = watcher, every_s
        self.shown = ipywidgets.HTML()
        self.task: asyncio.Task[None] | None = None
        super().__init__([sheet(), self.shown])
        dressed(self, "pairlab", "pairlab-board")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.shown.value, _ = self._read()
        else:
            self.task = loop.create_task(self._go_on())

    def close(self) -> None:
        if self.task:
            self.task.cancel()
        super().close()

    async def _go_on(self) -> None:
        complete = False
        while not complete:
            # Of thousands of runs the first look takes a second or two, in which the kernel should answer.
            self.shown.value, complete = await asyncio.to_thread(self._read)
            if not complete:
                await asyncio.sleep(self._every_s)

    def _read(self) -> tuple[str, bool]:
        """The board as HTML, and whether the sweep is complete. What goes wrong is shown, and may pass."""
        try:
            board = self._watcher.board()
        except (PairlabError, OSError) as error:
            return self._trouble(str(error)), False
        except Exception as error:  # a board that falls silent tells nobody what is wrong
            return self._trouble(f"for a reason pairlab does not know: {type(error).__name__}: {error}"), False
        return board._repr_html_(), board.complete

    def _trouble(self, why: str) -> str:
        note = f"It is looked for again every {self._every_s:g} s."
        rows = [("why", why)]
        return cards.card(f"sweep {self._watcher.sweep}", rows, badge="not to be seen", tone="warn", note=note)


def board(name: str, *, backend: str | None = None, root: str | Path | None = None, every_s: float = 2.0) -> BoardView:
    """How far the sweep of that name has come, kept up to date while this kernel lives; it need not have begun.

    backend: only the cells measured in that one. root: the folder of runs, by default runs/. every_s: how often the
    store is looked at, in seconds; a look without news takes about 10 ms at 3,000 cells. It ends when the sweep is
    complete, or with `close()`, and the sweep goes on whatever becomes of it.
    """
    return BoardView(Watcher(name, backend=backend, root=root), every_s)
