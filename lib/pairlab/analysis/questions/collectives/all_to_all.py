"""How long all containers take to exchange messages with all, by their number and their places (S7; S, figure 9)."""

from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import cell_estimates, selection
from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, tabulate
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: Where the containers are, by the panel of figure 9: all on one host, one against the others, and in halves.
WITHIN, APART, HALVES = "one host", "two hosts, 1 : n-1", "two hosts, halves"
PLACES = (WITHIN, APART, HALVES)
#: What paper S compares: processes and containers, whose networks on one host and between hosts differ.
WITHOUT, WITH = "without containers", "with containers"
_KINDS = {
    WITHIN: {"process": WITHOUT, "bridge": WITH},
    **{each: {"host": WITHOUT, "process": WITHOUT, "overlay": WITH} for each in (APART, HALVES)},
}
#: What one estimate is made for.
BY = (*selection.CELL, "place", "containers", "message_bytes")
_OF_KIND = (*selection.SYSTEM, "kind", "containers", "message_bytes")

LATENCY = Measure("Mean round (µs)", "latency", 1, 1e6, "µs", short=True, less_is_better=True)
FACTOR = Measure("Times one host", "times", 2, short=True)
GAP = Measure("Against without containers (%)", "against-without", 1, unit="%", change=True, short=True)


def place(spec: Spec) -> str:
    """Which of PLACES a run's containers are in; empty: another one."""
    if spec.hosts == 1:
        return WITHIN
    if spec.hosts == 2:
        return {"packed-but-one": APART, "across": HALVES, "spread": HALVES}.get(spec.placement, "")
    return ""


def containers(spec: Spec) -> int:
    """How many containers exchange messages."""
    return spec.ranks or 2 * spec.pairs


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: BY, kind (WITHOUT, WITH, or neither), repetition, and latency_s.

    latency_s is the mean over ranks of their mean round, in s, as osu_alltoall prints it: since all ranks make equally
    many rounds, the mean of all. Raises AnalysisError where two runs claim one repetition of a cell.
    """
    rows = [_row(run) for run in runs if run.status == "ok" and place(run.spec)]
    found = pd.DataFrame(rows, columns=[*BY, "kind", "key", "repetition", "latency_s"])
    selection.check_distinct(found, BY)
    return found.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def _row(run: Run) -> dict[str, Any]:
    spec = run.spec
    where = place(spec)
    return {
        **{name: getattr(spec, name) for name in (*selection.CELL, "repetition")},
        "place": where,
        "containers": containers(spec),
        "message_bytes": spec.message_bytes or 1024,
        "kind": _KINDS[where].get(spec.driver, ""),
        "key": run.key,
        "latency_s": latencies.mean_of_flows(run.transactions, run.flows),
    }


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean latency by driver, place and number of containers, as cell_estimates.means."""
    return cell_estimates.means(repetitions, BY, "latency_s", confidence)


def factors(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How many times as long a round takes on two hosts as on one, of as many containers (or processes).

    Paired by repetition, as cell_estimates.changes, whose percents are told as multiples here.
    """
    mine = _compared(repetitions)
    found = cell_estimates.changes(mine, _OF_KIND, "latency_s", setting="place", against=WITHIN, confidence=confidence)
    bounds = ["value", "low", "high"]
    return found.assign(**{name: 1 + found[name].astype(float) / 100 for name in bounds})


def gaps(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How much longer, in percent, a round takes with containers than without, in the same place and number."""
    by = [*selection.SYSTEM, "place", "containers", "message_bytes"]
    mine = _compared(repetitions)
    return cell_estimates.changes(mine, by, "latency_s", setting="kind", against=WITHOUT, confidence=confidence)


def _compared(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Those that paper S compares. Where both `host` and `process` stand for no container in a place, `host` does."""
    mine = repetitions[repetitions["kind"] != ""]
    keys = [*_OF_KIND, "place", "repetition"]
    return mine.sort_values("driver").drop_duplicates(keys, keep="first")


def table(cells: pd.DataFrame) -> pd.DataFrame:
    """The mean round by driver, place and number of containers."""
    names = {
        "system": "System",
        "place": "Place",
        "driver": "Driver",
        "containers": "Containers",
        "message_bytes": "Message (B)",
    }
    columns: dict[Hashable, Texts] = {LATENCY.title: LATENCY.texts(cells, *names)}
    return tabulate(names, columns, {"place": list(PLACES)})


def factor_table(factors: pd.DataFrame) -> pd.DataFrame:
    """How many times as long a round takes on two hosts."""
    names = {
        "system": "System",
        "kind": "Ranks",
        "place": "Place",
        "containers": "Containers",
        "message_bytes": "Message (B)",
    }
    columns: dict[Hashable, Texts] = {FACTOR.title: FACTOR.texts(factors, *names)}
    return tabulate(names, columns, {"place": list(PLACES), "kind": [WITHOUT, WITH]})


def figure(cells: pd.DataFrame, conditions: str = "") -> Figure:
    """The mean round by number of containers, a panel for each place: paper S, figure 9."""
    known = cells[cells["value"].notna()]
    return _by_containers(known, LATENCY, estimates.note_of(known), conditions)


def factor_figure(factors: pd.DataFrame, conditions: str = "") -> Figure:
    """How many times as long a round takes on two hosts as on one, by number of containers."""
    known = factors[factors["value"].notna()].assign(driver=factors["kind"])
    return _by_containers(known, FACTOR, estimates.note_of(known, "ratio, paired by repetition,"), conditions, level=1)


def _by_containers(cells: pd.DataFrame, measure: Measure, note: str, conditions: str, **options: Any) -> Figure:
    draw = partial(estimates.by_number, measure=measure, number="containers", name="Containers", **options)
    shown = cells.assign(message=cells["message_bytes"].map("{:,} B".format))
    places = [each for each in PLACES if (cells["place"] == each).any()]
    rows: dict[str, Any] = {"rows": [*selection.SYSTEM, "message"], "title": "{row}:\n{each}"}
    return grid.facets(shown, draw, column="place", order=places, note=note, conditions=conditions, **rows)


def values(topic: str, runs: Runs, cells: pd.DataFrame, factors: pd.DataFrame, gaps: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers, all below `topic`: those of measures.common_values, and

    <system>/<driver>/<place>/<containers>/<message>/latency in µs; <system>/<kind>/<place>/…/times, how many times as
    long as on one host; <system>/<place>/…/against-without, with containers against without, in percent. Each has its
    interval.
    """
    found = common_values(topic, runs, cells, gap)
    LATENCY.put(found, cells, "system", "driver", "place", "containers", "message_bytes")
    FACTOR.put(found, factors, "system", "kind", "place", "containers", "message_bytes")
    GAP.put(found, gaps, "system", "place", "containers", "message_bytes")
    return found
