"""Total throughput by pinning policy, and its change against no pinning (E7)."""

from collections.abc import Iterable, Sequence

import pandas as pd

from pairlab.analysis import cell_estimates, published, selection, throughput_cells
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, common_values, p_values, put_p, tabulate, texts
from pairlab.analysis.questions import fairness
from pairlab.store.dataset import Runs

#: What every other policy is compared with.
NONE = "none"
BY = (*selection.CELL, "pinning")
TOTAL = Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s")
CHANGE = Measure("Change (%)", "change", 1, unit="%", change=True, short=True)


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, policy and driver: as throughput_by_repetition, with a column pinning."""
    return throughput_cells.throughput_by_repetition(flows, also=["pinning"])


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean total throughput in bit/s by policy and driver, as cell_estimates.means."""
    return cell_estimates.means(repetitions, BY, "total_bps", confidence)


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of the total against no pinning, in percent, paired by repetition, as cell_estimates.changes.

    Source: paper C, section III-B (+21.2 % and -13.2 %), which states neither interval nor test.
    """
    return cell_estimates.changes(
        repetitions, selection.CELL, "total_bps", setting="pinning", against=NONE, confidence=confidence
    )


def order(policies: Iterable[str]) -> list[str]:
    """Each policy once: no pinning first, the others by name."""
    return sorted(set(policies), key=lambda policy: (policy != NONE, policy))


def axis(policies: Sequence[str]) -> dict[str, object]:
    """The policies as estimates.by_category takes its categories: each named in two lines where it has two words."""
    ticks = ["no\npinning" if policy == NONE else policy.replace("-", "\n", 1) for policy in policies]
    return {"category": "pinning", "order": policies, "ticks": ticks, "name": "Pinning"}


def policies_differ(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the policies of each driver differ at all: as fairness.differ, for each CELL."""
    return fairness.differ(repetitions, selection.CELL, "total_bps", "pinning")


def table(cells: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Total, change against no pinning, its p-value after Holm, and the published change."""
    names = {"system": "System", "driver": "Driver", "pairs": "Pairs", "pinning": "Pinning"}
    stated = {(row.driver, row.policy): f"{row.change_percent:+.1f}" for row in published.load("pinning").itertuples()}
    columns = {
        TOTAL.title: TOTAL.texts(cells, *names),
        CHANGE.title: CHANGE.texts(changes, *names),
        "p (Holm)": p_values(changes, *names),
        "Paper C (%)": texts(cells, tuple(names), lambda cell: stated.get((cell.driver, cell.pinning), MISSING)),
    }
    return tabulate(names, columns, {"pinning": order(cells["pinning"])})


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E7, all below `pinning/`: those of measures.common_values, and

    - <system>/<driver>/<policy>/total, total-interval; and change, change-interval, p (Holm) against no pinning.
      Where the system has several pair counts the policy is followed by /<pairs>;
    - c/<driver>/<policy>/change: as paper C states it.
    """
    found = common_values("pinning", runs, cells, gap)
    counts = cells.groupby(list(selection.SYSTEM))["pairs"].nunique()
    for system, count in counts.items():
        names = ("system", "driver", "pinning", *["pairs"] * (count > 1))
        mine, changed = (
            frame[(frame[list(selection.SYSTEM)] == list(system)).all(axis=1)] for frame in (cells, changes)
        )
        TOTAL.put(found, mine, *names)
        CHANGE.put(found, changed, *names)
        put_p(found, changed, *names, key="p")
    for cell in published.load("pinning").itertuples():
        found.text(f"c/{cell.driver}/{cell.policy}/change", f"{cell.change_percent:+.1f} %")
    return found
