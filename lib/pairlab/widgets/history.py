"""The history: a table of runs with filters, and what may be done with those that are ticked. `compare` shows these."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from html import escape
from pathlib import Path

import ipywidgets

from pairlab import store
from pairlab.base import named_values
from pairlab.errors import BadSpec, NoRuns, PairlabError
from pairlab.model.records import Run
from pairlab.model.spec import Spec, value_of
from pairlab.store import index
from pairlab.store.index import Row
from pairlab.widgets.parts import button, frame, heading, in_background, labelled, row, when_changed, with_classes
from pairlab.widgets.results import Results
from pairlab.widgets.run_table import RunTable, moment

#: What a history can be filtered by, apart from text.
FACETS = ("experiment", "driver", "backend", "status")
ANY = ""
#: A figure of more runs, as of a large sweep, takes seconds: they are ticked by hand.
MAX_TICKED = 60
READING = "Reading the stored runs …"


def finder(text: str, **wanted: str) -> Callable[[Row], bool]:
    """Whether a run has the wanted values and all that the text asks for: a word is in what it was asked for, its
    moment, label, status or reasons, or begins its key; NAME=VALUE is of a parameter, of several values one.

    wanted: by facet; ANY matches all. Raises BadSpec for a value that the parameter cannot have.
    """
    words, values = [], {facet: [value] for facet, value in wanted.items() if value != ANY}
    for word in text.split():
        named = named_values.split(word)
        if named and named[0] in Spec.model_fields:
            given = filter(None, named[1].split(","))  # none: it is not typed to the end
            values[named[0]] = [value_of(named[0], each) for each in given] or values.get(named[0], [])
        else:
            words.append(word.lower())
    values = {name: some for name, some in values.items() if some}

    def finds(run: Row) -> bool:
        return all(run[name] in some for name, some in values.items()) and all(
            word in _searched(run) or run["key"].startswith(word) for word in words
        )

    return finds


def _searched(run: Row) -> str:
    """What is looked for words in; made once, as it takes long for ten thousand runs."""
    if "searched" not in run:
        run["searched"] = f"{run['spec']} {run['status']} {run['reasons']} {run['label']} {moment(run)}".lower()
    return run["searched"]


class RunList:
    """Runs, as rows of store/index.py: those given, or else the stored ones, which are not read for it.

    root: the folder of runs, by default runs/. unreadable: after `refresh`, why some could not be read.
    """

    def __init__(self, runs: Iterable[Run] | None = None, root: Path | None = None):
        self._given = None if runs is None else {run.key: run for run in runs}
        self.root = root
        self.unreadable: list[str] = []

    @property
    def stored(self) -> bool:
        return self._given is None

    def refresh(self) -> list[Row]:
        """Takes a minute or more where thousands of stored runs were never listed: all of them are read, once."""
        if self._given is not None:
            return list(map(index.head_of, self._given.values()))
        try:
            rows, self.unreadable = index.rows(self.root)
        except NoRuns:
            rows, self.unreadable = [], []
        except (OSError, PairlabError) as error:
            rows, self.unreadable = [], [str(error)]
        for run in rows:
            _searched(run)  # here, as nobody waits for this
        return rows

    def complete(self, run: Row) -> Row:
        """With what the tables of a given run say; stored ones' rows have it."""
        return index.row_of(self._given[run["key"]]) if self._given and run["outcome"] is None else run

    def read(self, run: Row) -> Run:
        """Raises StoreError where it has gone, or was damaged, since it was listed."""
        if self._given is not None:
            return self._given[run["key"]]
        return store.with_key(store.read(Path(run["path"])), run["key"])


class History(ipywidgets.VBox):
    """A table of runs with filters. chosen: those that are ticked; on_choice is called with them.

    on_fill: called with the spec of one that is to be measured again. reading: in an event loop, the task that lists
    the runs, in a thread: meanwhile the kernel answers.
    """

    def __init__(
        self,
        run_list: RunList,
        on_choice: Callable[[list[Run]], None] = lambda runs: None,
        on_fill: Callable[[Spec], None] | None = None,
    ):
        self._run_list = run_list
        self._runs: dict[str, Row] = {}
        self._added: dict[str, Row] = {}
        self._removed: list[Path] = []
        self._busy = self._known = False
        self._trouble = ""  # said once, beside how many runs there are
        self.reading: asyncio.Task[None] | None = None
        self.on_choice = on_choice
        self._on_fill = on_fill
        self.text = labelled(ipywidgets.Text, "Find", placeholder="words, or pairs=5")
        self.filters = {
            facet: labelled(ipywidgets.Dropdown, facet.capitalize(), options=[("any", ANY)]) for facet in FACETS
        }
        fields = (self.text, *self.filters.values())
        for each in fields:
            when_changed(each, self._list)
        self.table = RunTable(run_list.complete)
        when_changed(self.table, self._choose, "chosen")
        self._note = ipywidgets.HTML()
        self.label = ipywidgets.Text(placeholder="before, after, a commit", layout=ipywidgets.Layout(width="180px"))
        self.undo_button = button("Undo", "undo", "give the runs that were removed last their places again", self.undo)
        self.actions = row(
            button("Fill the form", "pencil", "with what the ticked run was asked for", self.fill),
            button("Remove", "trash-o", "to .replaced/, from where Undo gets them", self.remove),
            self.undo_button,
            self.label,
            button("Label", "tag", "what you call the state of the system that they were measured in", self.relabel),
        )
        boxes = [with_classes(ipywidgets.VBox([each]), "pairlab-field") for each in fields]
        refresh = button("Refresh", "refresh", "list new runs", self.refresh)
        found = with_classes(ipywidgets.Box(boxes), "pairlab-fields")
        super().__init__([found, self.table, self.actions, row(refresh, self._note)])
        with_classes(self, "pairlab-history")
        self._show_actions()
        self.refresh()

    @property
    def chosen(self) -> list[Run]:
        """Those that can be read; why others cannot is said."""
        return self._read(self.table.chosen)

    def _read(self, keys: Iterable[str]) -> list[Run]:
        found = []
        for key in keys:
            try:
                found.append(self._run_list.read(self._runs[key]))
            except PairlabError as error:
                self._note.value = escape(str(error))
        return found

    def refresh(self, tick: Collection[str] = ()) -> None:
        """Lists what is stored now, and chooses what has these keys, MAX_TICKED at most."""
        self._added.clear()
        if self.reading is None or self.reading.done():
            self._note.value = READING
            self.reading = in_background(self._run_list.refresh, lambda runs: self._take(runs, tick))

    def _take(self, runs: Iterable[Row], tick: Collection[str] = ()) -> None:
        """Lists these, and what was added while they were read."""
        self._runs = {run["key"]: run for run in runs} | self._added
        self._busy = self._known = True
        try:
            for facet in FACETS:
                box, values = self.filters[facet], sorted({run[facet] for run in self._runs.values()})
                kept = box.value if box.value in values else ANY
                box.options = [("any", ANY), *((value, value) for value in values)]
                box.value = kept
        finally:
            self._busy = False
        self._list()
        if ticked := [key for key in self._runs if key in tick][:MAX_TICKED]:
            self.table.chosen = [key for key in ticked if key in self.table.listed]
            self.on_choice(self._read(ticked))  # even if a filter hides some

    def choose(self, runs: Iterable[Run]) -> None:
        """Adds these runs, which were just measured, to the table; ticks those that the filters show."""
        added = {run.key: index.row_of(run) for run in runs}
        self._added |= added
        self._take(self._runs.values())
        self.table.chosen = [key for key in added if key in self.table.listed]

    def _list(self) -> None:
        if self._busy:
            return
        wanted = {facet: box.value for facet, box in self.filters.items()}
        try:
            found = list(filter(finder(self.text.value, **wanted), self._runs.values()))
        except BadSpec as error:
            found, self._trouble = [], f"{error}."
        self.table.show(found)
        self._note.value = escape(" ".join(filter(None, (self._trouble, self._count_text(len(found))))))
        self._trouble = ""

    def _count_text(self, found: int) -> str:
        if not self._runs and not self._run_list.unreadable:
            return "No runs yet. Every finished measurement appears here." if self._known else READING
        text = f"{found} of {len(self._runs)} run{'s' * (len(self._runs) != 1)}"
        unreadable = self._run_list.unreadable
        return text + (f"; {len(unreadable)} cannot be read, the first: {unreadable[0]}" if unreadable else "")

    def _choose(self) -> None:
        self._show_actions()
        self.on_choice(self.chosen)

    def _show_actions(self) -> None:
        fill, remove, undo, label, relabel = self.actions.children
        several = bool(self.table.chosen) and self._run_list.stored
        for each, works in (
            (fill, self._on_fill and len(self.table.chosen) == 1),
            (remove, several),
            (undo, self._removed),
            (label, several),
            (relabel, several),
        ):
            each.layout.display = "" if works else "none"

    def fill(self) -> None:
        """Has the form ask for what the ticked run was asked for."""
        if self._on_fill and (runs := self.chosen):
            try:
                self._on_fill(runs[0].spec)
            except PairlabError as error:
                self._note.value = escape(str(error))

    def remove(self) -> None:
        """Moves the ticked runs to .replaced/, as `pairlab rm` does."""
        removed: list[Path] = []
        self._do(lambda place: removed.extend(store.remove([place])), self._ticked)
        self._removed = removed or self._removed
        self._show_actions()
        self.undo_button.focus()

    def undo(self) -> None:
        """Gives the runs that were removed last their places again."""
        self._do(store.restore, self._removed)
        self._removed = []
        self._show_actions()

    def relabel(self) -> None:
        """Stores the ticked runs under that label in place of their own."""
        self._do(lambda place: store.relabel(place, self.label.value), self._ticked)

    @property
    def _ticked(self) -> list[Path]:
        return [Path(self._runs[key]["path"]) for key in self.table.chosen]

    def _do(self, work: Callable[[Path], object], places: Iterable[Path]) -> None:
        """Does it to each of these runs, as far as it can be done, and lists what is stored then; else says why not."""
        try:
            for place in places:
                work(place)
        except PairlabError as error:
            self._trouble = str(error)
        self.refresh()


def compare(runs: Iterable[Run] | None = None, *, root: Path | None = None) -> ipywidgets.VBox:
    """A table of runs to choose from; the chosen runs are overlaid, and their difference is stated with its interval.

    runs: for example from pairlab.load_runs; by default all runs stored in `root`, or in runs/. In a notebook, make
    this the last line of a cell.
    """
    results = Results()
    history = History(RunList(runs, root), on_choice=results.show)
    return frame(heading("History"), history, results, name="compare")
