"""Total throughput by the size of the messages that a client hands over (Boeira et al. 2021, figure 10)."""

import warnings

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, page_trend_test

from pairlab.analysis.figures import estimates
from pairlab.analysis.output.formatting import p_text, size_text, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, put_p
from pairlab.analysis.question import Answer, Change, Column, Frame, Mean, Question, Table
from pairlab.analysis.questions.throughput import TOTAL
from pairlab.analysis.selection import CELL, block_of
from pairlab.analysis.sentences import changes


def ticks(sizes: pd.Series) -> dict[float, str]:
    """The sizes as an axis names them: in bytes, KiB or MiB."""
    return {float(size): size_text(size) for size in sorted(sizes.unique())}


def trends(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the total grows with the size in every block alike: Page's test for ordered alternatives.

    Only blocks that have all sizes are used; where there are none, Kendall's test over all repetitions takes its place.
    Returns CELL, message_bytes (the largest), sizes, n, p (one-sided, of no growth), and gap: why there is no test.
    Source: Page 1963; Kendall 1938; Boeira et al. 2021, figure 10, states the growth and no test.
    """
    rows = []
    for names, cell in repetitions.groupby(list(CELL), sort=True):
        whole = cell.pivot(index=block_of(cell), columns="message_bytes", values="total_bps").dropna()
        (n, sizes), largest, p, gap = whole.shape, cell["message_bytes"].max(), np.nan, ""
        if not n and sizes > 2 and (fewest := cell.groupby("message_bytes")["total_bps"].count().min()) > 1:
            p = float(kendalltau(cell["message_bytes"], cell["total_bps"], alternative="greater").pvalue)
            rows.append([*names, largest, sizes, int(fewest), p, gap])
            continue
        if n < 2 or sizes < 3:
            gap = f"{n} repetitions with {sizes} sizes, and Page's test needs 2 with 3: measure more"
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                p = float(page_trend_test(whole.to_numpy(dtype=float)).pvalue)
        rows.append([*names, largest, sizes, n, p, gap])
    return pd.DataFrame(rows, columns=[*CELL, "message_bytes", "sizes", "n", "p", "gap"])


def _trend_by_size(answer: Answer) -> pd.DataFrame:
    """A row per size; of: "both" where the trend's p stands, which is at the largest."""
    by = [*CELL, "message_bytes"]
    return answer["total"][by].merge(answer["trend"][[*by, "p"]], how="left", on=by, indicator="of")


def _values(answer: Answer, found: Values) -> None:
    r"""<system>/sizes: those measured, as text; least-size, most-size: in bytes; <system>/<driver>/<pairs>/trend-p: of
    Page's test that nothing grows with the size.
    """
    for system, part in systems(answer["total"]).items():
        sizes = [size_text(size) for size in sorted(part["message_bytes"].unique())]
        found.text(f"{system}/sizes", ", ".join(sizes))
        found.text(f"{system}/least-size", sizes[0])
        found.text(f"{system}/most-size", sizes[-1])
    put_p(found, answer["trend"], "system", "driver", "pairs", key="trend-p", column="p")


MESSAGE_SIZE = Question(
    topic="message-size",
    by=["message_bytes"],
    which=lambda spec: spec.message_bytes > 0,
    estimates={
        "total": Mean(TOTAL._replace(digits=3), "total_bps"),
        "change": Change(
            Quantity("Change (%)", "change", 0, unit="%", change=True),
            *("total_bps", "message_bytes", lambda cell: cell["message_bytes"].min()),
            each=CELL,
        ),
        "trend": Frame(lambda answer: trends(answer.repetitions)),
        "trend by size": Frame(_trend_by_size),
    },
    tables={
        "message-size": Table(
            {"driver": "Driver", "pairs": "Pairs", "message_bytes": "Message (B)"},
            [
                "total",
                "change",
                Column("p (trend)", "trend by size", lambda row: p_text(row.p) if row.of == "both" else ""),
            ],
            remarks="total",
        )
    },
    figures={
        "message-size": lambda answer: answer.panels(
            *(estimates.by_number, "total"),
            at_pairs=True,
            number="message_bytes",
            name="Message size",
            log_y=True,
            ticks=ticks(answer["total"]["message_bytes"]),
        )
    },
    keys=dict.fromkeys(("total", "change"), ("system", "driver", "pairs", "message_bytes")),
    values=_values,
    answer=[changes("change", "Total throughput against the least size", "message_bytes", size_text)],
)
