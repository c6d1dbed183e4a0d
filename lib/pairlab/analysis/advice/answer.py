"""All networks with their ranks, the dominated ones, the measurements that would fill empty cells, and the unused runs
with the reason.

Source: Suo et al. 2018, tables II and IV and section V, which recommend networks in words.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pairlab.analysis import repetitions
from pairlab.analysis.advice.cells import Cell, by_setting, find
from pairlab.analysis.advice.question import CRITERIA, Network, Question, filters
from pairlab.analysis.advice.ranking import UNRANKED, Differences, Rank
from pairlab.analysis.advice.usable import LeftOut, kind, left_out, unasked, why_not
from pairlab.analysis.comparison.twins import Noise
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: The repetitions to measure for an empty cell, unless others of its column have more.
REPETITIONS = 5


@dataclass(frozen=True)
class Row:
    """One network. ruled_out: why the question excludes it; dominated_by: the networks that are better for sure; rank:
    by the decisive quantity. unpaired_with: the networks that either rests on and that share no blocks with it.
    """

    network: Network
    cells: Mapping[str, Cell]
    ruled_out: str = ""
    dominated_by: tuple[str, ...] = ()
    rank: Rank = UNRANKED
    unpaired_with: tuple[str, ...] = ()

    @property
    def grey(self) -> bool:
        return bool(self.ruled_out or self.dominated_by)

    @property
    def measured(self) -> bool:
        """Whether the network has a number."""
        return any(cell.found for cell in self.cells.values())

    @property
    def remark(self) -> str:
        """Why the network is grey, or has no rank."""
        beaten = f"worse than {', '.join(self.dominated_by)}" if self.dominated_by else ""
        return self.ruled_out or beaten or (self.rank.why if self.rank.number is None else "")


@dataclass(frozen=True)
class Missing:
    """Empty cells that one grid of a sweep would fill: drivers, and values of the spec.

    of: as Criterion.of. experiment: that of other networks' runs, or the default.
    """

    of: str
    experiment: str
    backend: str
    drivers: tuple[str, ...]
    parameters: Mapping[str, Any]
    repetitions: int


@dataclass(frozen=True)
class Advice:
    """The answer: a row for each network by backend, the best by the decisive quantity first, those ruled out last.

    left_out: the runs behind no number, by reason.
    """

    question: Question
    rows: tuple[Row, ...]
    runs: Runs = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(default=(), repr=False)

    @property
    def backends(self) -> dict[str, list[Row]]:
        return _by_backend((row.network.backend, row) for row in self.rows)

    @property
    def missing(self) -> list[Missing]:
        """The measurements for empty cells of networks that are not ruled out, like those of others in the column."""
        drivers: dict[tuple, set[str]] = {}
        for backend, rows in self.backends.items():
            for name in CRITERIA:
                if lacking := {row.network.name for row in rows if not (row.ruled_out or row.cells[name].found)}:
                    at = CRITERIA[name].of, backend, *self._as_others(rows, name)
                    drivers.setdefault(at, set()).update(lacking)
        return [
            Missing(of, experiment, backend, tuple(sorted(names)), dict(parameters), repetitions)
            for (of, backend, experiment, parameters, repetitions), names in drivers.items()
        ]

    def _as_others(self, rows: list[Row], quantity: str) -> tuple[str, tuple[tuple[str, Any], ...], int]:
        """Experiment, spec and repetitions of other networks' exact cells with that quantity; else plain ones."""
        question, of = self.question, CRITERIA[quantity].of
        names = [quantity, *(name for name, each in CRITERIA.items() if each.of == of)]  # the same runs have both
        exact = [row.cells[name] for name in names for row in rows if row.cells[name].exact]
        settings = [(cell.setting, len(cell.runs)) for cell in exact if cell.setting]
        if not settings:
            place = {"pairs": question.pairs_of(quantity), "hosts": question.hosts, "placement": question.placement}
            filtered = {name: values[0] for name, values in question.where.items() if name in Spec.model_fields}
            experiment = filtered.pop("experiment", CRITERIA[quantity].experiment)
            free = ("driver", "repetition")
            place |= {"workload": "rr"} if of == "requests" else {}
            place |= {name: value for name, value in filtered.items() if name not in free}
            return experiment, tuple(place.items()), REPETITIONS
        setting = settings[0][0]
        parameters = tuple((name, value) for name, value in setting.asked if name not in ("experiment", "backend"))
        return setting.values["experiment"], parameters, max(REPETITIONS, *(runs for _, runs in settings))

    @property
    def used(self) -> int:
        """The number of runs behind the numbers."""
        return len(self.runs) - sum(len(each.runs) for each in self.left_out)

    @property
    def _cells(self) -> list[Cell]:
        """The cells of networks that are not ruled out."""
        return [cell for row in self.rows if not row.ruled_out for cell in row.cells.values()]

    @property
    def empty(self) -> int:
        """The number of empty cells of networks that are not ruled out."""
        return sum(not cell.found for cell in self._cells)

    @property
    def substitutes(self) -> int:
        """The number of cells that stand in, as they were not measured as asked."""
        return sum(bool(cell.found and not cell.exact) for cell in self._cells)

    def leaders(self, backend: str) -> list[Row]:
        """The networks with the first rank by the decisive quantity, or the one with the best value if there are no
        ranks. Empty if no network that is not ruled out has a value.
        """
        name = self.question.decisive
        valued = [row for row in self.backends[backend] if not row.ruled_out and row.cells[name].found]
        return [row for row in valued if row.rank.number == 1] or valued[:1]


def _by_backend(each: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for backend, one in each:
        grouped.setdefault(backend, []).append(one)
    return grouped


def advise(runs: Runs, question: Question, networks: Iterable[Network]) -> Advice:
    """The cells of each network from runs that count, the ranks by the decisive quantity, and the dominated networks.

    A network is dominated if another of its backend, not ruled out either, is better for sure in all quantities that
    matter (Question.that_matter) and that any network has: ranking.py. Raises UnknownName for a filter that runs do not
    have, AnalysisError if runs of one setting do not belong together.
    """
    by_backend = _by_backend((each.backend, each) for each in networks)
    names = {(each.backend, each.name) for members in by_backend.values() for each in members}
    fitting = _fitting(runs, question)
    fitting_ids = {id(run) for run in fitting}
    unfit = f"do not have {' '.join(filters(question.where))}{'' if len(fitting) else _there_are(runs, question)}"
    reasons = [(run, why_not(run, question, names) if id(run) in fitting_ids else unfit) for run in runs]
    measured = by_setting(run for run, why in reasons if not why)
    noise = Noise(fitting.where(lambda run: not unasked(run.spec, question)))  # other load has other noise
    rows: list[Row] = []
    for backend, members in by_backend.items():
        by_name = {name: find(measured, backend, name, question) for name in CRITERIA}
        unjudged = [
            Row(each, {name: by_name[name].get(each.name, Cell(name)) for name in by_name}, each.why_not(question))
            for each in members
        ]
        rows += sorted(_judged(unjudged, question, noise), key=lambda row: _order(row, question))
    cells = [cell for row in rows for cell in row.cells.values()]
    used = {id(run) for cell in cells if cell.found for run in cell.runs}
    gaps = {id(run) for cell in cells if not cell.found for run in cell.runs}
    unused = [
        (run, why or ("have a cell without a number" if id(run) in gaps else _not_needed(run, question)))
        for run, why in reasons
        if id(run) not in used
    ]
    return Advice(question, tuple(rows), runs, tuple(left_out(unused, question)))


def _fitting(runs: Runs, question: Question) -> Runs:
    """The runs with the values of the filters; for the congestion control, the one in force counts."""
    where = dict(question.where)
    controls = where.pop("congestion_control", ())

    def accepts(run: Run) -> bool:
        return run.congestion_control in controls or ("" in controls and not run.spec.congestion_control)

    return runs.where(accepts if controls else None, **where)


def _there_are(runs: Runs, question: Question) -> str:
    """The runs' values of the question's filters, as a clause."""
    by_name = {
        name: sorted(map(str, {run.congestion_control for run in runs} if name == "congestion_control" else {*column}))
        for name, column in ((name, runs.index[name]) for name in question.where)
    }
    texts = {name: ", ".join(value or "none" for value in values) for name, values in by_name.items() if values}
    return "".join(f"; of {name} there are {values}" for name, values in texts.items())


def _not_needed(run: Run, question: Question) -> str:
    """Why a run that could answer is behind no number, as a clause."""
    columns = [each.column for each in CRITERIA.values() if each.of == kind(run)]
    if all(math.isnan(repetitions.values(run, [column])[column]) for column in columns):
        return "have none of these quantities"
    if question.exactly:
        return "were not measured as asked, or in fewer networks than others that were"
    return "are farther from what is asked than others of their network, or in fewer networks"


def _judged(rows: list[Row], question: Question, noise: Noise) -> Iterator[Row]:
    """The rows, with their ranks and the networks that dominate them."""
    candidates = [row for row in rows if not row.ruled_out]
    differences: dict[str, Differences] = {}
    by_cell: dict[int, Rank] = {}
    first: Cell | None = None
    for name in question.that_matter:
        valued = [row.cells[name] for row in candidates if row.cells[name].found]
        if valued:
            best, rivals = _best(valued)
            differences[name] = Differences(name, rivals, question.margin_percent, noise)
            if name == question.decisive:
                first = best
                by_cell = dict(zip(map(id, valued), differences[name].ranks(valued, best), strict=True))
    for row in rows:
        better = [
            other.network.name
            for other in (candidates if differences and not row.ruled_out else [])
            if all(each.worse(row.cells[name], other.cells[name]) for name, each in differences.items())
        ]
        rank = by_cell.get(id(row.cells[question.decisive]), UNRANKED)
        rests_on = [
            other
            for other in candidates
            if other.network.name in better or (rank.number and other.cells[question.decisive] is first)
        ]
        without_blocks = tuple(
            other.network.name
            for other in rests_on
            if any(each.unpaired(other.cells[name], row.cells[name]) for name, each in differences.items())
        )
        yield replace(row, dominated_by=tuple(better), rank=rank, unpaired_with=without_blocks)


def _best(cells: Sequence[Cell]) -> tuple[Cell, int]:
    """The best of the cells with a value, and the number of its rivals: in the most common setting, among the exact
    cells if there are any.
    """
    exact = [cell for cell in cells if cell.exact] or cells
    ((most, count),) = Counter(cell.setting for cell in exact).most_common(1)
    return min((cell for cell in exact if cell.setting == most), key=_goodness), count - 1


def _goodness(cell: Cell) -> float:
    """The sort key of a cell: less is better."""
    sign = 1 if CRITERIA[cell.quantity].less_is_better else -1
    return sign * cell.found.value if cell.found else 0.0


def _order(row: Row, question: Question) -> tuple:
    """The sort key of a row: ranked rows first, then the others with a value, best first."""
    cell, rank = row.cells[question.decisive], row.rank.number
    return bool(row.ruled_out), not cell.found, rank or math.inf, not cell.exact, _goodness(cell), row.network.name
