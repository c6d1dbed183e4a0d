"""The stored runs, as a history shows them: found again quickly, filtered, and told in a line each. No widgets here."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pairlab import completion_times, quantities, store
from pairlab.errors import PairlabError
from pairlab.records import Run

#: By what a history is filtered, beside a text.
FACETS = ("experiment", "driver", "backend", "status")
ANY = ""


class Filter(NamedTuple):
    """What a run must have; empty: anything. text: words that must all be in what it tells of itself, or its key."""

    text: str = ANY
    experiment: str = ANY
    driver: str = ANY
    backend: str = ANY
    status: str = ANY

    def accepts(self, run: Run) -> bool:
        asked = all(getattr(self, facet) in (ANY, facet_of(run, facet)) for facet in FACETS)
        told = str(run).lower()
        return asked and all(word in told or run.key.startswith(word) for word in self.text.lower().split())


def facet_of(run: Run, facet: str) -> str:
    return run.status if facet == "status" else getattr(run.spec, facet)


class Shelf:
    """Runs by time, the newest first: those given, or else the stored ones, of which each is read once.

    root: where runs are kept, by default runs/. unread: why others could not be read, after `look`.
    """

    def __init__(self, runs: Iterable[Run] | None = None, root: Path | None = None):
        self._given = None if runs is None else tuple(runs)
        self._root = root
        self._known: dict[Path, tuple[int, Run]] = {}
        self._lines: dict[tuple[str, object], str] = {}
        self.unread: list[str] = []

    def look(self) -> list[Run]:
        """All runs there are now."""
        runs = self._stored() if self._given is None else self._given
        return sorted(runs, key=lambda run: str(run.measured_at or ""), reverse=True)

    def line(self, run: Run) -> str:
        """The run in a line, in columns: when, what, on what, how it ended and what came of it."""
        known = (run.key, run.measured_at)
        if known not in self._lines:
            self._lines[known] = _line(run)
        return self._lines[known]

    def _stored(self) -> list[Run]:
        found, self.unread = {}, []
        for place in store.directories(self._root):
            try:
                changed_ns = (place / "run.json").stat().st_mtime_ns
                known = self._known.get(place)
                found[place] = known if known and known[0] == changed_ns else (changed_ns, store.read(place))
            except (OSError, PairlabError) as error:
                self.unread.append(str(error))
        self._known = found
        return [run for _, run in found.values()]


def _line(run: Run) -> str:
    spec = run.spec
    when = f"{run.measured_at.astimezone():%Y-%m-%d %H:%M}" if run.measured_at else "?"
    lasts = quantities.told(spec.flow_bytes, "B") if spec.flow_bytes else f"{spec.duration_s:g} s"
    said = ", ".join([f"#{spec.repetition}", *spec.particulars]) if spec.particulars else f"#{spec.repetition}"
    return (
        f"{when} {spec.experiment:<15.15} {spec.backend:<7.7} {spec.driver:<9.9} {spec.workload:<8.8}"
        f" {spec.pairs:>4} pair{' ' if spec.pairs == 1 else 's'} {lasts:>7}  {run.status:<7} {_outcome(run):<12} {said}"
    )


def _outcome(run: Run) -> str:
    if run.status not in ("ok", "invalid"):
        return ""
    try:
        flows = store.columns(run, "flows", ["fct_s", "status", "throughput_bps"]).to_pandas()
    except PairlabError:
        return "not readable"
    if run.spec.flow_bytes:
        median_s = completion_times.median(completion_times.of(flows))
        return f"FCT {quantities.told(median_s, 's')}" if median_s == median_s else "FCT unknown"
    return f"{quantities.told(flows['throughput_bps'].sum(), 'bit/s')}"


def facets(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The values that there are to filter by."""
    return {facet: sorted({facet_of(run, facet) for run in runs}) for facet in FACETS}
