"""What every network carries within one host and between hosts, and how long it takes to be answered over it.

Totals are held against the least that there can be in between.
"""

import math
from collections.abc import Hashable, Iterable

import pandas as pd

from pairlab.analysis import cell_estimates, selection, throughput_cells
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, tabulate
from pairlab.model.latencies import SHARES, measure
from pairlab.model.summaries import MEASURES, summaries
from pairlab.store.dataset import Runs

#: What sets cells apart besides CELL.
PLACE = ("hosts", "placement")
BY = (*selection.CELL, *PLACE)
#: What the others are held against: within a host a veth pair and nothing else, between hosts the uplinks alone.
LIMIT_WITHIN, LIMIT_BETWEEN = "p2p", "process"
TOTAL = Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s")
CHANGE = Measure("Against the limit (%)", "change", 1, unit="%", change=True, short=True)
#: Of transactions, by the column of `latency_repetitions`.
LATENCIES = {
    measure(key): Measure(
        f"Latency {key} (µs)", key, 2, 1e6, "µs", short=True, less_is_better=MEASURES[measure(key)].less_is_better
    )
    for key in SHARES
}

_NAMES = {"system": "System", "place": "Place", "pairs": "Pairs", "driver": "Network"}


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, network and place: as throughput_by_repetition, with columns hosts and placement."""
    return throughput_cells.throughput_by_repetition(flows, also=PLACE)


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean total throughput in bit/s by network and place, as cell_estimates.means."""
    return cell_estimates.means(repetitions, BY, "total_bps", confidence)


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of the total against that of the limit with as many pairs in the same place, in percent.

    The limit is LIMIT_WITHIN on one host and LIMIT_BETWEEN on several. Paired by repetition, as cell_estimates.changes.
    """
    by = [name for name in BY if name != "driver"]
    within = repetitions["hosts"] == 1
    parts = [
        cell_estimates.changes(part, by, "total_bps", setting="driver", against=limit, confidence=confidence)
        for part, limit in ((repetitions[within], LIMIT_WITHIN), (repetitions[~within], LIMIT_BETWEEN))
    ]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def latency_repetitions(runs: Runs) -> pd.DataFrame:
    """One row per run of transactions that counts: the columns of BY, repetition, and those of LATENCIES in s."""
    columns = [*BY, "repetition"]
    counted = [run for run in runs if run.status == "ok"]
    rows = [
        {name: getattr(run.spec, name) for name in columns}
        | {name: found.get(name, math.nan) for name in LATENCIES}  # a tool may count transactions only
        for run in counted
        for found in [summaries(run)]
    ]
    return pd.DataFrame(rows, columns=[*columns, *LATENCIES])


def latency_cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of LATENCIES in s by network and place, as cell_estimates.means."""
    return {name: cell_estimates.means(repetitions, BY, name, confidence) for name in LATENCIES}


def latency_table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Latencies by place, pairs and network."""
    columns: dict[Hashable, Texts] = {
        each.title: each.texts(_placed(cells[name]), *_NAMES) for name, each in LATENCIES.items()
    }
    return tabulate(_NAMES, columns, {"place": places(cells["latency_p50_s"])})


def place_text(hosts: int, placement: str) -> str:
    """Where the pairs are, in words: "one host", "2 hosts, across"."""
    return "one host" if hosts == 1 else f"{hosts} hosts, {placement}"


def places(cells: pd.DataFrame) -> list[str]:
    """The places of the cells in words, the fewest hosts first."""
    known = cells[list(PLACE)].drop_duplicates().sort_values(list(PLACE))
    return [place_text(*each) for each in known.itertuples(index=False)]


def fastest_first(drivers: Iterable[str], cells: pd.DataFrame, *, measure: Measure = TOTAL) -> list[str]:
    """Each driver once: by its largest total, or its longest latency; the fastest first, those without any last.

    measure: what the cells have, which says whether less of it is better.
    """
    largest = cells.groupby("driver")["value"].max()
    sign = 1 if measure.less_is_better else -1
    return sorted(ordered(drivers), key=lambda driver: sign * largest.get(driver, math.inf * sign))


def table(cells: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Total throughput by place, pairs and network, and its change against the limit of that place."""
    columns: dict[Hashable, Texts] = {
        measure.title: measure.texts(_placed(frame), *_NAMES) for measure, frame in ((TOTAL, cells), (CHANGE, changes))
    }
    return tabulate(_NAMES, columns, {"place": places(cells)})


def values(
    runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, of_latencies: dict[str, pd.DataFrame], *gaps: str
) -> Values:
    r"""The keyed numbers of networks, all below `networks/`: those of measures.common_values, and

    <system>/<driver>/<hosts>/<pairs>/total, total-interval; change, change-interval against the limit; the quantiles of
    latencies by the names of SHARES, each with its interval.
    """
    found = common_values("networks", runs, cells, *gaps)
    names = ("system", "driver", "hosts", "pairs")
    TOTAL.put(found, cells, *names)
    CHANGE.put(found, changes, *names)
    for name, each in LATENCIES.items():
        each.put(found, of_latencies[name], *names)
    return found


def _placed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(place=[place_text(*each) for each in frame[list(PLACE)].itertuples(index=False)])
