"""The sweep board in a notebook: it polls the store while a sweep runs, here or elsewhere."""

import asyncio
from pathlib import Path

import ipywidgets

from pairlab.base import html_repr
from pairlab.batch.watcher import Watcher
from pairlab.errors import PairlabError
from pairlab.widgets.style import style_sheet, with_classes


class BoardView(ipywidgets.VBox):
    """What `board` returns. task: polls the store until the sweep is complete or this is closed. shown: its HTML.

    Without an event loop, as in a script, there is no task: it shows the state at creation.
    """

    def __init__(self, watcher: Watcher, every_s: float):
        self._watcher, self._every_s = watcher, every_s
        self.shown = ipywidgets.HTML()
        self.task: asyncio.Task[None] | None = None
        super().__init__([style_sheet(), self.shown])
        with_classes(self, "pairlab", "pairlab-board")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.shown.value, _ = self._read()
        else:
            self.task = loop.create_task(self._poll())

    def close(self) -> None:
        if self.task:
            self.task.cancel()
        super().close()

    async def _poll(self) -> None:
        complete = False
        while not complete:
            # In a thread: the first reading of thousands of runs takes a second or two, and the kernel must respond.
            self.shown.value, complete = await asyncio.to_thread(self._read)
            if not complete:
                await asyncio.sleep(self._every_s)

    def _read(self) -> tuple[str, bool]:
        """The board as HTML, and whether the sweep is complete. Errors are shown, and polling goes on."""
        try:
            board = self._watcher.board()
        except (PairlabError, OSError) as error:
            return self._error(str(error)), False
        except Exception as error:  # otherwise the task would end, and the board would stay as it is without a word
            return self._error(f"unexpected error: {type(error).__name__}: {error}"), False
        return board._repr_html_(), board.complete

    def _error(self, why: str) -> str:
        note = f"Trying again every {self._every_s:g} s."
        rows = [("reason", why)]
        return html_repr.summary(f"sweep {self._watcher.sweep}", rows, badge="unavailable", tone="warn", note=note)


def board(name: str, *, backend: str | None = None, root: str | Path | None = None, every_s: float = 2.0) -> BoardView:
    """Progress of the sweep of that name, kept up to date while this kernel runs; the sweep may start later.

    backend: only the cells measured in that one. root: the folder of runs, by default runs/. every_s: polling
    interval in seconds; without changes, one poll takes about 10 ms at 3,000 cells. Polling ends when the sweep is
    complete, or with `close()`. It never affects the sweep.
    """
    return BoardView(Watcher(name, backend=backend, root=root), every_s)
