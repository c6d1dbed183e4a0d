"""The panel: choose a measurement, see what it will build, run it, watch it, and look at its results."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets

from pairlab.batch import experiments
from pairlab.errors import BadInput, PairlabError
from pairlab.measurement import in_subprocess
from pairlab.measurement.estimate import EarlierRuns, grid_preview, picture, preview
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.widgets.form import Form
from pairlab.widgets.history import History, RunList
from pairlab.widgets.live_view import LiveView
from pairlab.widgets.parse import Request
from pairlab.widgets.parts import (
    Looks,
    button,
    heading,
    in_background,
    mark,
    message,
    row,
    running_loop,
    when_changed,
    with_classes,
)
from pairlab.widgets.results import PICTURES, Results
from pairlab.widgets.sweep_board import SweepView, sweep

#: The form is read once no key was pressed for this long.
TYPING_S = 0.25
#: The colour of each status of a run.
_TONES = {"ok": "ok", "invalid": "warn", "failed": "bad", "skipped": "bad"}


class RunPanel(ipywidgets.VBox):
    """What run_panel returns. form, live, results, history, reproduce: its parts; task: the measurement under way, a
    run's or that of a grid, which has a view of its own.

    root: the folder of runs, by default runs/. attend: measures, as in_subprocess.attend_async does.
    """

    def __init__(
        self, preset: dict[str, Any], *, root: Path | None = None, attend=in_subprocess.attend_async, **form: Any
    ):
        self._root = root
        self._attend = attend
        self._waiting: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.run_button = with_classes(button("Run", "play", "measure this", self.start, "primary"), "pairlab-run")
        self.stop_button = with_classes(button("Stop", "stop", "end it, and clean up", self.stop), "pairlab-stop")
        self.preview = with_classes(ipywidgets.HTML(), "pairlab-preview")
        self.plan_button = ipywidgets.ToggleButton(description="How it will be built", icon="sitemap")
        when_changed(self.plan_button, lambda: self._show_preview(self.form.request))
        self.plan = ipywidgets.HTML()
        self.status = with_classes(ipywidgets.HTML(), "pairlab-status")
        self.live = LiveView()
        self.grid = ipywidgets.VBox()
        self.reproduce = Reproduce()
        self.results = Results()
        self.form = Form(preset, **form)
        self.history = History(RunList(root=root), on_choice=self._choose, on_fill=self.form.fill)
        unfolding = self.plan_button, *self.reproduce.buttons.values()
        super().__init__(
            [
                Looks(),
                self.form,
                self.preview,
                with_classes(row(self.run_button, self.stop_button, *unfolding), "pairlab-unfolds", "pairlab-runs"),
                self.status,
                self.plan,
                self.reproduce,
                self.results,
                self.live,
                self.grid,
                heading("History"),
                self.history,
            ]
        )
        with_classes(self, "pairlab", "pairlab-panel")
        self.form.on_change = self._changed
        self._said = "", ""
        self._measured: Spec | None = None  # what status and charts are of
        self._done: Sequence[Run] = ()  # the runs that came of it
        self._earlier = EarlierRuns(root, read=False)
        self._read()
        self._read_earlier_runs()

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
        if (loop := running_loop()) is None:
            self._say("Not started: a panel measures where there is an event loop, as in a notebook's cell.", "bad")
            return
        measured = self._measure_grid(request) if request.cells else self._measure(request, request.spec)
        self.task = loop.create_task(measured)
        self._update_buttons()

    def stop(self) -> None:
        """Stops the measurement under way; the status says when cleanup is complete."""
        if self.task and self.running and not self.task.cancelling():
            self._say("Stopping and cleaning up …", "")
            self.task.cancel()
            self._update_buttons()
            self.run_button.focus()  # now: after the cleanup, it might take the focus from another field

    async def _measure_grid(self, request: Request) -> None:
        """As a sweep, which goes on where it was stopped; its cells are in the table of runs afterwards."""
        assert request.spec
        self._measured, self.live.value = request.spec, ""
        self.results.show(())
        plan = experiments.sweep_plan(request.spec, request.repetitions, request.several)
        self._say(f"The sweep {plan['name']}: its progress is below.", "")
        view = None
        try:
            view = sweep(plan, root=self._root)
            self._show_sweep(view)
            await _ended(view)
            self._say(f"The sweep {plan['name']} has ended: see below.", "")
        except PairlabError as error:
            self._say(f"Not started: {error}", "bad")
        except Exception as error:  # otherwise the task would end without a message
            self._say(f"Not started: {_unexpected(error)}", "bad")
        except asyncio.CancelledError:
            assert view
            view.stop()
            await _ended(view)
            self._say("Stopped. The host is clean; what was measured is kept, and Go on measures what is left.", "warn")
        finally:
            self.task = None
            self._show_figure()
            self.history.refresh(view.run_keys if view else ())
            self._show_preview(self.form.read())

    def _show_sweep(self, *views: SweepView) -> None:
        """This one, or none, in place of the one that has ended."""
        for each in self.grid.children:
            each.close()
        self.grid.children = views

    def _show_figure(self) -> None:
        """Opens a view of the results that shows more than one run, unless one is open."""
        if self.results.tabs.value not in PICTURES:
            self.results.tabs.value = next(iter(PICTURES))

    async def _measure(self, request: Request, first: Spec) -> None:
        """All repetitions, one after the other. Errors are shown, not raised."""
        done: list[Run] = []
        begun = datetime.now(UTC)
        outcome = "measurement failed"
        self._measured = first
        self.results.show(())  # the live view has their place, and they have its when it is over
        if all(each.task.done() for each in self.grid.children):
            self._show_sweep()
        try:
            for number in range(request.repetitions):
                spec = first.replace(repetition=first.repetition + number)
                several = request.repetitions > 1
                self._say(f"Repetition {number + 1} of {request.repetitions}." if several else "Running.", "")
                self.live.begin(spec)
                shown = {"on_phase": self.live.on_phase, "on_sample": self.live.on_sample}
                done.append(await self._attend(spec, fresh=request.fresh, root=self._root, **shown))
        except asyncio.CancelledError:
            outcome = "stopped"
            self._say("Stopped. The host is clean; nothing was stored of the stopped measurement.", "warn")
        except BadInput as error:
            self._say(f"Not started: {error}", "bad")
        except PairlabError as error:
            self._say(f"Measurement failed: {error}", "bad")
        except Exception as error:  # otherwise the task would end without a message
            self._say(f"Measurement failed: {_unexpected(error)}", "bad")
        else:
            outcome = "done"
            self._say(*_result_text(done, begun))
        finally:
            self.task = None
            self._end(done, outcome)

    def _choose(self, runs: Sequence[Run]) -> None:
        """Shows runs that were ticked; the charts of the last measurement make room where these are others."""
        self.results.show(runs)
        if runs and not self.running and {run.key for run in runs} != {run.key for run in self._done}:
            self.live.value = ""

    def _end(self, done: list[Run], outcome: str) -> None:
        self._done = done
        self.live.end(outcome)
        self.history.choose(done)
        if done:
            self._show_figure()
        self.results.show(done or self.history.chosen)  # even if a filter of the history hides what was measured
        self._show_preview(self.form.read())
        self._read_earlier_runs()

    def _changed(self) -> None:
        """The form was edited: read it after a pause in typing."""
        if self._waiting:
            self._waiting.cancel()
        if loop := running_loop():
            self._waiting = loop.call_later(TYPING_S, self._read)
        else:
            self._read()

    def _read_earlier_runs(self) -> None:
        """From now on, estimates are by what is stored now."""

        def take(earlier: EarlierRuns) -> None:
            self._earlier = earlier
            self._show_preview(self.form.request)

        self._estimating = in_background(lambda: EarlierRuns(self._root), take)

    def _read(self) -> None:
        self._waiting = None
        self._show_preview(self.form.read())

    def _show_preview(self, request: Request) -> None:
        text, drawn = "This cannot be measured: correct the marked fields.", ""
        if request.spec:
            try:
                if request.cells:
                    text = grid_preview(request.cells, request.repetitions, self._earlier)
                else:
                    text = preview(request.spec, request.repetitions, self._root, self._earlier)
                drawn = picture(request.spec) if self.plan_button.value else ""
            except PairlabError as error:
                text = str(error)
        self.preview.value, self.plan.value = escape(text), drawn
        self.run_button.description = "Run this grid" if request.several else "Run"
        self.reproduce.update(request)
        self._show_status()
        self._update_buttons()

    def _update_buttons(self) -> None:
        mark(self.run_button, self.form.request.spec and not self.running)
        mark(self.stop_button, self.task is not None and self.running and not self.task.cancelling())

    def _say(self, text: str, tone: str) -> None:
        self._said = text, tone
        self._show_status()

    def _show_status(self) -> None:
        """Status and charts, marked where they are of what was measured before the form was changed."""
        asked, measured, (text, tone) = self.form.request.spec, self._measured, self._said
        of_before = False
        if asked and measured and not self.running:
            of_before = asked.replace(repetition=0) != measured.replace(repetition=0)
        (self.live.add_class if of_before else self.live.remove_class)("pairlab-before")
        shown = f"Of the measurement before: {text}" if of_before and text else text
        self.status.value = message(shown, tone or "plain")


def _unexpected(error: Exception) -> str:
    return f"unexpected error: {type(error).__name__}: {error}"


async def _ended(view: SweepView) -> None:
    """Returns when that sweep has, also if who waits is cancelled again."""
    assert view.task
    await asyncio.wait([view.task])


def run_panel(**preset: Any) -> RunPanel:
    """A panel to run measurements from. Make it the last line of a cell.

    preset: initial values of the form: experiment, repetitions, and parameters of the experiment's notebook, in base
    units (duration_s in seconds, flow_bytes in bytes); the rest has the notebook's values. Runs are stored as usual.
    Raises BadInput for a parameter that the experiment does not have.
    """
    return RunPanel(preset)


def _result_text(done: list[Run], begun: datetime) -> tuple[str, str]:
    """The outcome of the repetitions as text, and its tone: that of the worst."""
    wrong = [run for run in done if run.status != "ok"]
    last = done[-1]
    if all(run.measured_at and run.measured_at < begun for run in done):
        return f"From the store, {last.measured}: {last.outcome}. To measure again, tick “Measure again”.", "ok"
    if not wrong:
        often = f"{len(done)} repetitions, the last: " if len(done) > 1 else ""
        return f"Done and stored. {often}{last.outcome}.", "ok"
    which = f"{len(wrong)} of {len(done)} runs are" if len(done) > 1 else "The run is"
    return f"{which} {wrong[0].status} (stored): {'; '.join(wrong[0].reasons)}", _TONES[wrong[0].status]


#: By a button's label: its icon, what it is for, and what makes its text of a request and its spec.
_TEXTS: dict[str, tuple[str, str, Callable[[Request, Spec], str]]] = {
    "As papermill command": (
        "terminal",
        "a shell command for the checkout",
        lambda request, spec: experiments.papermill_command(spec, fresh=request.fresh),
    ),
    "As sweep file": (
        "file-text-o",
        "a file for pairlab sweep",
        lambda request, spec: experiments.sweep_text(spec, request.repetitions, request.several),
    ),
}


class Reproduce(ipywidgets.HTML):
    """The measurement that a form asks for, as a command or a sweep file to copy; updated with the form.

    buttons: by label, each opens its text; who shows this shows them, too.
    """

    def __init__(self):
        self._request = Request(None)
        self.buttons = {
            label: ipywidgets.ToggleButton(description=label, icon=icon, tooltip=tooltip)
            for label, (icon, tooltip, _) in _TEXTS.items()
        }
        for each in self.buttons.values():
            when_changed(each, self._show)
        super().__init__()
        with_classes(self, "pairlab-reproduce")

    def update(self, request: Request) -> None:
        """Shows the texts of that request from now on."""
        self._request = request
        self._show()

    def _show(self) -> None:
        opened = [label for label, each in self.buttons.items() if each.value]
        self.value = "".join(_copyable(label, self._text(label)) for label in opened)

    def _text(self, label: str) -> str:
        if not self._request.spec:
            return "correct the fields marked above first"
        try:
            return _TEXTS[label][2](self._request, self._request.spec)
        except PairlabError as error:
            return str(error)


def _copyable(name: str, text: str) -> str:
    """A text that is selected as a whole when it gets the focus, so that Ctrl-C copies it."""
    rows = max(2, text.count("\n") + 1)
    return (
        f"<label>{escape(name)}: select it and copy it with Ctrl-C"
        f"<textarea readonly spellcheck='false' rows='{rows}' onfocus='this.select()'>{escape(text)}</textarea></label>"
    )
