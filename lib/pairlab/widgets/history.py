"""The history: runs to filter and to choose from. compare: with what the chosen ones show below."""

from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

import ipywidgets

from pairlab.records import Run
from pairlab.widgets.home import Home
from pairlab.widgets.results import Results
from pairlab.widgets.shelf import ANY, FACETS, Filter, Shelf, facets
from pairlab.widgets.style import dressed, frame, heading

#: More are not listed: whoever looks for one filters.
MOST = 200


class History(ipywidgets.VBox):
    """A list of runs, the newest first, and filters. chosen: those that are selected; on_choice is called with them."""

    def __init__(self, shelf: Shelf, on_choice: Callable[[list[Run]], None] = lambda runs: None):
        self._shelf = shelf
        self._home = Home()
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
            each.observe(lambda change: self._home(self._list), names="value")
        self.list = ipywidgets.SelectMultiple(
            description="Runs, newest first; select several to compare them", rows=9, **labelled
        )
        self.list.observe(lambda change: self._home(self._choose), names="value")
        self.again = ipywidgets.Button(
            description="Look again", tooltip="look for runs that came since", icon="refresh"
        )
        self.again.on_click(lambda button: self._home(self.look))
        self._note = ipywidgets.HTML()
        fields = [dressed(ipywidgets.VBox([each]), "pairlab-field") for each in (self.text, *self.filters.values())]
        super().__init__(
            [
                dressed(ipywidgets.Box(fields), "pairlab-fields"),
                self.list,
                dressed(ipywidgets.HBox([self.again, self._note]), "pairlab-actions"),
            ]
        )
        dressed(self, "pairlab-history")
        self.look()

    @property
    def chosen(self) -> list[Run]:
        return [self._listed[key] for key in self.list.value]

    def look(self) -> None:
        """Looks for runs that came since."""
        self._runs = self._shelf.look()
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
        """Looks again, and selects these, as far as the filters show them."""
        self.look()
        self.list.value = [run.key for run in runs if run.key in self._listed]

    def _list(self) -> None:
        if self._busy:
            return
        wanted = Filter(self.text.value, **{facet: box.value for facet, box in self.filters.items()})
        found = [run for run in self._runs if wanted.accepts(run)]
        kept = self.list.value
        self._listed = {run.key: run for run in found[:MOST]}
        self._busy = True
        try:
            self.list.options = [(self._shelf.line(run), key) for key, run in self._listed.items()]
            self.list.value = [key for key in kept if key in self._listed]
        finally:
            self._busy = False
        self._note.value = escape(self._told(len(found)))
        if tuple(kept) != tuple(self.list.value):
            self._choose()

    def _told(self, found: int) -> str:
        if not self._runs:
            return "No runs yet: what is measured here, or anywhere with pairlab, comes here."
        words = f"{found} of {len(self._runs)} run{'s' * (len(self._runs) != 1)}"
        words += f", of which the newest {MOST} are listed: filter to see others" if found > MOST else ""
        unread = self._shelf.unread
        return words + (f"; {len(unread)} cannot be read, the first: {unread[0]}" if unread else "")

    def _choose(self) -> None:
        if not self._busy:
            self.on_choice(self.chosen)


def compare(runs: Iterable[Run] | None = None, *, root: Path | None = None) -> ipywidgets.VBox:
    """Runs to choose from, the chosen ones overlaid, and their difference in words, with its interval.

    runs: such as pairlab.load_runs gives; by default all that are stored, below `root` or runs/. In a notebook, let it
    be the last line of a cell.
    """
    results = Results()
    history = History(Shelf(runs, root), on_choice=results.show)
    return frame(heading("History"), history, results, name="compare")
