"""A question and its answer: declared once, what is estimated, shown, drawn and written follows.

    answer = question.ask("pinning", "runs/reference")
    answer["total"]              # estimates, a row per cell: as cell_estimates
    answer.show("pinning")       # a table
    answer.draw("pinning-total") # a figure
    answer.write()               # figures, tables and keyed numbers for the paper

questions/ has those of the papers. A notebook asks one of its own by passing a Question.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab import paths
from pairlab.analysis import cell_estimates, repetitions, selection
from pairlab.analysis.figures import estimates as draw
from pairlab.analysis.figures import files, grid
from pairlab.analysis.output import formatting, latex, measures, provenance
from pairlab.analysis.output.formatting import systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, Texts, put_p, tabulate
from pairlab.analysis.repetitions import Factor
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.base.printing import echo
from pairlab.errors import AnalysisError, UnknownName
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.statistics import tests
from pairlab.store.dataset import Runs

Where = Callable[[pd.DataFrame], pd.DataFrame]


def _every(repetitions: pd.DataFrame) -> pd.DataFrame:
    return repetitions


class Estimates:
    """What an answer has under a name: a row per cell, and how its values are shown (None: as no numbers).

    key: of one row, the last part of its keyed numbers' names, where rows differ in it.
    """

    measure: Quantity | None
    key: Callable[[Any], str] | None

    def of(self, answer: "Answer") -> pd.DataFrame:
        raise NotImplementedError

    def put(self, found: Values, frame: pd.DataFrame, *names: str) -> None:
        """Its keyed numbers, below the names of the cells."""
        if self.measure is None:
            return
        for row in frame.itertuples():
            last = self.key(row) if self.key else self.measure.key
            self.measure.put_one(found, f"{measures.key_of(row, *names)}/{last}", row)


def as_multiples(changes: pd.DataFrame) -> pd.DataFrame:
    """Changes in percent as multiples of what they are from."""
    return changes.assign(**{name: 1 + changes[name].astype(float) / 100 for name in ("value", "low", "high")})


@dataclass(frozen=True, kw_only=True)
class _OfRepetitions(Estimates):
    """Estimates of a column of the repetitions. experiment: of which these are, if of another one of the question's.
    rows: makes them, if they are other ones.
    """

    experiment: str = ""
    rows: Callable[["Answer"], pd.DataFrame] | None = None
    key: Callable[[Any], str] | None = None

    def repetitions(self, answer: "Answer") -> pd.DataFrame:
        return answer.once(self.rows) if self.rows else answer.rows(self.experiment)

    def having(self, column: str, answer: "Answer") -> pd.DataFrame:
        """The same, which must have that column."""
        found = self.repetitions(answer)
        if column not in found:
            known = ", ".join(sorted(repetitions.QUANTITIES))
            raise AnalysisError(
                f"the repetitions have no column {column!r}: name it in Question(…, quantities=[{column!r}]), or take"
                f" another ({known})"
            )
        return found


@dataclass(frozen=True)
class Mean(_OfRepetitions):
    """The mean of a column of the repetitions, by cell: cell_estimates.means.

    where: of which repetitions. by: what sets cells apart, if not all factors.
    """

    measure: Quantity
    column: str
    where: Where = _every
    by: tuple[str, ...] = ()

    def of(self, answer: "Answer") -> pd.DataFrame:
        by = self.by or answer.question.cell
        return cell_estimates.means(self.where(self.having(self.column, answer)), by, self.column, answer.confidence)


@dataclass(frozen=True)
class Change(_OfRepetitions):
    """How far each value of a factor moves a column from what it is at `against`: cell_estimates.changes.

    against: a value, or what has it for the repetitions of each combination of `each` (None: there is none). by: what
    both sides have alike; empty: all factors but that one. keep: other columns that go with that factor. p: the key of
    its p-value, if it has one. times: shown as a multiple, 1.1 for a change of 10 %.
    """

    measure: Quantity
    column: str
    factor: str
    against: object
    where: Where = _every
    by: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    relative: bool = True
    times: bool = False
    p: str = ""

    def of(self, answer: "Answer") -> pd.DataFrame:
        by = self.by or tuple(name for name in answer.question.cell if name != self.factor)
        mine = self.where(self.having(self.column, answer))
        parts = [part for _, part in mine.groupby(list(self.each), sort=True)] if self.each else [mine]
        against = [self.against(part) if callable(self.against) else self.against for part in parts]
        compared = [(part, base) for part, base in zip(parts, against, strict=True) if base is not None]
        found = [self._of(part, by, base, answer.confidence) for part, base in compared]
        kept = [frame for frame in found if len(frame)] or [self._of(mine.iloc[:0], by, None, answer.confidence)]
        whole = pd.concat(kept, ignore_index=True)
        return as_multiples(whole) if self.times else whole

    def _of(self, part: pd.DataFrame, by: Sequence[str], against: object, confidence: float) -> pd.DataFrame:
        options: dict[str, Any] = {"setting": self.factor, "against": against, "relative": self.relative}
        found = cell_estimates.changes(part, by, self.column, confidence=confidence, **options)
        on = [*by, self.factor]
        return found.merge(part[[*on, *self.keep]].drop_duplicates(), on=on) if self.keep else found

    def put(self, found: Values, frame: pd.DataFrame, *names: str) -> None:
        super().put(found, frame, *names)
        if self.p:
            put_p(found, frame, *names, key=self.p)


@dataclass(frozen=True)
class Frame(Estimates):
    """Any other estimates, made of the answer."""

    make: Callable[["Answer"], pd.DataFrame]
    measure: Quantity | None = None
    key: Callable[[Any], str] | None = None

    def of(self, answer: "Answer") -> pd.DataFrame:
        return self.make(answer)


@dataclass(frozen=True)
class Differ(Estimates):
    """Whether the values of a factor differ in a column, by Kruskal and Wallis's test over repetitions, for each `by`.

    A frame of `by`, statistic, p, n (repetitions), groups (values of the factor), and gap: why there is no test. shown:
    those of the tests that are shown. p: the key of its p-value, if it has one.
    """

    column: str
    factor: str = "driver"
    by: tuple[str, ...] = (*SYSTEM, "pairs")
    shown: Callable[["Answer", pd.DataFrame], pd.DataFrame] = lambda answer, every: every
    p: str = ""
    measure: None = None

    def of(self, answer: "Answer") -> pd.DataFrame:
        rows = []
        for names, group in answer.repetitions.groupby(list(self.by), sort=True):
            try:
                test = tests.kruskal(group, self.column, self.factor)
                rows.append([*names, test.statistic, test.p, test.n, test.groups, ""])
            except AnalysisError as error:
                rows.append([*names, np.nan, np.nan, len(group), group[self.factor].nunique(), str(error)])
        every = pd.DataFrame(rows, columns=[*self.by, "statistic", "p", "n", "groups", "gap"])
        return self.shown(answer, every)

    def put(self, found: Values, frame: pd.DataFrame, *names: str) -> None:
        if self.p:
            put_p(found, frame, *names, key=self.p, column="p")


class Column(NamedTuple):
    """A column of a table: of each row of the estimates `of` a text."""

    title: Hashable
    of: str
    text: Callable[[Any], str]

    def texts(self, answer: "Answer", names: Sequence[str]) -> dict[Hashable, Texts]:
        return {self.title: measures.texts(answer[self.of], names, self.text)}


class Across(NamedTuple):
    """A column for each value of a factor. order: of these. head: what stands above them; none: nothing."""

    of: str
    factor: str
    order: Callable[["Answer"], Sequence[Hashable] | None] = lambda answer: None
    head: str = ""

    def texts(self, answer: "Answer", names: Sequence[str]) -> dict[Hashable, Texts]:
        found = answer.measure(self.of).texts(answer[self.of], *names, self.factor)
        return measures.across(found, *filter(None, [self.head]), order=self.order(answer))


def p_values(of: str, title: str = "p (Holm)", column: str = "p_holm") -> Column:
    """The p-values of changes."""
    return Column(title, of, lambda row: formatting.p_text(getattr(row, column)))


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """split: a file per system; file: whether there is any. remarks: of these estimates it is said what they rest on.
    trim: what is left of a system's part in its file. wrapped: the share of the page's width that its columns share, in
    which their texts break into lines; 0: as wide as they are.
    """

    split: bool = True
    remarks: str = ""
    file: bool = True
    trim: Where = _every
    wrapped: float = 0.0


@dataclass(frozen=True)
class Table(_Shown):
    """heads: the factors that tell rows apart, below "system", and what the table calls them. columns: names of
    estimates, which have the titles of their measures, Columns and Acrosses. order: of values that have one of their
    own. dull: factors without a column where all rows have this value.
    """

    heads: Mapping[str, str]
    columns: Sequence[str | Column | Across]
    order: Callable[["Answer"], Mapping[str, Sequence]] = lambda answer: {}
    dull: Mapping[str, object] = field(default_factory=dict)

    def of(self, answer: "Answer") -> pd.DataFrame:
        first = answer[self.estimates[0]]
        dull = {name for name, value in self.dull.items() if (first[name] == value).all()}
        heads = {name: head for name, head in self.heads.items() if name not in dull}
        names = ("system", *heads)
        columns: dict[Hashable, Texts] = {}
        for column in self.columns:
            if isinstance(column, str):
                measure = answer.measure(column)
                columns.setdefault(measure.title, {}).update(measure.texts(answer[column], *names))
            else:
                columns |= column.texts(answer, names)
        return tabulate({"system": "System", **heads}, columns, self.order(answer))

    @property
    def estimates(self) -> list[str]:
        return list(dict.fromkeys(each if isinstance(each, str) else each.of for each in self.columns))


@dataclass(frozen=True)
class Made(_Shown):
    """Any other table, made of the answer; estimates: whose gaps are named below it."""

    of: Callable[["Answer"], pd.DataFrame]
    estimates: Sequence[str] = ()


@dataclass(frozen=True)
class Question:
    """What is asked of the runs of an experiment.

    topic: what keys of numbers begin with. experiment: whose runs answer it, if not the one of that name; beside: other
    experiments that it reads, pooled: in one table with them. which: those that do, as selection.select; only: of
    these. by: the factors that set cells apart besides CELL. quantities, parts, of_parts, alike: as repetitions.table
    has them. words: by the name of a column that all estimates get, the factors that it is made of, and how. estimates,
    tables and figures: by name; a name of a figure or table is that of its file. keys: the factors that are parts of
    keys, or by the name of estimates. main: the estimates that systems, drivers and pairs are told of; of several, all.
    unfit: why the runs that there are cannot answer it; empty: they can. values: adds what is no estimate. answer:
    sentences. absent: by the name of a table or figure, why there is nothing in it, where no gap says so.
    """

    topic: str
    experiment: str = ""
    by: Sequence[str | Factor] = ()
    quantities: Sequence[str] = ("total_bps", "client_bps", "jain_index")
    estimates: Mapping[str, Estimates] = field(default_factory=dict)
    tables: Mapping[str, Table | Made] = field(default_factory=dict)
    figures: Mapping[str, Callable[["Answer"], Figure | None]] = field(default_factory=dict)
    keys: Sequence[str] | Mapping[str, Sequence[str]] = ("system", "driver", "pairs")
    main: Sequence[str] = ()
    which: Callable[[Spec], bool] = selection.as_in_papers
    only: Callable[[Spec], bool] | None = None
    unfit: Callable[[Runs], str] = lambda runs: ""
    beside: Sequence[str] = ()
    pooled: bool = False
    alike: bool = True
    parts: Callable[[Run], Iterable[Mapping[str, object]]] = lambda run: [{}]
    of_parts: Sequence[str] = ()
    words: Mapping[str, tuple[Sequence[str], Callable[..., object]]] = field(default_factory=dict)
    values: Callable[["Answer", Values], None] = lambda answer, found: None
    answer: Sequence[Callable[["Answer"], str]] = ()
    absent: Mapping[str, Callable[["Answer"], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "experiment", self.experiment or self.topic)

    @property
    def experiments(self) -> tuple[str, ...]:
        return (self.experiment, *self.beside)

    @property
    def cell(self) -> tuple[str, ...]:
        names = (each.name if isinstance(each, Factor) else each for each in self.by)
        return (*CELL, *names, *self.of_parts)


class Answer:
    """A question's answer in some runs; each of its estimates is made once, when it is asked for.

    used: the runs of all its experiments; found: those that it is of; gap: why none answers it, else empty.
    """

    def __init__(
        self, question: Question, used: Runs, gap: str, origin: provenance.Origin, confidence: float, **options
    ):
        self.question, self.used, self.origin, self.confidence = question, used, origin, confidence
        self.options = options
        parts = {name: selection.part_of(used, name, gap) for name in question.experiments}
        mine = parts[question.experiment]
        if not mine.gap and (why := question.unfit(mine.runs)):
            mine = parts[question.experiment] = selection.Selection(mine.runs.where(lambda run: False), why)
        self.gaps = [each.gap for each in parts.values() if each.gap]
        self.gap = mine.gap
        backends = {run.spec.backend for run in mine.runs}  # in others only what stands beside it was measured
        pooled = question.pooled and not mine.gap
        self.found = used.where(lambda run: run.spec.backend in backends) if pooled else mine.runs
        self.beside = {name: each.runs for name, each in parts.items()}
        self._rows: dict[str, pd.DataFrame] = {}
        self._made: dict[str, pd.DataFrame] = {}
        self._drawn: dict[str, Figure | None] = {}
        self._once: dict[Callable, Any] = {}
        if question.alike:
            selection.check_comparable(self.found, question.cell)

    def once(self, make: Callable[["Answer"], Any]) -> Any:
        """What is made of the answer, and needed in several places."""
        if make not in self._once:
            self._once[make] = make(self)
        return self._once[make]

    @property
    def repetitions(self) -> pd.DataFrame:
        """A row per run that counts: repetitions.table."""
        return self.rows()

    @functools.cached_property
    def flows(self) -> pd.DataFrame:
        """A row per flow: selection.flows_of."""
        return selection.flows_of(self.found)

    def rows(self, experiment: str = "") -> pd.DataFrame:
        """The same, or of another of the question's experiments."""
        if experiment not in self._rows:
            asked, runs = self.question, self.beside[experiment] if experiment else self.found
            options: dict[str, Any] = {"alike": False, "parts": asked.parts, "of_parts": asked.of_parts}
            found = repetitions.table(runs, (*CELL, *asked.by), asked.quantities, **options)
            self._rows[experiment] = self._worded(found)
        return self._rows[experiment]

    def conditions(self, drawn: pd.DataFrame) -> str:
        """How the runs behind a figure's rows were measured, for its note."""
        return provenance.conditions(self.found, drawn)

    def conditions_of(self, name: str) -> grid.Conditions:
        """The same where the rows are of those estimates."""
        experiment = getattr(self.question.estimates[name], "experiment", "")
        return functools.partial(provenance.conditions, self.beside[experiment]) if experiment else self.conditions

    def _conditions_below(self, table: Table | Made, system: str) -> str | None:
        """The same for a table of one system, or of all that it has (empty); None: its estimates name none."""
        frames = [frame for name in table.estimates if {*SYSTEM} <= {*(frame := self[name])}]
        shown = [part for frame in frames for name, part in systems(frame).items() if system in ("", name)]
        return provenance.conditions(self.used, pd.concat(shown)[list(SYSTEM)]) if shown else None

    def __getitem__(self, name: str) -> pd.DataFrame:
        """The estimates of that name."""
        if name not in self._made:
            if name not in self.question.estimates:
                known = ", ".join(self.question.estimates)
                raise UnknownName(f"{self.question.topic} has no estimates {name!r}; there are: {known}")
            self._made[name] = self._worded(self.question.estimates[name].of(self))
        return self._made[name]

    def _worded(self, frame: pd.DataFrame) -> pd.DataFrame:
        for name, (factors, word) in self.question.words.items():
            if {*factors} <= {*frame} and name not in frame:
                words = [word(*row) for row in frame[list(factors)].itertuples(index=False, name=None)]
                frame = frame.assign(**{name: pd.Series(words, index=frame.index, dtype=object)})
        return frame

    def table(self, name: str) -> pd.DataFrame:
        """The table of that name, of all systems."""
        return self.question.tables[name].of(self)

    def parts(self, name: str) -> dict[str, pd.DataFrame]:
        """That table by system, or whole where it has one file; nothing where there is nothing in it."""
        whole = self.table(name)
        if whole.empty:
            return {}
        return measures.by_system(whole) if self.question.tables[name].split else {"": whole}

    def figure(self, name: str) -> Figure | None:
        """The figure of that name; None where there is nothing to draw."""
        if name not in self._drawn:
            self._drawn[name] = self.question.figures[name](self)
        return self._drawn[name]

    def measure(self, of: str) -> Quantity:
        """How those estimates are shown, which have to be numbers."""
        measure = self.question.estimates[of].measure
        assert measure is not None, of
        return measure

    def known(self, of: str) -> pd.DataFrame:
        """Those estimates that have a value."""
        return self[of].dropna(subset=["value"])

    def panels(
        self, drawn: Callable[..., Axes], of: str, /, *, at_pairs: bool = False, where: Where = _every, **options: Any
    ) -> Figure | None:
        """A panel for each system (figures.estimates.by_system); at_pairs: of the most pairs that it has."""
        frame = where(self[of])
        if at_pairs:
            frame = cell_estimates.at_pairs(frame)
        if not frame["value"].notna().any():
            return None
        shown = {"measure": self.measure(of), "conditions": self.conditions_of(of)} | options
        return draw.by_system(frame, drawn, **shown)

    def facets(
        self,
        drawn: Callable[..., Axes],
        of: str,
        /,
        layout: Mapping[str, Any],
        *,
        where: Where = _every,
        what: str = "",
        **options: Any,
    ) -> Figure | None:
        """A panel for each value of a column, of estimates that have a value; layout: as figures.grid.facets takes it.

        what: is drawn, in the note, if not means or changes. options go to `drawn`, and the measure, if they have none.
        """
        frame = where(self.known(of))
        if frame.empty:
            return None
        make = functools.partial(drawn, **{"measure": self.measure(of)} | options)
        return grid.facets(frame, make, note=draw.caption(frame, what), conditions=self.conditions_of(of), **layout)

    def dots(
        self,
        of: str,
        /,
        layout: Mapping[str, Any],
        *,
        where: Where = _every,
        remark: Callable[[pd.DataFrame], str] = lambda repetitions: "",
        **options: Any,
    ) -> Figure | None:
        """Means by driver with a point for each repetition; layout: as figures.grid.facets takes it.

        remark: of the repetitions, what the note says besides. options: of figures.estimates.repetitions_by_driver.
        """
        mean = self.question.estimates[of]
        assert isinstance(mean, Mean), of
        frame = where(mean.where(mean.repetitions(self)).dropna(subset=mean.column))
        if frame.empty or self.known(of).empty:
            return None
        shown: dict[str, Any] = {"value": mean.column, "measure": mean.measure, **options}
        note = draw.caption(frame, by=mean.by or self.question.cell) + remark(frame)
        make = functools.partial(draw.repetitions_by_driver, **shown)
        return grid.facets(frame, make, note=note, conditions=self.conditions, **layout)

    def show(self, *names: str) -> None:
        """Shows tables in a notebook, a part for each system, what they rest on, and why numbers are missing."""
        from IPython.display import display

        for name in names:
            table, parts = self.question.tables[name], self.parts(name)
            if not parts:
                echo(f"{name}: {self._absent(name) or 'there is nothing to show'}")
                continue
            rests_on = systems(self[table.remarks]) if table.remarks else {}
            for system, part in parts.items():
                rest = f": {formatting.remarks(rests_on[system])}" if system in rests_on else ""
                if system:
                    echo(f"{system}{rest}")
                display(part)
            frames = [frame for each in table.estimates if "gap" in (frame := self[each])]
            if frames:
                echo(formatting.lines_or_default(formatting.gaps(*frames), "no number is missing"))

    def draw(self, *names: str) -> None:
        """Shows figures in a notebook."""
        from matplotlib import pyplot

        for name in names:
            if self.figure(name) is None:
                echo(f"{name}: {self._absent(name) or 'there is nothing to draw'}")
            pyplot.show()

    def _absent(self, name: str) -> str:
        """Why a table or figure has nothing in it."""
        return self.gap or (self.question.absent[name](self) if name in self.question.absent else "")

    def check(self) -> None:
        """That each number lies in its interval or has a reason for its absence, and no more flows failed than ran."""
        for name in self.question.estimates:
            frame = self[name]
            if {"value", "low", "high"} <= {*frame}:
                known = frame.dropna(subset=["low", "high"])
                assert known["value"].between(known["low"], known["high"]).all(), name
            if {"value", "gap"} <= {*frame}:
                assert (frame["value"].isna() == (frame["gap"] != "")).all(), name
            if "failed_flows" in frame:
                assert frame["failed_flows"].le(frame["flows"]).all(), name

    @functools.cached_property
    def values(self) -> Values:
        """The keyed numbers: measures.common_values, each of the estimates below its keys, and the question's own."""
        asked = self.question
        main = [self[name] for name in asked.main or list(asked.estimates)[:1]]
        every = pd.concat([frame for frame in main if len(frame)] or main[:1], ignore_index=True)
        found = measures.common_values(asked.topic, self.found, every, *self.gaps)
        for name, each in asked.estimates.items():
            keys = asked.keys.get(name, asked.keys.get("")) if isinstance(asked.keys, Mapping) else asked.keys
            if keys:
                each.put(found, self[name], *keys)
        asked.values(self, found)
        return found

    def write(self, notebook: str) -> None:
        """Writes figures, tables and numbers, and prints their files. notebook: what the file of numbers is called."""
        written: list[Path] = []
        for name in self.question.figures:
            if figure := self.figure(name):
                written += files.save(figure, name, self.origin)
        for name, table in self.question.tables.items():
            for system, part in (self.parts(name) if table.file else {}).items():
                trimmed = table.trim(part)
                wrapped = {each: table.wrapped / len(trimmed.columns) for each in trimmed} if table.wrapped else None
                below: dict[str, Any] = {"conditions": self._conditions_below(table, system), "wrapped": wrapped}
                written.append(latex.write_table(trimmed, f"{name}-{system}".rstrip("-"), self.origin, **below))
        written.append(self.values.write(notebook, self.origin))
        echo("\n".join(map(paths.shown, written)))

    def __str__(self) -> str:
        """The answer in sentences, what it rests on, and why there is none."""
        said = [] if self.gap else [sentence for make in self.question.answer if (sentence := make(self))]
        if self.question.answer and not (said or self.gap):
            said = [self._unanswered()]
        frames = [self[name] for name in self.question.estimates]
        lines = [
            " ".join(said),
            cell_estimates.how_compared(frames),
            cell_estimates.few_repetitions(frames),
            *self.gaps,
        ]
        return formatting.lines_or_default([*lines, provenance.what_was_read(self.used)], "no runs")

    def _unanswered(self) -> str:
        """Why runs that count yield no sentence."""
        frames = [self[name] for name in self.question.estimates]
        reasons = dict.fromkeys(reason for frame in frames if "gap" in frame for reason in frame["gap"] if reason)
        return f"No answer: {'; '.join(reasons) or 'there is nothing to compare'}."


def ask(
    question: "Question | str", runs: str | Path, sweep: str = "", confidence: float = 0.95, **options: Any
) -> Answer:
    """The answer to a question, or to that one of questions(), in the runs below a folder, or of one sweep there.

    confidence: of all intervals. options: what the question's own functions read. Raises what selection.select raises.
    """
    asked = question if isinstance(question, Question) else named(question)
    several = asked.experiments if asked.beside else asked.experiment
    files.use_style()
    used, gap = selection.select(str(runs), experiment=several, sweep=sweep, which=asked.which)
    if asked.only and not gap:
        used, gap = selection.filter_runs(used, asked.only, " and ".join(map(repr, asked.experiments)))
    return Answer(asked, used, gap, provenance.origin_of(used, runs, sweep), confidence, **options)


def named(topic: str) -> Question:
    """That one of questions(). Raises UnknownName."""
    if topic not in questions():
        raise UnknownName(f"no question {topic!r}; there are: {', '.join(questions())}")
    return questions()[topic]


@functools.cache
def questions() -> dict[str, Question]:
    """All that modules in questions/ declare, by topic."""
    package = importlib.import_module("pairlab.analysis.questions")
    found: dict[str, Question] = {}
    for module in pkgutil.iter_modules(package.__path__):
        declared = vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
        found |= {each.topic: each for each in declared if isinstance(each, Question)}
    return found
