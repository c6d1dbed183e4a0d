"""Total throughput by the size of the messages that a client hands over (E8)."""

import warnings

import numpy as np
import pandas as pd
from scipy.stats import page_trend_test

from pairlab.analysis import cell_estimates, selection, throughput_cells
from pairlab.analysis.output.formatting import p_text, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, common_values, put_p, tabulate, texts
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

BY = (*selection.CELL, "message_bytes")
TOTAL = Measure("Total (Gbit/s)", "total", 3, 1e-9, "Gbit/s")
CHANGE = Measure("Change (%)", "change", 0, unit="%", change=True)


def has_size(spec: Spec) -> bool:
    """Whether a run asks for a message size, and does not leave it to its tool."""
    return spec.message_bytes > 0


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, size and driver: as throughput_cells.throughput_by_repetition."""
    return throughput_cells.throughput_by_repetition(flows, also=["message_bytes"])


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean total throughput in bit/s by message size and driver, as cell_estimates.means."""
    return cell_estimates.means(repetitions, BY, "total_bps", confidence)


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of the total in percent from the least size to every other, paired by repetition, by driver."""
    parts = [
        cell_estimates.changes(
            cell,
            selection.CELL,
            "total_bps",
            setting="message_bytes",
            against=cell["message_bytes"].min(),
            confidence=confidence,
        )
        for _, cell in repetitions.groupby(list(selection.CELL), sort=True)
    ]
    columns = [*selection.CELL, "message_bytes", *cell_estimates.COLUMNS, "p", "p_holm"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def trends(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the total grows with the size in every repetition alike: Page's test for ordered alternatives.

    Only repetitions that have all sizes are used. Returns CELL, sizes, n, p (one-sided, of no growth), and gap:
    why there is no test, else empty. Source: Page 1963; paper C, figure 10, states the growth and no test.
    """
    rows = []
    for names, cell in repetitions.groupby(list(selection.CELL), sort=True):
        whole = cell.pivot(index="repetition", columns="message_bytes", values="total_bps").dropna()
        n, sizes = whole.shape
        if n < 2 or sizes < 3:
            gap = f"{n} repetitions with {sizes} sizes, and Page's test needs 2 with 3: measure more"
            rows.append([*names, sizes, n, np.nan, gap])
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            rows.append([*names, sizes, n, float(page_trend_test(whole.to_numpy(dtype=float)).pvalue), ""])
    return pd.DataFrame(rows, columns=[*selection.CELL, "sizes", "n", "p", "gap"])


def ticks(cells: pd.DataFrame) -> dict[float, str]:
    """The sizes as an axis names them: in bytes, KiB or MiB."""
    return {float(size): size_text(size) for size in sorted(cells["message_bytes"].unique())}


def size_text(size: float) -> str:
    """64 bytes as "64 B", 1024 as "1 KiB"; others as they are, and from a thousand on with a comma."""
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step and size % step == 0:
            return f"{size // step:g} {unit}"
    return f"{size:,.0f} B"


def table(cells: pd.DataFrame, changes: pd.DataFrame, trends: pd.DataFrame) -> pd.DataFrame:
    """Total by size with its change from the least size; the trend's p-value is in the row of the largest size."""
    names = {"system": "System", "driver": "Driver", "pairs": "Pairs", "message_bytes": "Message (B)"}
    p = {(row.backend, row.workload, row.driver, row.pairs): p_text(row.p) for row in trends.itertuples()}
    largest = cells.groupby(list(selection.CELL))["message_bytes"].transform("max")

    def trend(cell) -> str:
        at_largest = cell.message_bytes == cell.largest
        return p[cell.backend, cell.workload, cell.driver, cell.pairs] if at_largest else ""

    columns = {
        TOTAL.title: TOTAL.texts(cells, *names),
        CHANGE.title: CHANGE.texts(changes, *names),
        "p (trend)": texts(cells.assign(largest=largest), tuple(names), trend),
    }
    return tabulate(names, columns)


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, trends: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E8, all below `message-size/`: those of measures.common_values, and

    - <system>/sizes: those measured, as text; least-size, most-size: in bytes;
    - <system>/<driver>/<pairs>/<size>/total, total-interval; change, change-interval from the least size (percent);
    - <system>/<driver>/<pairs>/trend-p: of Page's test that nothing grows with the size.
    """
    found = common_values("message-size", runs, cells, gap)
    for system, part in systems(cells).items():
        sizes = sorted(part["message_bytes"].unique())
        found.text(f"{system}/sizes", ", ".join(size_text(size) for size in sizes))
        found.text(f"{system}/least-size", size_text(sizes[0]))
        found.text(f"{system}/most-size", size_text(sizes[-1]))
    names = ("system", "driver", "pairs", "message_bytes")
    TOTAL.put(found, cells, *names)
    CHANGE.put(found, changes, *names)
    put_p(found, trends, *names[:-1], key="trend-p", column="p")
    return found
