"""How experiment E7 is laid out: total throughput by pinning policy, and its change against no pinning."""

from collections.abc import Iterable, Sequence

import pandas as pd

from pairlab.analysis import contrasts, estimates, published, stats
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, p_text, put, rows_by_driver, shown, slug, systems, with_bounds
from pairlab.collection import Runs
from pairlab.errors import AnalysisError

#: What every other policy is compared with.
NONE = "none"
BY = (*stats.CELL, "pinning")
CELL = ("driver", "pairs", "pinning")


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, policy and driver: as stats.throughput_by_repetition, with a column pinning."""
    return stats.throughput_by_repetition(flows, also=["pinning"])


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean total throughput in bit/s by policy and driver, as estimates.means."""
    return estimates.means(repetitions, BY, "total_bps", confidence)


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of the total against no pinning, in percent, paired by repetition, as estimates.changes.

    Source: paper C, section III-B (+21.2 % and -13.2 %), which states neither interval nor test.
    """
    return estimates.changes(
        repetitions, stats.CELL, "total_bps", setting="pinning", against=NONE, confidence=confidence
    )


def order(policies: Iterable[str]) -> list[str]:
    """Each policy once: no pinning first, the others by name."""
    return sorted(set(policies), key=lambda policy: (policy != NONE, policy))


def axis(policies: Sequence[str]) -> dict[str, object]:
    """The policies as panels.by_category takes its categories: each named in two lines where it has two words."""
    ticks = ["no\npinning" if policy == NONE else policy.replace("-", "\n", 1) for policy in policies]
    return {"category": "pinning", "order": policies, "ticks": ticks, "name": "Pinning"}


def policies_differ(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the policies of each driver differ at all, by Kruskal and Wallis's test over repetitions.

    Returns the columns of stats.CELL, statistic, p, n, policies, and gap: why there is no test, else empty.
    """
    rows = []
    for names, cell in repetitions.groupby(list(stats.CELL), sort=True):
        try:
            test = contrasts.kruskal(cell, "total_bps", "pinning")
            rows.append([*names, test.statistic, test.p, test.n, test.groups, ""])
        except AnalysisError as error:
            rows.append([*names, float("nan"), float("nan"), len(cell), cell["pinning"].nunique(), str(error)])
    return pd.DataFrame(rows, columns=[*stats.CELL, "statistic", "p", "n", "policies", "gap"])


def table(cells: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Total, change against no pinning, its p-value after Holm, and the published change, as text; of one system."""
    change = {(row.driver, row.pairs, row.pinning): row for row in changes.itertuples()}
    stated = {(row.driver, row.policy): row for row in published.load("pinning").itertuples()}

    def of(cell, tell) -> str:
        found = change.get((cell.driver, cell.pairs, cell.pinning))
        return tell(found) if found is not None else MISSING

    return rows_by_driver(
        cells,
        CELL,
        {
            "Total (Gbit/s)": lambda cell: shown(cell, 2, scale=1e-9),
            "Change (%)": lambda cell: of(cell, lambda row: with_bounds(row.value, row.low, row.high, 1)),
            "p (Holm)": lambda cell: of(cell, lambda row: p_text(row.p_holm)),
            "Paper C (%)": lambda cell: (
                f"{stated[cell.driver, cell.pinning].change_percent:.1f}"
                if (cell.driver, cell.pinning) in stated
                else MISSING
            ),
        },
        heads=("Driver", "Pairs", "Pinning"),
        order={"pinning": order(cells["pinning"])},
    )


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E7, all below `pinning/`: those of layout.head, and

    - <system>/<driver>/<policy>/total, total-interval; and change, change-interval, p (Holm) against no pinning.
      With several pair counts the policy is followed by /<pairs>;
    - c/<driver>/<policy>/change: as paper C states it.
    """
    found = head("pinning", runs, cells, gap)
    for system, part in systems(cells).items():
        several = part["pairs"].nunique() > 1
        changed = systems(changes).get(system, changes.iloc[:0])
        for cell in part.itertuples():
            put(found, f"{_key(system, cell, several)}/total", cell, 2, "Gbit/s", scale=1e-9)
        for cell in changed.itertuples():
            key = _key(system, cell, several)
            put(found, f"{key}/change", cell, 1, "%", signed=True)
            if cell.p_holm == cell.p_holm:
                found.text(f"{key}/p", p_text(cell.p_holm))
    for cell in published.load("pinning").itertuples():
        found.text(f"c/{cell.driver}/{cell.policy}/change", f"{cell.change_percent:+.1f} %")
    return found


def _key(system: str, cell, several: bool) -> str:
    return f"{system}/{cell.driver}/{slug(cell.pinning)}" + (f"/{cell.pairs}" if several else "")
