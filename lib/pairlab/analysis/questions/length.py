"""Whether a shorter run would have said the same: the first seconds of each run beside all of it.

Both are of the same flows, so nothing but the length differs. Boeira et al. 2021 and Boeira and Ferreto measure for two
minutes, for their figures of fairness and retransmissions.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import cell_estimates
from pairlab.analysis.figures import estimates
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Mean, Question, Table
from pairlab.analysis.questions.throughput import TOTAL
from pairlab.analysis.repetitions import shared
from pairlab.analysis.selection import SYSTEM
from pairlab.analysis.sentences import changes
from pairlab.model.records import Run
from pairlab.model.tables import carried_bytes
from pairlab.store.dataset import Runs

#: Lengths that are looked at, from the end of the warm-up, besides the whole.
SHORTER_S = (10, 30, 60)
#: What the length changes of these is drawn, and said in the answer.
_SHOWN = {"total_bps": "Total throughput", "least_over_most": "Min/max of the clients"}
_AXIS: dict[str, Any] = {"number": "length_s", "name": "Length counted (s)"}
_COLUMNS = ["start_s", "end_s", "interval_bytes"]
_MEASURES = {
    "total_bps": TOTAL,
    "jain_index": Quantity("Jain's index", "jain", 4),
    "least_over_most": Quantity("Min/max", "min-max", 2),
}


def by_length(run: Run) -> Iterator[dict[str, object]]:
    """Of its first seconds, and of all: length_s, and of the clients' goodput within it total_bps, jain_index and
    least_over_most. A client that sent nothing, or failed, counts as zero. Its flows are counted once, with the whole.
    """
    lengths_s = [*(each for each in SHORTER_S if each < _whole_s(run)), _whole_s(run)]
    edges_s = run.spec.warmup_s + np.array([0, *lengths_s])
    carried = {pair: np.zeros(len(lengths_s)) for pair in run.flows["pair"]}
    for (pair, _), flow in run.intervals.dropna(subset=_COLUMNS).groupby(["pair", "flow"]):
        carried[pair] += np.cumsum(carried_bytes(edges_s, *(flow[name] for name in _COLUMNS)))
    failed = run.flows["status"] != "ok"
    for length_s, sent_bytes in zip(lengths_s, np.array([*carried.values()]).T, strict=True):
        whole, found = length_s == lengths_s[-1], shared(8 * sent_bytes / length_s)
        yield {
            "length_s": length_s,
            **{name: found[name] for name in _MEASURES},
            "flows": len(failed) if whole else 0,
            "failed_flows": int(failed.sum()) if whole else 0,
        }


def _whole_s(run: Run) -> float:
    return run.spec.duration_s - run.spec.warmup_s


def _unfit(runs: Runs) -> str:
    counted = [run for run in runs if run.status == "ok"]
    if not any(_whole_s(run) > min(SHORTER_S) for run in counted):
        return f"no run lasts longer than {min(SHORTER_S)} s, the shortest time that is looked at"
    return "" if all(len(run.intervals) for run in counted) else "the tool of some runs reports no intervals"


def _whole(repetitions: pd.DataFrame) -> float:
    return repetitions["length_s"].max()


def _change(measure: Quantity, column: str) -> Change:
    title = f"Change of {measure.title.partition(' (')[0].lower()} (%)"
    change = Quantity(title, f"{measure.key}-change", 1, unit="%", change=True)
    return Change(change, column, "length_s", _whole, each=SYSTEM)


def _by_seconds(answer: Answer) -> Figure | None:
    """The total by the seconds that are counted, and below it min/max of the clients; a column per system."""
    if not len(answer["total_bps"]):
        return None
    rows = [
        (cell_estimates.at_pairs(answer[column]), partial(estimates.by_number, measure=measure, label=label, **_AXIS))
        for column, title in _SHOWN.items()
        for measure in [_MEASURES[column]]
        for label in [f"{title} ({measure.unit})" if measure.unit else title]
    ]
    return estimates.above_each_other(rows, conditions=answer.conditions)


LENGTH = Question(
    topic="length",
    experiment="retransmissions",
    quantities=tuple(_MEASURES),
    parts=by_length,
    of_parts=("length_s",),
    unfit=_unfit,
    words={"length": (("length_s",), "{:g} s".format)},
    estimates={column: Mean(measure, column) for column, measure in _MEASURES.items()}
    | {f"{column} change": _change(_MEASURES[column], column) for column in _SHOWN},
    tables={
        "length": Table(
            {"driver": "Driver", "pairs": "Pairs", "length_s": "Seconds"},
            ["total_bps", "total_bps change", "least_over_most", "least_over_most change", "jain_index"],
            remarks="total_bps",
        )
    },
    figures={"length": _by_seconds},
    keys=("system", "driver", "pairs", "length"),
    main=("total_bps",),
    answer=[
        changes(f"{column} change", f"{title} of the first seconds against all", "length_s", "{:g} s".format)
        for column, title in _SHOWN.items()
    ],
)
