"""Completion times by the spacing of the clients' starts: does starting one after the other explain the papers' tails?

Papers C and E started their clients in a loop of `docker exec -d`; their p99 grows far less with the number of pairs
than where all start together. The logarithm of that growth is what is split here: the part that goes when clients start
a spacing apart, and the rest.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from pairlab.analysis import by_group
from pairlab.analysis.cell_estimates import COLUMNS
from pairlab.analysis.output.formatting import MISSING, percentile_name, with_bounds
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, key_of, tabulate, texts
from pairlab.analysis.questions.fct import CHANGED_QS, PUBLISHED_STEP, change, stated_changes
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.model import fct
from pairlab.statistics import parts, quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import REAL, Student
from pairlab.store.dataset import Runs

#: The spacing of a loop of `docker exec -d`, as the papers had it; by our measurement (starting-together.md).
PAPERS_S = 0.057
#: The percentile whose growth paper C states.
Q = 0.99
BY = (*CELL, "start_spacing_s")
LINE = (*SYSTEM, "driver", "start_spacing_s")
TIME = Measure("Flow completion time (ms)", "", 1, 1e3, "ms", short=True)
CHANGE = Measure("Change (%)", "", 1, unit="%", change=True, short=True)
EXPLAINED = Measure("Explained (%)", "explained", 0, 100, "%")


def percentiles(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Median and p99 of the completion time from each client's own start, in s, by CELL and spacing: fct's form."""
    found = by_group.of(flows, BY, "fct_s").percentiles(CHANGED_QS, confidence=confidence)
    return found.rename(columns={"repetitions": "n"}).assign(confidence=confidence)


def changes(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """By how much median and p99 change over PUBLISHED_STEP of pairs, in percent, at each spacing.

    Returns SYSTEM, driver, start_spacing_s, q and COLUMNS, of lines that have both pair counts.
    """
    rows = []
    for names, line in flows.groupby(list(LINE), sort=True):
        few, many = (line[line["pairs"] == pairs] for pairs in PUBLISHED_STEP)
        if len(few) and len(many):
            rows += [[*names, q, *change(few, many, q, confidence=confidence).values()] for q in CHANGED_QS]
    return pd.DataFrame(rows, columns=[*LINE, "q", *COLUMNS])


def explained(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """What part of the difference between our growth of the p99 and the papers' goes with the spacing of the starts.

    With r the p99 at 50 pairs over that at 10: (log r together − log r apart) / (log r together − log r of paper C),
    which is 1 where clients that start apart have the growth that the paper states, and 0 where theirs is that of
    clients that start together. Paper C states no interval, so its growth is taken as it is. Returns LINE, without the
    spacing 0, and COLUMNS; drivers of which the paper states no growth are left out. There is a gap where our growth
    does not differ from the paper's: then there is nothing to explain. Interval: statistics.parts.
    """
    rows = []
    stated = stated_changes()
    for names, line in flows.groupby([*SYSTEM, "driver"], sort=True):
        for spacing_s in sorted(set(line["start_spacing_s"]) - {0.0}) if names[-1] in stated else ():
            row = _part(line, spacing_s, np.log1p(stated[names[-1]] / 100), confidence)
            rows.append([*names, spacing_s, *row[:-1], confidence, row[-1]])
    return pd.DataFrame(rows, columns=[*LINE, *COLUMNS])


def percentile_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Median and p99 in ms with intervals, by driver, pairs and spacing, and how many flows failed."""
    names = {"system": "System", "driver": "Driver", "pairs": "Pairs", "spacing": "Spacing"}
    named = _named(cells)
    columns: dict[Hashable, Texts] = {
        f"{percentile_name(q)} (ms)": TIME.texts(part, *names) for q, part in named.groupby("q", sort=True)
    }
    columns["Failed"] = texts(named, tuple(names), lambda cell: f"{cell.failed_flows} of {cell.flows}")
    return tabulate(names, columns, _order(cells))


def change_table(changes: pd.DataFrame, explained: pd.DataFrame) -> pd.DataFrame:
    """The change from 10 to 50 pairs at each spacing, what paper C states, and what part the spacing explains."""
    names = {"system": "System", "driver": "Driver", "spacing": "Spacing"}
    named, stated = _named(changes), stated_changes()
    columns: dict[Hashable, Texts] = {
        f"{percentile_name(q)}, 10 to 50 pairs (%)": CHANGE.texts(part, *names) for q, part in named.groupby("q")
    }
    columns["Paper C, p99 (%)"] = texts(
        named, tuple(names), lambda row: f"{stated[row.driver]:+.1f}" if row.driver in stated else MISSING
    )
    columns[EXPLAINED.title] = EXPLAINED.texts(_named(explained), *names)
    return tabulate(names, columns, _order(changes))


def told(explained: pd.DataFrame) -> list[str]:
    """Each line of `explained` as a sentence, with its interval or the reason why there is no number."""
    found = []
    for row in _named(explained).itertuples():
        share = with_bounds(100 * row.value, 100 * row.low, 100 * row.high, 0)
        says = f"starts {row.spacing} apart explain {share} % of the difference to paper C" if not row.gap else row.gap
        found.append(f"{row.backend}-{row.workload}, {row.driver}, {row.spacing}: {says}")
    return found


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, explained: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of the spacing, all below `starting/`: those of measures.common_values, and

    - <system>/spacings: those measured, as text; <spacing> in keys is such as 57-ms;
    - <system>/<driver>/<pairs>/<spacing>/p50, p99, with -interval (ms);
    - <system>/<driver>/<spacing>/p50-change, p99-change: from 10 to 50 pairs, with -interval (percent);
    - <system>/<driver>/<spacing>/explained, with -interval (percent), else explained-missing: why there is none;
    - papers/spacing; c/<driver>/p99-change: as paper C states it.
    """
    found = common_values("starting", runs, cells[cells["q"] == Q], gap)
    for names, part in cells.groupby(list(SYSTEM), sort=True):
        found.text(f"{'-'.join(names)}/spacings", ", ".join(_order(part)["spacing"]))
    for q, part in _named(cells).groupby("q"):
        TIME.put(found, part, "system", "driver", "pairs", "spacing", key=percentile_name(q))
    names = ("system", "driver", "spacing")
    for q, part in _named(changes).groupby("q"):
        CHANGE.put(found, part, *names, key=f"{percentile_name(q)}-change")
    EXPLAINED.put(found, _named(explained), *names)
    for row in _named(explained).itertuples():
        if row.gap:
            found.text(f"{key_of(row, *names)}/explained-missing", row.gap)
    found.text("papers/spacing", spacing_text(PAPERS_S))
    for driver, percent in stated_changes().items():
        found.text(f"c/{driver}/p99-change", f"{percent:+.1f} %")
    return found


def spacing_text(spacing_s: float) -> str:
    """A spacing as tables name it: in ms."""
    return f"{1e3 * spacing_s:g} ms"


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `spacing`, the text of its start_spacing_s."""
    return frame.assign(spacing=frame["start_spacing_s"].map(spacing_text).astype(object))


def _order(frame: pd.DataFrame) -> dict[str, list[str]]:
    return {"spacing": [spacing_text(each) for each in _spacings(frame)]}


def _spacings(frame: pd.DataFrame) -> Iterable[float]:
    return sorted(frame["start_spacing_s"].unique())


def _part(line: pd.DataFrame, spacing_s: float, stated: float, confidence: float) -> list:
    """Value, low, high and n of one line of `explained`, and its gap. stated: the logarithm of the papers' growth."""
    few, many = PUBLISHED_STEP
    try:
        sides = {
            (spacing, pairs): _clusters(line, spacing, pairs) for spacing in (0.0, spacing_s) for pairs in (few, many)
        }
        together = _growth([(-1.0, sides[0.0, few]), (1.0, sides[0.0, many])])
        apart = _growth([(-1.0, sides[spacing_s, few]), (1.0, sides[spacing_s, many])])
        gone = _growth(
            [
                (-1.0, sides[0.0, few]),
                (1.0, sides[0.0, many]),
                (1.0, sides[spacing_s, few]),
                (-1.0, sides[spacing_s, many]),
            ]
        )
    except (TooFewSamples, AnalysisError) as error:
        return [np.nan, np.nan, np.nan, 0, str(error)]
    whole, rest = (replace(growth, centre=growth.centre - stated) for growth in (together, apart))
    found = parts.part(gone, whole, rest, confidence)
    same = "the change where all start together does not differ from the paper's: there is nothing to explain"
    return [*found, "" if found.value == found.value else same]


def _clusters(line: pd.DataFrame, spacing_s: float, pairs: int) -> Clusters:
    cell = line[(line["start_spacing_s"] == spacing_s) & (line["pairs"] == pairs)]
    if cell.empty:
        raise TooFewSamples(f"there are no runs of {pairs} pairs with starts {spacing_text(spacing_s)} apart")
    return Clusters.of(fct.of(cell), cell["repetition"])


def _growth(sides: list[tuple[float, Clusters]]) -> Student:
    """A sum of logarithms of the p99, on that scale."""
    return replace(quantiles.contrast(sides, Q), scale=REAL)
