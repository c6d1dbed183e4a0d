"""The runs of a history: read from the store, filtered, and described in one line each. No widgets here."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pairlab import store
from pairlab.base import units
from pairlab.errors import PairlabError
from pairlab.model.records import Run
from pairlab.model.summaries import main_value

#: What a history can be filtered by, apart from text.
FACETS = ("experiment", "driver", "backend", "status")
ANY = ""


class Filter(NamedTuple):
    """What a run must match; an empty field matches all. text: words that must all be in str(run) or begin its key."""

    text: str = ANY
    experiment: str = ANY
    driver: str = ANY
    backend: str = ANY
    status: str = ANY

    def accepts(self, run: Run) -> bool:
        if any(getattr(self, facet) not in (ANY, facet_of(run, facet)) for facet in FACETS):
            return False
        described = str(run).lower()
        return all(word in described or run.key.startswith(word) for word in self.text.lower().split())


def facet_of(run: Run, facet: str) -> str:
    return run.status if facet == "status" else getattr(run.spec, facet)


class RunList:
    """Runs, newest first: those given, or else the stored ones, of which each is read only once.

    root: the folder of runs, by default runs/. unreadable: after `refresh`, why some could not be read.
    """

    def __init__(self, runs: Iterable[Run] | None = None, root: Path | None = None):
        self._given = None if runs is None else tuple(runs)
        self._root = root
        self._known: dict[Path, tuple[int, Run]] = {}
        self._lines: dict[tuple[str, object], str] = {}
        self.unreadable: list[str] = []

    def refresh(self) -> list[Run]:
        """All runs, as they are now."""
        runs = self._stored() if self._given is None else self._given
        return sorted(runs, key=lambda run: run.age_key, reverse=True)

    def line(self, run: Run) -> str:
        """The run in one line, in columns: time, cell, status and result."""
        known = (run.key, run.measured_at)
        if known not in self._lines:
            self._lines[known] = _line(run)
        return self._lines[known]

    def _stored(self) -> list[Run]:
        found, self.unreadable = {}, []
        for place in store.directories(self._root):
            try:
                changed_ns = (place / "run.json").stat().st_mtime_ns
                known = self._known.get(place)
                found[place] = known if known and known[0] == changed_ns else (changed_ns, store.read(place))
            except (OSError, PairlabError) as error:
                self.unreadable.append(str(error))
        self._known = found
        return [run for _, run in found.values()]


def _line(run: Run) -> str:
    spec = run.spec
    when = f"{run.measured_at.astimezone():%Y-%m-%d %H:%M}" if run.measured_at else "?"
    lasts = units.with_prefix(spec.flow_bytes, "B") if spec.flow_bytes else f"{spec.duration_s:g} s"
    rest = ", ".join([f"#{spec.repetition}", *spec.particulars])
    return (
        f"{when} {spec.experiment:<15.15} {spec.backend:<7.7} {spec.driver:<9.9} {spec.workload:<8.8}"
        f" {spec.pairs:>4} pair{' ' if spec.pairs == 1 else 's'} {lasts:>7}  {run.status:<7} {_outcome(run):<12} {rest}"
    )


#: What a line calls the values that need a name, for short.
_SHORT = {"fct_median_s": "FCT ", "latency_p50_s": "p50 ", "launch_p50_s": "launch "}


def _outcome(run: Run) -> str:
    if run.status not in ("ok", "invalid"):
        return ""
    try:
        name, measure, value = main_value(run)
    except PairlabError:
        return "unreadable"
    return _SHORT.get(name, "") + (units.in_words(value, measure.unit) if value == value else "unknown")


def facets(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The values that these runs can be filtered by."""
    return {facet: sorted({facet_of(run, facet) for run in runs}) for facet in FACETS}
