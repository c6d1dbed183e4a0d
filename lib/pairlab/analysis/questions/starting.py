"""Completion times by the spacing of the clients' starts: does starting one after the other explain the papers' tails?

The p99 of Boeira et al. 2021 and Boeira and Ferreto grows far less with the number of pairs than where all clients
start together. The logarithm of that growth is what is split here: the part that goes when clients start a spacing
apart, and the rest.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import by_group
from pairlab.analysis.cell_estimates import COLUMNS
from pairlab.analysis.figures import estimates
from pairlab.analysis.flow_changes import CHANGED_QS, PUBLISHED_STEP, change, clusters_of
from pairlab.analysis.output.formatting import percentile_name, with_interval
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, key_of
from pairlab.analysis.question import Across, Answer, Column, Frame, Question, Table
from pairlab.analysis.questions import fct
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import changes as changed
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import REAL, Student, share_of

#: The spacing of a loop of `docker exec -d`, by our measurement (starting-together.md).
PAPERS_S = 0.057
#: The percentile whose growth Boeira et al. 2021 state.
Q = 0.99
BY = (*CELL, "start_spacing_s")
LINE = (*SYSTEM, "driver", "start_spacing_s")


def percentiles(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Median and p99 of the completion time from each client's own start, in s, by CELL and spacing: fct's form."""
    return by_group.of(flows, BY, "fct_s").percentiles(CHANGED_QS, confidence=confidence)


def changes(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """By how much median and p99 change over PUBLISHED_STEP of pairs, in percent, at each spacing.

    Returns SYSTEM, driver, start_spacing_s, q and COLUMNS, of lines that have both pair counts.
    """
    rows = []
    for names, line in flows.groupby(list(LINE), sort=True):
        few, many = (line[line["pairs"] == pairs] for pairs in PUBLISHED_STEP)
        if len(few) and len(many):
            line = dict(zip(LINE, names, strict=True))
            sides = clusters_of(few), clusters_of(many)
            rows += [{**line, "q": q, **change(*sides, q, confidence)} for q in CHANGED_QS]
    return pd.DataFrame(rows, columns=[*LINE, "q", *COLUMNS, "pairing"])


def explained(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """What part of the difference between our growth of the p99 and the papers' goes with the spacing of the starts.

    With r the p99 at 50 pairs over that at 10: (log r together − log r apart) / (log r together − log r of Boeira et
    al. 2021), which is 1 where clients that start apart have the growth that the paper states, and 0 where theirs is
    that of clients that start together. The paper states no interval, so its growth is taken as it is. Returns
    LINE, without the spacing 0, and COLUMNS; drivers of which the paper states no growth are left out. There is a gap
    where our growth does not differ from the paper's: then there is nothing to explain. Interval: intervals.share_of.
    """
    rows = []
    stated = fct.stated_changes()
    for names, line in flows.groupby([*SYSTEM, "driver"], sort=True):
        for spacing_s in sorted(set(line["start_spacing_s"]) - {0.0}) if names[-1] in stated else ():
            row = _part(line, spacing_s, np.log1p(stated[names[-1]] / 100), confidence)
            rows.append([*names, spacing_s, *row[:-1], confidence, row[-1]])
    return pd.DataFrame(rows, columns=[*LINE, *COLUMNS])


def _part(line: pd.DataFrame, spacing_s: float, stated: float, confidence: float) -> list:
    """Value, low, high and n of one line of `explained`, and its gap. stated: the logarithm of the papers' growth."""
    few, many = PUBLISHED_STEP
    try:
        sides = {
            (spacing, pairs): _clusters(line, spacing, pairs) for spacing in (0.0, spacing_s) for pairs in (few, many)
        }
        together, apart = ([(-1.0, sides[spacing, few]), (1.0, sides[spacing, many])] for spacing in (0.0, spacing_s))
        gone = _growth([*together, *((-sign, side) for sign, side in apart)])
        whole, rest = (replace(growth, centre=growth.centre - stated) for growth in map(_growth, (together, apart)))
    except (TooFewSamples, AnalysisError) as error:
        return [np.nan, np.nan, np.nan, 0, str(error)]
    found = share_of(gone, whole, rest, confidence)
    same = "the change where all start together does not differ from the paper's: there is nothing to explain"
    return [*found, "" if found.value == found.value else same]


def _clusters(line: pd.DataFrame, spacing_s: float, pairs: int) -> Clusters:
    cell = line[(line["start_spacing_s"] == spacing_s) & (line["pairs"] == pairs)]
    if cell.empty:
        raise TooFewSamples(f"there are no runs of {pairs} pairs with starts {spacing_text(spacing_s)} apart")
    return clusters_of(cell)


def _growth(sides: list[tuple[float, Clusters]]) -> Student:
    """A sum of logarithms of the p99, on that scale."""
    return replace(quantiles.contrast(sides, Q), scale=REAL)


def spacing_text(spacing_s: float) -> str:
    """A spacing as tables name it: in ms."""
    return f"{1e3 * spacing_s:g} ms"


def _step(q: float) -> str:
    return f"{percentile_name(q)}, 10 to 50 pairs (%)"


def _spacings(answer: Answer) -> dict[str, list[str]]:
    known = {*answer["percentiles"]["start_spacing_s"], *answer["change"]["start_spacing_s"]}
    return {"spacing": [spacing_text(each) for each in sorted(known)]}


def _p99(answer: Answer) -> Figure | None:
    axes: dict[str, Any] = {"category": "spacing", "order": _spacings(answer)["spacing"], "name": "Spacing of starts"}
    axes |= {"label": "p99 FCT (ms)", "what": "p99 of all flows", "log_y": True}
    return answer.facets(estimates.by_category, "p99", {"column": "pairs"}, **axes)


def _values(answer: Answer, found: Values) -> None:
    r"""<system>/spacings: those measured, as text; <system>/<driver>/<spacing>/explained-missing: why it is not known;
    papers/spacing; c/<driver>/p99-change: as Boeira et al. 2021 state it.
    """
    for names, part in answer["percentiles"].groupby(list(SYSTEM), sort=True):
        spacings = [spacing_text(each) for each in sorted(part["start_spacing_s"].unique())]
        found.text(f"{'-'.join(names)}/spacings", ", ".join(spacings))
    for row in answer["explained"].itertuples():
        if row.gap:
            found.text(f"{key_of(row, 'system', 'driver', 'spacing')}/explained-missing", row.gap)
    found.text("papers/spacing", spacing_text(PAPERS_S))
    for driver, percent in fct.stated_changes().items():
        found.text(f"c/{driver}/p99-change", f"{percent:+.1f} %")


def _explained_text(answer: Answer) -> str:
    """What the papers' spacing explains, or what others do; of two lines, each a sentence with its interval."""
    known = answer["explained"][answer["explained"]["gap"] == ""]
    as_papers = known[known["start_spacing_s"] == PAPERS_S]
    said = []
    for row in (as_papers if len(as_papers) else known).head(2).itertuples():
        share = with_interval(100 * row.value, 100 * row.low, 100 * row.high, 0)
        line = f"{row.backend}-{row.workload}, {row.driver}, {row.spacing}"
        said.append(f"{line}: starts {row.spacing} apart explain {share} % of the difference to paper C.")
    return " ".join(said)


_HEADS = {"driver": "Driver", "pairs": "Pairs", "spacing": "Spacing"}
_LINE_HEADS = {"driver": "Driver", "spacing": "Spacing"}

STARTING = Question(
    topic="starting",
    by=["start_spacing_s"],
    words={
        "spacing": (("start_spacing_s",), spacing_text),
        "percentile": (("q",), fct.in_ms),
        "step": (("q",), _step),
    },
    estimates={
        "percentiles": Frame(
            lambda answer: percentiles(answer.flows, answer.confidence), fct.TIME, fct.by_percentile()
        ),
        "p99": Frame(lambda answer: answer["percentiles"][answer["percentiles"]["q"] == Q], fct.TIME),
        "change": Frame(
            lambda answer: changes(answer.flows, answer.confidence), fct.CHANGE, fct.by_percentile("{}-change")
        ),
        "explained": Frame(
            lambda answer: explained(answer.flows, answer.confidence),
            Quantity("Explained (%)", "explained", 0, 100, "%"),
        ),
    },
    tables={
        "starting": Table(
            _HEADS,
            [fct.percentile_columns(CHANGED_QS), fct.FAILED],
            _spacings,
            remarks="p99",
        ),
        "starting-change": Table(
            _LINE_HEADS,
            [
                Across("change", "step", lambda answer: [_step(q) for q in CHANGED_QS]),
                Column("Paper C, p99 (%)", "change", fct.stated_text),
                "explained",
            ],
            _spacings,
            split=False,
        ),
    },
    figures={"starting": _p99},
    keys={
        "percentiles": ("system", "driver", "pairs", "spacing"),
        **dict.fromkeys(("change", "explained"), ("system", "driver", "spacing")),
    },
    main=("p99",),
    values=_values,
    absent={"starting-change": lambda answer: "there are no runs of 10 and 50 pairs at several spacings"},
    answer=[
        _explained_text,
        changed("change", "From 10 to 50 pairs, median and p99", "spacing"),
    ],
)
