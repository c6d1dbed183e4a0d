"""Completion times by the spacing of the clients' starts: does starting one after the other explain the papers' tails?

The p99 of Boeira et al. 2021 and Boeira and Ferreto grows far less with the number of pairs than where all clients
start together. So its growth at each spacing of the starts stands beside the growth that Boeira et al. 2021 state.
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import by_group
from pairlab.analysis.cell_estimates import COLUMNS
from pairlab.analysis.figures import estimates
from pairlab.analysis.flow_changes import CHANGED_QS, PUBLISHED_STEP, change, clusters_of
from pairlab.analysis.output.formatting import percentile_name
from pairlab.analysis.output.latex import Values
from pairlab.analysis.question import Across, Answer, Column, Frame, Question, Table
from pairlab.analysis.questions import fct
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import changes as changed

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
    """<system>/spacings: those measured, as text; papers/spacing; c/<driver>/p99-change: as paper C states it."""
    for names, part in answer["percentiles"].groupby(list(SYSTEM), sort=True):
        spacings = [spacing_text(each) for each in sorted(part["start_spacing_s"].unique())]
        found.text(f"{'-'.join(names)}/spacings", ", ".join(spacings))
    found.text("papers/spacing", spacing_text(PAPERS_S))
    for driver, percent in fct.stated_changes().items():
        found.text(f"c/{driver}/p99-change", f"{percent:+.1f} %")


def _stated(answer: Answer) -> str:
    stated = sorted(fct.stated_changes().values())
    return f"Boeira et al. (2021) state +{stated[0]:.0f} to +{stated[-1]:.0f} %." if len(answer["p99-change"]) else ""


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
        "p99-change": Frame(lambda answer: answer["change"][answer["change"]["q"] == Q], fct.CHANGE),
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
            ],
            _spacings,
            split=False,
        ),
    },
    figures={"starting": _p99},
    keys={
        "percentiles": ("system", "driver", "pairs", "spacing"),
        "change": ("system", "driver", "spacing"),
    },
    main=("p99",),
    values=_values,
    absent={"starting-change": lambda answer: "there are no runs of 10 and 50 pairs at several spacings"},
    answer=[
        changed(
            "p99-change", "From 10 to 50 pairs, the p99 of completion times by the spacing of the starts", "spacing"
        ),
        _stated,
    ],
)
