"""Whether one CPU is overloaded while the others idle (S3): the busiest CPU beside the others, by network and message.

The work that packets make is done on the CPUs that their interrupts and queues are bound to, so that one stream can
fill one CPU. Hosts that share a kernel share its CPUs: they are of both ends then.
"""

from collections.abc import Hashable, Iterable

import pandas as pd

from pairlab.analysis import cell_estimates
from pairlab.analysis.output.measures import Measure, Texts, tabulate
from pairlab.analysis.questions.message_size import size_text
from pairlab.analysis.questions.modes import by_message
from pairlab.analysis.questions.modes.by_message import BY, MESSAGES
from pairlab.analysis.selection import CELL
from pairlab.model import cpu_use
from pairlab.model.records import Run

#: By the columns of `by_repetition`: shares of a CPU's time in the measuring window.
MEASURES = {
    "busiest_share": Measure("Busiest CPU (%)", "busiest", 1, 100, "%"),
    "others_share": Measure("Other CPUs (%)", "others", 1, 100, "%"),
    "softirq_share": Measure("Softirq, busiest (%)", "busiest-softirq", 1, 100, "%"),
}
_NAMES = {"system": "System", "what": "What", "sized": "Size", "driver": "Network"}


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts and carries messages: BY, repetition, and MEASURES.

    others_share: the mean of the other CPUs. NaN where no sample is.
    """
    kept = [run for run in runs if run.status == "ok"]
    found = by_message.by_repetition(kept)
    found = found[found["what"].isin(MESSAGES)].drop(columns=["total_bps", "latency_mean_s"])
    rows = [
        {name: getattr(run.spec, name) for name in (*CELL, "host_kind", "repetition")}
        | {"what": part[0], "size": part[1]}
        | _shares(run)
        for run in kept
        if (part := by_message.part_of(run.spec, transacts=False)) and part[0] in MESSAGES
    ]
    return found.merge(pd.DataFrame(rows, columns=[*BY, "repetition", *MEASURES]), on=[*BY, "repetition"], how="left")


def _shares(run: Run) -> dict[str, float]:
    by_cpu = cpu_use.by_cpu(run).sort_values("work", ascending=False)
    if by_cpu.empty:
        return dict.fromkeys(MEASURES, float("nan"))
    busiest, others = by_cpu.iloc[0], by_cpu.iloc[1:]
    shares = float(busiest["work"]), float(others["work"].mean()), float(busiest["softirq"])
    return dict(zip(MEASURES, shares, strict=True))


def cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES, as cell_estimates.means."""
    return {name: cell_estimates.means(repetitions, BY, name, confidence) for name in MEASURES}


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """MEASURES by protocol, size of messages and network."""
    columns: dict[Hashable, Texts] = {
        each.title: each.texts(_sized(cells[name]), *_NAMES) for name, each in MEASURES.items()
    }
    sizes = [size_text(size) for size in sorted(cells["busiest_share"]["size"].unique())]
    return tabulate(_NAMES, columns, {"what": list(MESSAGES), "sized": sizes})


def _sized(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sized=[size_text(size) for size in frame["size"]])
