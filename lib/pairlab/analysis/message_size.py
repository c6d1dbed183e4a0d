"""How experiment E8 is laid out: total throughput by the size of the messages handed over."""

import warnings

import numpy as np
import pandas as pd
from scipy.stats import page_trend_test

from pairlab.analysis import estimates, stats
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, p_text, put, rows_by_driver, shown, systems, with_bounds
from pairlab.collection import Runs
from pairlab.spec import Spec

BY = (*stats.CELL, "message_bytes")


def has_size(spec: Spec) -> bool:
    """Whether a run asks for a message size, and does not leave it to its tool."""
    return spec.message_bytes > 0


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, size and driver: as stats.throughput_by_repetition."""
    return stats.throughput_by_repetition(flows, also=["message_bytes"])


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean total throughput in bit/s by message size and driver, as estimates.means."""
    return estimates.means(repetitions, BY, "total_bps", confidence)


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of the total in percent from the least size to every other, paired by repetition, by driver."""
    parts = [
        estimates.changes(
            cell,
            stats.CELL,
            "total_bps",
            setting="message_bytes",
            against=cell["message_bytes"].min(),
            confidence=confidence,
        )
        for _, cell in repetitions.groupby(list(stats.CELL), sort=True)
    ]
    columns = [*stats.CELL, "message_bytes", *estimates.COLUMNS, "p", "p_holm"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def trends(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the total grows with the size in every repetition alike: Page's test for ordered alternatives.

    Only repetitions that have all sizes are used. Returns stats.CELL, sizes, n, p (one-sided, of no growth), and gap:
    why there is no test, else empty. Source: Page 1963; paper C, figure 10, states the growth and no test.
    """
    rows = []
    for names, cell in repetitions.groupby(list(stats.CELL), sort=True):
        whole = cell.pivot(index="repetition", columns="message_bytes", values="total_bps").dropna()
        n, sizes = whole.shape
        if n < 2 or sizes < 3:
            gap = f"{n} repetitions with {sizes} sizes, and Page's test needs 2 with 3: measure more"
            rows.append([*names, sizes, n, np.nan, gap])
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            rows.append([*names, sizes, n, float(page_trend_test(whole.to_numpy(dtype=float)).pvalue), ""])
    return pd.DataFrame(rows, columns=[*stats.CELL, "sizes", "n", "p", "gap"])


def ticks(cells: pd.DataFrame) -> dict[float, str]:
    """The sizes as an axis names them: in bytes, KiB or MiB."""
    return {float(size): size_text(size) for size in sorted(cells["message_bytes"].unique())}


def size_text(size: float) -> str:
    """64 bytes as "64 B", 1024 as "1 KiB"; others as they are, and from a thousand on with a comma."""
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step and size % step == 0:
            return f"{size // step:g} {unit}"
    return f"{size:,.0f} B"


def tables(cells: pd.DataFrame, changes: pd.DataFrame, trends: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """table() of each system, by its name."""
    changed, tested = systems(changes), systems(trends)
    return {
        system: table(part, changed.get(system, changes.iloc[:0]), tested[system])
        for system, part in systems(cells).items()
    }


def table(cells: pd.DataFrame, changes: pd.DataFrame, trends: pd.DataFrame) -> pd.DataFrame:
    """Total by size with its change from the least size, as text; of one system. The trend stands with the largest."""
    change = {(row.driver, row.pairs, row.message_bytes): row for row in changes.itertuples()}
    trend = {(row.driver, row.pairs): row for row in trends.itertuples()}
    largest = cells.groupby(["driver", "pairs"])["message_bytes"].max()

    def changed(cell) -> str:
        row = change.get((cell.driver, cell.pairs, cell.message_bytes))
        return MISSING if row is None else with_bounds(row.value, row.low, row.high, 0)

    def trend_of(cell) -> str:
        at_largest = largest[cell.driver, cell.pairs] == cell.message_bytes
        return p_text(trend[cell.driver, cell.pairs].p) if at_largest else ""

    return rows_by_driver(
        cells,
        ("driver", "pairs", "message_bytes"),
        {
            "Total (Gbit/s)": lambda cell: shown(cell, 3, scale=1e-9),
            "Change (%)": changed,
            "p (trend)": trend_of,
        },
        heads=("Driver", "Pairs", "Message (B)"),
    )


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, trends: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E8, all below `message-size/`: those of layout.head, and

    - <system>/sizes: those measured, as text; least-size, most-size: in bytes;
    - <system>/<driver>/<pairs>/<size>/total, total-interval; change, change-interval from the least size (percent);
    - <system>/<driver>/<pairs>/trend-p: of Page's test that nothing grows with the size.
    """
    found = head("message-size", runs, cells, gap)
    for system, part in systems(cells).items():
        sizes = sorted(part["message_bytes"].unique())
        found.text(f"{system}/sizes", ", ".join(size_text(size) for size in sizes))
        found.text(f"{system}/least-size", size_text(sizes[0]))
        found.text(f"{system}/most-size", size_text(sizes[-1]))
        for row in part.itertuples():
            key = f"{system}/{row.driver}/{row.pairs}/{row.message_bytes}"
            put(found, f"{key}/total", row, 3, "Gbit/s", scale=1e-9)
    for row in changes.itertuples():
        key = f"{row.backend}-{row.workload}/{row.driver}/{row.pairs}/{row.message_bytes}"
        put(found, f"{key}/change", row, 0, "%", signed=True)
    for row in trends[trends["p"].notna()].itertuples():
        found.text(f"{row.backend}-{row.workload}/{row.driver}/{row.pairs}/trend-p", p_text(row.p))
    return found
