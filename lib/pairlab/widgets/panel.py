"""The panel: choose a measurement, see what it will build, run it, watch it, and look at its results."""

import asyncio
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets

from pairlab.errors import BadInput, PairlabError
from pairlab.measurement import in_subprocess
from pairlab.measurement.estimate import picture, preview
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.widgets.event_loop import InEventLoop
from pairlab.widgets.form.form import Form
from pairlab.widgets.form.parse import Request
from pairlab.widgets.form.reproduce import Reproduce
from pairlab.widgets.history import History
from pairlab.widgets.live_view.view import LiveView
from pairlab.widgets.results import PICTURES, Results
from pairlab.widgets.run_list import RunList
from pairlab.widgets.style import heading, show_inactive, style_sheet, with_classes

#: The form is read once no key was pressed for this long.
TYPING_S = 0.25
#: The colour of each status of a run.
_TONES = {"ok": "ok", "invalid": "warn", "failed": "bad", "skipped": "bad"}


class RunPanel(ipywidgets.VBox):
    """What run_panel returns. form, live, results, history, reproduce: its parts; task: the measurement under way.

    root: the folder of runs, by default runs/. attend: measures, as in_subprocess.attend_async does.
    """

    def __init__(
        self, preset: dict[str, Any], *, root: Path | None = None, attend=in_subprocess.attend_async, **form: Any
    ):
        self._root = root
        self._attend = attend
        self._in_loop = InEventLoop()
        self._waiting: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.run_button = with_classes(
            ipywidgets.Button(description="Run", icon="play", button_style="primary", tooltip="measure this"),
            "pairlab-run",
        )
        self.run_button.on_click(lambda button: self._in_loop(self.start))
        self.stop_button = with_classes(
            ipywidgets.Button(description="Stop", icon="stop", tooltip="end it, and clean up"), "pairlab-stop"
        )
        self.stop_button.on_click(lambda button: self._in_loop(self.stop))
        self.preview = with_classes(ipywidgets.HTML(), "pairlab-preview")
        self.plan = ipywidgets.HTML()  # apart, so that it stays open while the words change
        self.status = with_classes(ipywidgets.HTML(), "pairlab-status")
        self.live = LiveView()
        self.reproduce = Reproduce()
        self.results = Results()
        self.form = Form(preset, on_change=lambda: self._in_loop(self._changed), **form)
        self.history = History(RunList(root=root), on_choice=self.results.show)
        super().__init__(
            [
                style_sheet(),
                self.form,
                self.preview,
                self.plan,
                with_classes(ipywidgets.HBox([self.run_button, self.stop_button, self.status]), "pairlab-actions"),
                self.reproduce,
                self.live,
                self.results,
                heading("History"),
                self.history,
            ]
        )
        with_classes(self, "pairlab", "pairlab-panel")
        self._read()

    @property
    def running(self) -> bool:
        return self.task is not None and not self.task.done()

    def start(self) -> None:
        """Measures what the form asks for, if this host can do it now."""
        if self.running:
            return
        request = self.form.refresh_and_read()
        self._show_preview(request)
        if request.spec is None:
            self._say("Not started: correct the marked fields.", "bad")
            return
        self.task = self._in_loop.start(self._measure(request, request.spec))
        self._update_buttons()

    def stop(self) -> None:
        """Stops the measurement under way; the status says when cleanup is complete."""
        if self.task and self.running and not self.task.cancelling():
            self._say("Stopping and cleaning up …", "")
            self.task.cancel()
            self._update_buttons()
            self.run_button.focus()  # now: after the cleanup, it might take the focus from another field

    async def _measure(self, request: Request, first: Spec) -> None:
        """All repetitions, one after the other. Errors are shown, not raised."""
        done: list[Run] = []
        begun = datetime.now(UTC)
        outcome = "measurement failed"
        try:
            for number in range(request.repetitions):
                spec = first.replace(repetition=first.repetition + number)
                self._say(
                    f"Repetition {number + 1} of {request.repetitions}." if request.repetitions > 1 else "Running.", ""
                )
                self.live.begin(spec)
                done.append(
                    await self._attend(
                        spec,
                        fresh=request.fresh,
                        root=self._root,
                        on_phase=self.live.on_phase,
                        on_sample=self.live.on_sample,
                    )
                )
        except asyncio.CancelledError:
            outcome = "stopped"
            self._say("Stopped. The host is clean; nothing was stored of the stopped measurement.", "warn")
        except BadInput as error:
            self._say(f"Not started: {error}", "bad")
        except PairlabError as error:
            self._say(f"Measurement failed: {error}", "bad")
        except Exception as error:  # otherwise the task would end without a word
            self._say(f"Measurement failed: unexpected error: {type(error).__name__}: {error}", "bad")
        else:
            outcome = "done"
            self._say(*_result_text(done, begun))
        finally:
            self.task = None
            self._end(done, outcome)

    def _end(self, done: list[Run], outcome: str) -> None:
        if self.live.state:
            self.live.end(outcome)
        if done and self.results.tabs.value not in PICTURES:
            self.results.tabs.value = next(iter(PICTURES))
        self.history.choose(done)
        if done:
            self.results.show(done)  # even if a filter of the history hides them
        self._show_preview(self.form.read())

    def _changed(self) -> None:
        """The form was edited: read it after a pause in typing."""
        if self._waiting:
            self._waiting.cancel()
        self._waiting = self._in_loop.later(TYPING_S, self._read)

    def _read(self) -> None:
        self._waiting = None
        self._show_preview(self.form.read())

    def _show_preview(self, request: Request) -> None:
        words, drawn = "This cannot be measured: correct the marked fields.", ""
        if request.spec:
            try:
                words, drawn = preview(request.spec, request.repetitions, self._root), picture(request.spec)
            except PairlabError as error:
                words = str(error)
        self.preview.value, self.plan.value = escape(words), drawn
        self.reproduce.update(request)
        self._update_buttons()

    def _update_buttons(self) -> None:
        """Shows which button would do nothing now. Neither is ever disabled, as that would take the focus from it."""
        show_inactive(self.run_button, self.running or self.form.request.spec is None)
        show_inactive(self.stop_button, not (self.task and self.running) or bool(self.task.cancelling()))

    def _say(self, words: str, tone: str) -> None:
        self.status.value = (
            f"<span class='pairlab-message pairlab-message-{tone or 'plain'}' role='status'>{escape(words)}</span>"
        )


def run_panel(**preset: Any) -> RunPanel:
    """A panel to run measurements from. Make it the last line of a cell.

    preset: initial values of the form: experiment, repetitions, and parameters of the experiment's notebook, in base
    units (duration_s in seconds, flow_bytes in bytes); the rest has the notebook's values. Runs are stored as usual.
    Raises BadInput for a parameter that the experiment does not have.
    """
    return RunPanel(preset)


def _result_text(done: list[Run], begun: datetime) -> tuple[str, str]:
    """The outcome of the repetitions in words, and its tone: that of the worst."""
    wrong = [run for run in done if run.status != "ok"]
    last = done[-1]
    if all(run.measured_at and run.measured_at < begun for run in done):
        return f"From the store, {last.measured}: {last.outcome}. To measure again, tick “Measure again”.", "ok"
    if not wrong:
        often = f"{len(done)} repetitions, the last: " if len(done) > 1 else ""
        return f"Done and stored. {often}{last.outcome}.", "ok"
    which = f"{len(wrong)} of {len(done)} runs are" if len(done) > 1 else "The run is"
    return f"{which} {wrong[0].status} (stored): {'; '.join(wrong[0].reasons)}", _TONES[wrong[0].status]
