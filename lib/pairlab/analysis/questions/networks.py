"""Total throughput of every network within one host and between hosts, against the least there can be in between."""

from collections.abc import Hashable, Iterable

import pandas as pd

from pairlab.analysis import cell_estimates, selection, throughput_cells
from pairlab.analysis.figures.style import ordered
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, tabulate
from pairlab.store.dataset import Runs

#: What sets cells apart besides CELL.
PLACE = ("hosts", "placement")
BY = (*selection.CELL, *PLACE)
#: What the others are held against: within a host a veth pair and nothing else, between hosts the uplinks alone.
LIMIT_WITHIN, LIMIT_BETWEEN = "p2p", "process"
TOTAL = Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s")
CHANGE = Measure("Against the limit (%)", "change", 1, unit="%", change=True, short=True)


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


def place_text(hosts: int, placement: str) -> str:
    """Where the pairs are, in words: "one host", "2 hosts, across"."""
    return "one host" if hosts == 1 else f"{hosts} hosts, {placement}"


def places(cells: pd.DataFrame) -> list[str]:
    """The places of the cells in words, the fewest hosts first."""
    known = cells[list(PLACE)].drop_duplicates().sort_values(list(PLACE))
    return [place_text(*each) for each in known.itertuples(index=False)]


def fastest_first(drivers: Iterable[str], cells: pd.DataFrame) -> list[str]:
    """Each driver once: by its largest total, the fastest first, and those without any last."""
    largest = cells.groupby("driver")["value"].max()
    return sorted(ordered(drivers), key=lambda driver: -largest.get(driver, 0.0))


def table(cells: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Total throughput by place, pairs and network, and its change against the limit of that place."""
    names = {"system": "System", "place": "Place", "pairs": "Pairs", "driver": "Network"}
    columns: dict[Hashable, Texts] = {
        measure.title: measure.texts(_placed(frame), *names) for measure, frame in ((TOTAL, cells), (CHANGE, changes))
    }
    return tabulate(names, columns, {"place": places(cells)})


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of networks, all below `networks/`: those of measures.common_values, and

    <system>/<driver>/<hosts>/<pairs>/total, total-interval; and change, change-interval against the limit.
    """
    found = common_values("networks", runs, cells, gap)
    names = ("system", "driver", "hosts", "pairs")
    TOTAL.put(found, cells, *names)
    CHANGE.put(found, changes, *names)
    return found


def _placed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(place=[place_text(*each) for each in frame[list(PLACE)].itertuples(index=False)])
