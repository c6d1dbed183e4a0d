"""The history: a list of runs with filters. `compare` shows the selected ones below it."""

from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

import ipywidgets

from pairlab.model.records import Run
from pairlab.widgets.event_loop import InEventLoop
from pairlab.widgets.results import Results
from pairlab.widgets.run_list import ANY, FACETS, Filter, RunList, facets
from pairlab.widgets.style import frame, heading, with_classes

#: The list shows no more runs than this; filters reach the others.
MAX_LISTED = 200


class History(ipywidgets.VBox):
    """A list of runs, newest first, with filters. chosen: the selected runs; on_choice is called with them."""

    def __init__(self, run_list: RunList, on_choice: Callable[[list[Run]], None] = lambda runs: None):
        self._run_list = run_list
        self._in_loop = InEventLoop()
        self._runs: list[Run] = []
        self._listed: dict[str, Run] = {}
        self._busy = False
        self.on_choice = on_choice
        labelled = {"style": {"description_width": "auto"}}
        self.text = ipywidgets.Text(description="Find", placeholder="words, or a key", **labelled)
        self.filters = {
            facet: ipywidgets.Dropdown(description=facet.capitalize(), options=[("any", ANY)], **labelled)
            for facet in FACETS
        }
        for each in (self.text, *self.filters.values()):
            each.observe(lambda change: self._in_loop(self._list), names="value")
        self.list = ipywidgets.SelectMultiple(
            description="Runs, newest first; select several to compare them", rows=9, **labelled
        )
        self.list.observe(lambda change: self._in_loop(self._choose), names="value")
        self.refresh_button = ipywidgets.Button(description="Refresh", tooltip="list new runs", icon="refresh")
        self.refresh_button.on_click(lambda button: self._in_loop(self.refresh))
        self._note = ipywidgets.HTML()
        fields = [
            with_classes(ipywidgets.VBox([each]), "pairlab-field") for each in (self.text, *self.filters.values())
        ]
        super().__init__(
            [
                with_classes(ipywidgets.Box(fields), "pairlab-fields"),
                self.list,
                with_classes(ipywidgets.HBox([self.refresh_button, self._note]), "pairlab-actions"),
            ]
        )
        with_classes(self, "pairlab-history")
        self.refresh()

    @property
    def chosen(self) -> list[Run]:
        return [self._listed[key] for key in self.list.value]

    def refresh(self) -> None:
        """Reads the list of runs again."""
        self._runs = self._run_list.refresh()
        self._busy = True
        try:
            for facet, values in facets(self._runs).items():
                box = self.filters[facet]
                kept = box.value if box.value in values else ANY
                box.options = [("any", ANY), *((value, value) for value in values)]
                box.value = kept
        finally:
            self._busy = False
        self._list()

    def choose(self, runs: Iterable[Run]) -> None:
        """Refreshes the list, and selects those of these runs that the filters show."""
        self.refresh()
        self.list.value = [run.key for run in runs if run.key in self._listed]

    def _list(self) -> None:
        if self._busy:
            return
        wanted = Filter(self.text.value, **{facet: box.value for facet, box in self.filters.items()})
        found = [run for run in self._runs if wanted.accepts(run)]
        kept = self.list.value
        self._listed = {run.key: run for run in found[:MAX_LISTED]}
        self._busy = True
        try:
            self.list.options = [(self._run_list.line(run), key) for key, run in self._listed.items()]
            self.list.value = [key for key in kept if key in self._listed]
        finally:
            self._busy = False
        self._note.value = escape(self._count_text(len(found)))
        if tuple(kept) != tuple(self.list.value):
            self._choose()

    def _count_text(self, found: int) -> str:
        if not self._runs:
            return "No runs yet. Every finished measurement appears here."
        words = f"{found} of {len(self._runs)} run{'s' * (len(self._runs) != 1)}"
        words += (
            f"; only the newest {MAX_LISTED} are listed: use the filters to see others" if found > MAX_LISTED else ""
        )
        unreadable = self._run_list.unreadable
        return words + (f"; {len(unreadable)} cannot be read, the first: {unreadable[0]}" if unreadable else "")

    def _choose(self) -> None:
        if not self._busy:
            self.on_choice(self.chosen)


def compare(runs: Iterable[Run] | None = None, *, root: Path | None = None) -> ipywidgets.VBox:
    """A list of runs to choose from; the chosen runs are overlaid, and their difference is stated with its interval.

    runs: for example from pairlab.load_runs; by default all runs stored in `root`, or in runs/. In a notebook, make
    this the last line of a cell.
    """
    results = Results()
    history = History(RunList(runs, root), on_choice=results.show)
    return frame(heading("History"), history, results, name="compare")
