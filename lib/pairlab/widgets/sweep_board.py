"""Sweeps in a notebook: a board, which polls the store while one runs, here or elsewhere; and what runs it here."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets

from pairlab.base import html_repr, safe_yaml
from pairlab.batch import sweep_file
from pairlab.batch.watcher import Watcher
from pairlab.errors import BadInput, NoRuns, PairlabError
from pairlab.measurement.measure import resolve
from pairlab.testbed.cleanup.child_processes import killed_with_parent
from pairlab.widgets.parts import Looks, button, mark, message, row, running_loop, with_classes

#: `pairlab`, which is interrupted also where it inherits, from a notebook's kernel, that it is not.
_PAIRLAB = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[0] = 'pairlab';"
    " from pairlab.cli import main; main(prog_name='pairlab')"
)


class BoardView(ipywidgets.VBox):
    """What `board` returns. task: polls the store until the sweep is complete or this is closed. shown: its HTML.
    starting: whether what measures it was just begun, so that the store need not have it yet.

    Without an event loop, as in a script, there is no task: it shows the state at creation.
    """

    def __init__(self, watcher: Watcher, every_s: float):
        self._watcher, self._every_s = watcher, every_s
        self.shown = ipywidgets.HTML()
        self.starting = False
        self.task: asyncio.Task[None] | None = None
        super().__init__([Looks(), self.shown])
        with_classes(self, "pairlab", "pairlab-board")
        if loop := running_loop():
            self.task = loop.create_task(self._poll())
        else:
            self.shown.value, _ = self._read()

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
            if self.starting and isinstance(error, NoRuns):
                return html_repr.summary(f"sweep {self._watcher.sweep}", [], badge="starting"), False
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


class SweepView(ipywidgets.VBox):
    """What `sweep` returns. board: its progress; task: done when it has ended; stop(), go_on(): as the buttons;
    run_keys: of all its runs.

    held: descriptors that its process needs.
    """

    def __init__(
        self,
        plan: sweep_file.SweepFile,
        file: Path,
        options: tuple[str, ...],
        root: Path | None,
        held: Sequence[int] = (),
    ):
        self.run_keys = {resolve(spec).key for spec in sweep_file.cells(plan)}
        self._words = ["sweep", str(file), *options]
        self._held = list(held)
        self._root = root
        self._process: asyncio.subprocess.Process | None = None
        self.task: asyncio.Task[None] | None = None
        self.board = board(plan.name, root=root)
        self.stop_button = button("Stop", "stop", "end it; what is measured is kept", self.stop)
        self.go_on_button = button("Go on", "play", "measure what is left", self.go_on)
        self.status = with_classes(ipywidgets.HTML(), "pairlab-sweep-status")
        super().__init__([Looks(), self.board, row(self.stop_button, self.go_on_button, self.status)])
        with_classes(self, "pairlab", "pairlab-sweep")
        self.go_on()

    def close(self) -> None:
        self.stop()
        self.board.close()
        while self._held:
            os.close(self._held.pop())
        super().close()

    def go_on(self) -> None:
        """Measures what is left of it, unless that is under way; again what failed or was invalid, too."""
        if self.task is None or self.task.done():
            if self.task and "--retry" not in self._words:
                self._words.append("--retry")
            self.task = asyncio.get_running_loop().create_task(self._measure())

    def stop(self) -> None:
        """Ends it as Ctrl-C does: the cell at work is not stored, and the host is clean."""
        if self._process and self._process.returncode is None:
            self.status.value = message("Stopping and cleaning up …")
            self._process.send_signal(signal.SIGINT)

    async def _measure(self) -> None:
        """In a process of its own, which ends with this kernel: the kernel draws, and would be in the numbers."""
        self.status.value, self.board.starting = message("Running."), True
        mark(self.stop_button, True)
        mark(self.go_on_button, False)
        store = {"PAIRLAB_RUNS": str(self._root)} if self._root else {}
        with tempfile.TemporaryFile() as printed:
            command = killed_with_parent([sys.executable, "-P", "-c", _PAIRLAB, *self._words])
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env=os.environ | store,
                stdout=printed,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=self._held,
            )
            try:
                status = await self._process.wait()
            except asyncio.CancelledError:
                self.stop()
                await self._process.wait()
                raise
            printed.seek(0)
            lines = printed.read().decode(errors="replace").strip().splitlines()
            lines = [line for line in lines if "/dev/fd/" not in line]  # nobody else has a command for that plan
        self.board.starting = False
        mark(self.stop_button, False)
        mark(self.go_on_button, status != 0)
        ended = "Complete." if status == 0 else " ".join(["Not complete:", *lines[-1:]])
        self.status.value = message(ended)


def sweep(plan: str | Path | Mapping[str, Any], *options: str, root: str | Path | None = None) -> SweepView:
    """Measures a sweep, with its progress below the cell. It goes on where it was interrupted, also after a restart.

    plan: the path of a sweep file, the name of one in sweeps/, or what such a file would have (docs/reference/
    sweeps.md). options: of the command `pairlab sweep`, such as "--retry", "--repetitions", "+5". root: the folder
    of runs, by default runs/. The cell is over at once; to wait, as papermill does: `await sweep(...).task`.
    Raises BadInput outside an event loop, and BadSweep for what is no sweep.
    """
    if running_loop() is None:
        raise BadInput("a sweep runs beside a notebook's event loop: in a script, call `pairlab sweep FILE`")
    place = Path(root) if root else None
    if not isinstance(plan, Mapping):
        file = sweep_file.locate(Path(plan)).absolute()
        return SweepView(sweep_file.load(file), file, options, place)
    content = os.memfd_create("sweep")  # a file that ends with this process, whatever ends it
    try:
        with open(content, "w", encoding="utf-8", closefd=False) as file_of_plan:
            file_of_plan.write(safe_yaml.text(dict(plan), default_flow_style=False))
        file = Path(f"/dev/fd/{content}")
        return SweepView(sweep_file.load(file), file, options, place, [content])
    except BaseException:
        os.close(content)
        raise
