"""All networks side by side, those that another beats for sure, and what to measure where a cell is empty.

Source: paper S, tables II and IV and section V, which say in words which network to take for what.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pairlab.analysis.advice import cells as cells_of
from pairlab.analysis.advice.cells import Cell
from pairlab.analysis.advice.question import QUANTITIES, Network, Question
from pairlab.store.dataset import Runs

#: How often an empty cell is to be measured, unless the others of its column were more often.
REPETITIONS = 5


@dataclass(frozen=True)
class Row:
    """One network. ruled_out: why the question excludes it; dominated_by: the networks that beat it for sure."""

    network: Network
    cells: Mapping[str, Cell]
    ruled_out: str = ""
    dominated_by: tuple[str, ...] = ()

    @property
    def grey(self) -> bool:
        return bool(self.ruled_out or self.dominated_by)

    @property
    def measured(self) -> bool:
        """Whether it has a number."""
        return any(cell.found for cell in self.cells.values())

    @property
    def remark(self) -> str:
        """Why it is grey."""
        return self.ruled_out or (f"worse than {', '.join(self.dominated_by)}" if self.dominated_by else "")


@dataclass(frozen=True)
class Missing:
    """Empty cells that one grid of a sweep fills: of these networks, with these values of the spec."""

    experiment: str
    backend: str
    drivers: tuple[str, ...]
    parameters: Mapping[str, Any]
    repetitions: int


@dataclass(frozen=True)
class Advice:
    """The answer: a row for each network by backend, the best by what is first on top, those ruled out last."""

    question: Question
    rows: tuple[Row, ...]
    runs: Runs = field(repr=False)

    @property
    def backends(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.network.backend, []).append(row)
        return found

    @property
    def missing(self) -> list[Missing]:
        """What to measure for the empty cells of networks that are not ruled out, as others of their column were."""
        drivers: dict[tuple, dict[str, None]] = {}
        for backend, rows in self.backends.items():
            for name in QUANTITIES:
                lacking = [row.network.name for row in rows if not (row.ruled_out or row.cells[name].found)]
                if lacking:
                    drivers.setdefault((backend, *self._as_others(backend, name)), {}).update(dict.fromkeys(lacking))
        return [
            Missing(experiment, backend, tuple(sorted(names)), dict(parameters), repetitions)
            for (backend, experiment, parameters, repetitions), names in drivers.items()
        ]

    def _as_others(self, backend: str, quantity: str) -> tuple[str, tuple[tuple[str, Any], ...], int]:
        """Experiment, spec and repetitions by which other networks have that quantity as asked; else plain ones."""
        question, of = self.question, QUANTITIES[quantity].of
        names = [quantity, *(name for name, each in QUANTITIES.items() if each.of == of)]  # the same runs have both
        exact = [row.cells[name] for name in names for row in self.backends[backend] if row.cells[name].exact]
        known = [cell for cell in exact if cell.setting]
        if not known or known[0].setting is None:
            place = {"pairs": question.pairs_of(quantity), "hosts": question.hosts, "placement": question.placement}
            return QUANTITIES[quantity].experiment, tuple(place.items()), REPETITIONS
        asked = known[0].setting.asked
        repetitions = max(REPETITIONS, *(len(cell.runs) for cell in known))
        kept = tuple((name, value) for name, value in asked if name not in ("experiment", "backend"))
        return known[0].setting.values["experiment"], kept, repetitions

    @property
    def empty(self) -> int:
        """How many cells of networks that are not ruled out have no number."""
        return sum(not cell.found for row in self.rows if not row.ruled_out for cell in row.cells.values())

    @property
    def substitutes(self) -> int:
        """How many cells were not measured as asked, and stand in."""
        return sum(
            bool(cell.found and not cell.exact) for row in self.rows if not row.ruled_out for cell in row.cells.values()
        )

    def best(self, backend: str) -> tuple[Row | None, list[Row]]:
        """The network that has the best value of what is first, and those that are not worse than it for sure.

        None where no network that is not ruled out has a value of it.
        """
        name = self.question.decisive
        known = [row for row in self.backends[backend] if not row.ruled_out and row.cells[name].found]
        if not known:
            return None, []
        first, *others = known
        return first, [row for row in others if not row.cells[name].worse_than(first.cells[name])]


def advise(runs: Runs, question: Question, networks: Iterable[Network]) -> Advice:
    """The cells of each network from runs that count, and which networks are dominated.

    A network is dominated where another of its backend, that is not ruled out either, is better for sure in all that
    matters (Question.that_matter), as far as any network has it. Raises AnalysisError as cells.find.
    """
    measured = cells_of.by_setting(runs)
    rows: list[Row] = []
    by_backend: dict[str, list[Network]] = {}
    for each in networks:
        by_backend.setdefault(each.backend, []).append(each)
    for backend, known in by_backend.items():
        found = {name: cells_of.find(measured, backend, name, question) for name in QUANTITIES}
        unjudged = [
            Row(each, {name: found[name].get(each.name, Cell(name)) for name in found}, each.why_not(question))
            for each in known
        ]
        rows += sorted(_judged(unjudged, question), key=lambda row: _rank(row, question))
    return Advice(question, tuple(rows), runs)


def _judged(rows: list[Row], question: Question) -> Iterator[Row]:
    open_to = [row for row in rows if not row.ruled_out]
    names = [name for name in question.that_matter if any(row.cells[name].found for row in open_to)]
    for row in rows:
        better = [
            other.network.name
            for other in (open_to if names and not row.ruled_out else [])
            if all(row.cells[name].worse_than(other.cells[name]) for name in names)
        ]
        yield Row(row.network, row.cells, row.ruled_out, tuple(better))


def _rank(row: Row, question: Question) -> tuple:
    name = question.decisive
    cell = row.cells[name]
    sign = 1 if QUANTITIES[name].less_is_better else -1
    value = sign * cell.found.value if cell.found else 0.0
    return bool(row.ruled_out), not cell.found, not cell.exact, value, row.network.name
