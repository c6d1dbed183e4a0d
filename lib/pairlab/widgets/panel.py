"""The panel: ask, see what will be built, run it, watch it, and look at what came of it."""

import asyncio
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets

from pairlab import attended
from pairlab.errors import BadInput, PairlabError
from pairlab.preview import preview
from pairlab.records import Run
from pairlab.widgets.asking import Asked
from pairlab.widgets.form import Form
from pairlab.widgets.history import History
from pairlab.widgets.home import Home
from pairlab.widgets.live import LiveView
from pairlab.widgets.repeat import Repeat
from pairlab.widgets.results import PICTURES, Results
from pairlab.widgets.shelf import Shelf
from pairlab.widgets.style import dim, dressed, heading, sheet

#: How long somebody who types is left alone.
TYPING_S = 0.25
#: What each status of a run looks like.
_TONES = {"ok": "ok", "invalid": "warn", "failed": "bad", "skipped": "bad"}


class RunPanel(ipywidgets.VBox):
    """What run_panel returns. form, live, results, history, repeat: its parts; task: the measurement under way.

    root: where runs are kept, by default runs/. attend: measures, as attended.attend_async.
    """

    def __init__(self, preset: dict[str, Any], *, root: Path | None = None, attend=attended.attend_async, **form: Any):
        self._root = root
        self._attend = attend
        self._home = Home()
        self._waiting: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.run_button = dressed(
            ipywidgets.Button(description="Run", icon="play", button_style="primary", tooltip="measure this"),
            "pairlab-run",
        )
        self.run_button.on_click(lambda button: self._home(self.start))
        self.stop_button = dressed(
            ipywidgets.Button(description="Stop", icon="stop", tooltip="end it, and clean up"), "pairlab-stop"
        )
        self.stop_button.on_click(lambda button: self._home(self.stop))
        self.preview = dressed(ipywidgets.HTML(), "pairlab-preview")
        self.status = dressed(ipywidgets.HTML(), "pairlab-status")
        self.live = LiveView()
        self.repeat = Repeat()
        self.results = Results()
        self.form = Form(preset, on_change=lambda: self._home(self._changed), **form)
        self.history = History(Shelf(root=root), on_choice=self.results.show)
        super().__init__(
            [
                sheet(),
                self.form,
                self.preview,
                dressed(ipywidgets.HBox([self.run_button, self.stop_button, self.status]), "pairlab-actions"),
                self.repeat,
                self.live,
                self.results,
                heading("History"),
                self.history,
            ]
        )
        dressed(self, "pairlab", "pairlab-panel")
        self._read()

    @property
    def running(self) -> bool:
        return self.task is not None and not self.task.done()

    def start(self) -> None:
        """Measures what the form asks for, if this host can do it now."""
        if self.running:
            return
        asked = self.form.look_again()
        self._tell_what_is_asked(asked)
        if asked.spec is None:
            self._say("Nothing was built: see what is marked in the form.", "bad")
            return
        self.task = self._home.begin(self._measure(asked))
        self._dim()

    def stop(self) -> None:
        """Ends the measurement under way; it says when the host is clean."""
        if self.running and not self.task.cancelling():
            self._say("Stopping, and cleaning up …", "")
            self.task.cancel()
            self._dim()
            self.run_button.focus()  # at once: who pressed this may be elsewhere when the host is clean

    async def _measure(self, asked: Asked) -> None:
        """All repetitions, one after the other. Ends by itself, however they end."""
        done: list[Run] = []
        begun = datetime.now(UTC)
        how = "not measured"
        try:
            for number in range(asked.repetitions):
                spec = asked.spec.replace(repetition=asked.spec.repetition + number)
                self._say(
                    f"Repetition {number + 1} of {asked.repetitions}." if asked.repetitions > 1 else "Running.", ""
                )
                self.live.begin(spec)
                done.append(
                    await self._attend(
                        spec,
                        fresh=asked.fresh,
                        root=self._root,
                        on_phase=self.live.on_phase,
                        on_sample=self.live.on_sample,
                    )
                )
        except asyncio.CancelledError:
            how = "stopped"
            self._say("Stopped. Nothing of it is left on the host, and it was not stored.", "warn")
        except BadInput as error:
            self._say(f"Nothing was built: {error}", "bad")
        except PairlabError as error:
            self._say(f"Not measured: {error}", "bad")
        except Exception as error:  # a panel that falls silent tells nobody what is wrong
            self._say(f"Not measured, for a reason pairlab does not know: {type(error).__name__}: {error}", "bad")
        else:
            how = "done"
            self._say(*_ended(done, begun))
        finally:
            self.task = None
            self._end(done, how)

    def _end(self, done: list[Run], how: str) -> None:
        if self.live.course:
            self.live.end(how)
        if done and self.results.tabs.value not in PICTURES:
            self.results.tabs.value = next(iter(PICTURES))
        self.history.choose(done)
        if done:
            self.results.show(done)  # also where a filter of the history hides them
        self._tell_what_is_asked(self.form.look())

    def _changed(self) -> None:
        """The form is another: read it, once who types has paused."""
        if self._waiting:
            self._waiting.cancel()
        self._waiting = self._home.later(TYPING_S, self._read)

    def _read(self) -> None:
        self._waiting = None
        self._tell_what_is_asked(self.form.look())

    def _tell_what_is_asked(self, asked: Asked) -> None:
        words = "Some of this cannot be measured: see what is marked in the form."
        if asked.spec:
            try:
                words = preview(asked.spec, asked.repetitions, self._root)
            except PairlabError as error:
                words = str(error)
        self.preview.value = escape(words)
        self.repeat.follow(asked)
        self._dim()

    def _dim(self) -> None:
        """Shows which button would do nothing now. Neither is ever disabled: that would take the focus from it."""
        dim(self.run_button, self.running or self.form.asked.spec is None)
        dim(self.stop_button, not self.running or bool(self.task.cancelling()))

    def _say(self, words: str, tone: str) -> None:
        self.status.value = (
            f"<span class='pairlab-told pairlab-told-{tone or 'plain'}' role='status'>{escape(words)}</span>"
        )


def run_panel(**preset: Any) -> RunPanel:
    """The panel to measure with. Let it be the last line of a cell.

    preset: what the form has at first: experiment, repetitions, and parameters of the experiment's notebook, in base
    units (duration_s in seconds, flow_bytes in bytes); the notebook's own values for the rest. What is measured is
    stored as any other run. Raises BadInput for a parameter that the experiment does not have.
    """
    return RunPanel(preset)


def _ended(done: list[Run], begun: datetime) -> tuple[str, str]:
    """How the repetitions ended, in words, and their tone: that of the worst."""
    wrong = [run for run in done if run.status != "ok"]
    last = done[-1]
    if all(run.measured_at and run.measured_at < begun for run in done):
        return f"Stored already, so not measured again: {last.outcome}. Tick “Measure again” for that.", "ok"
    if not wrong:
        often = f"{len(done)} repetitions, the last: " if len(done) > 1 else ""
        return f"Done, and stored. {often}{last.outcome}.", "ok"
    told = f"{len(wrong)} of {len(done)} are" if len(done) > 1 else "The run is"
    return f"{told} {wrong[0].status}, and stored so: {'; '.join(wrong[0].reasons)}", _TONES[wrong[0].status]
