"""How long all containers take to exchange messages with all, by their number and places: Suo et al. 2018, figure 9."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis.figures import estimates
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Mean, Question, Table
from pairlab.analysis.repetitions import Factor
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import changes, extremes
from pairlab.model.records import Run
from pairlab.model.spec import Spec

#: Where the containers are, by the panel of figure 9: all on one host, one against the others, and in halves.
WITHIN, APART, HALVES = "one host", "two hosts, 1 : n-1", "two hosts, halves"
PLACES = (WITHIN, APART, HALVES)
#: What Suo et al. 2018 compare: processes and containers, whose networks on one host and between hosts differ.
WITHOUT, WITH = "without containers", "with containers"
_KINDS = {
    WITHIN: {"process": WITHOUT, "bridge": WITH},
    **{each: {"host": WITHOUT, "process": WITHOUT, "overlay": WITH} for each in (APART, HALVES)},
}
_OF_KIND = (*SYSTEM, "kind", "containers", "message_bytes")
_GAP = Quantity("Against without containers (%)", "against-without", 1, unit="%", change=True)
_FACTOR = Quantity("Times one host", "times", 2)


def place(spec: Spec) -> str | None:
    """Which of PLACES a run's containers are in; None: another one."""
    if spec.hosts == 1:
        return WITHIN
    placed = {"packed-but-one": APART, "across": HALVES, "spread": HALVES}
    return placed.get(spec.placement) if spec.hosts == 2 else None


def _kind(run: Run) -> str:
    """WITHOUT, WITH, or neither."""
    return _KINDS.get(place(run.spec) or "", {}).get(run.spec.driver, "")


def _compared(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Those that Suo et al. 2018 compare. Where `host` and `process` both stand for no container, `host` does."""
    mine = repetitions[repetitions["kind"] != ""]
    return mine.sort_values("driver").drop_duplicates([*_OF_KIND, "place", "repetition"], keep="first")


def _by_containers(answer: Answer, name: str, **options: Any) -> Figure | None:
    """A panel for each place: Suo et al. 2018, figure 9. Lines have gaps where a number was measured elsewhere only."""
    places = [each for each in PLACES if (answer.known(name)["place"] == each).any()]
    rows = [*SYSTEM, "message"]

    def with_gaps(cells: pd.DataFrame) -> pd.DataFrame:
        lines = cells[[*rows, "place", "driver"]].drop_duplicates()
        return lines.merge(cells["containers"].drop_duplicates(), how="cross").merge(cells, how="left")

    layout = {"rows": rows, "column": "place", "order": places, "title": "{row}:\n{each}"}
    options |= {"where": with_gaps, "number": "containers", "name": "Containers"}
    return answer.facets(estimates.by_number, name, layout, **options)


_HEADS = {"place": "Place", "driver": "Driver", "containers": "Containers", "message_bytes": "Message (B)"}
_KIND_HEADS = {"kind": "Ranks", "place": "Place", "containers": "Containers", "message_bytes": "Message (B)"}

ALL_TO_ALL = Question(
    topic="all-to-all",
    by=[
        Factor("place", lambda run: place(run.spec)),
        Factor("containers", lambda run: run.spec.ranks or 2 * run.spec.pairs),
        Factor("message_bytes", lambda run: run.spec.message_bytes or 1024),
        Factor("kind", _kind),
    ],
    quantities=("latency_mean_s",),
    alike=False,
    words={
        "message": (("message_bytes",), "{:,} B".format),
        "driver": (("kind",), str),  # where kinds are compared, and no drivers
    },
    estimates={
        "round": Mean(
            Quantity("Mean round (µs)", "latency", 1, 1e6, "µs"),
            "latency_mean_s",
            by=(*CELL, "place", "containers", "message_bytes"),
        ),
        "times": Change(_FACTOR, "latency_mean_s", "place", WITHIN, _compared, _OF_KIND, times=True),
        "against without": Change(
            *(_GAP, "latency_mean_s", "kind", WITHOUT, _compared),
            by=(*SYSTEM, "place", "containers", "message_bytes"),
        ),
    },
    tables={
        "all-to-all": Table(_HEADS, ["round"], lambda answer: {"place": PLACES}, remarks="round"),
        "all-to-all-hosts": Table(_KIND_HEADS, ["times"], lambda answer: {"place": PLACES, "kind": [WITHOUT, WITH]}),
    },
    figures={
        "all-to-all": lambda answer: _by_containers(answer, "round"),
        "all-to-all-hosts": lambda answer: _by_containers(
            answer, "times", what="ratio", level=1, label="Mean round\n(times one host)"
        ),
    },
    keys={
        "round": ("system", "driver", "place", "containers", "message_bytes"),
        "times": ("system", "kind", "place", "containers", "message_bytes"),
        "against without": ("system", "place", "containers", "message_bytes"),
    },
    answer=[
        extremes("round", "mean round", ("place", "containers")),
        changes("against without", "A round with containers against none", "place"),
    ],
)
