"""What containers cost, and what only their network costs (S0): CPU, memory, and TCP and UDP throughput.

All is held against two processes without containers, in the same place. A container on its host's own network (driver
`host`) has everything of a container but the network.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import pandas as pd

from pairlab.analysis import cell_estimates, selection
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, p_values, tabulate
from pairlab.model.records import Run
from pairlab.model.summaries import summaries
from pairlab.store.dataset import Runs

#: What all is held against.
BARE = "process"
#: What is measured, in the order of paper S' figure 1: how it is told, and by which of a run's values.
WHATS: dict[str, Measure] = {
    "CPU": Measure("CPU time (s)", "cpu", 2, 1, "s", short=True, less_is_better=True),
    "memory read": Measure("Memory read (Gbit/s)", "memory-read", 1, 1e-9, "Gbit/s", short=True),
    "memory write": Measure("Memory written (Gbit/s)", "memory-write", 1, 1e-9, "Gbit/s", short=True),
    "TCP": Measure("TCP (Gbit/s)", "tcp", 2, 1e-9, "Gbit/s", short=True),
    "UDP": Measure("UDP (Gbit/s)", "udp", 2, 1e-9, "Gbit/s", short=True),
}
_OF_METRICS = {"calculation_s": "CPU", "memory_read_bps": "memory read", "memory_write_bps": "memory write"}
#: Where both ends are, by the number of hosts: "(s)" and "(m)" in paper S.
PLACES = {1: "one host", 2: "two hosts"}
BY = (*selection.CELL, "place", "what")
#: How much faster: of a time, its inverse.
CHANGE = Measure("Against process (%)", "against-process", 1, unit="%", change=True, short=True)

_NAMES = {"system": "System", "place": "Place", "what": "What", "driver": "Network"}


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts and what it measures: BY, repetition, flows, failed_flows, value and speed.

    value: in the unit of WHATS, before its scale. speed: the same, and of a time its inverse, so that more is always
    better. Raises AnalysisError where two runs claim one repetition of a cell.
    """
    rows = [row for run in runs if run.status == "ok" for row in _rows(run)]
    found = pd.DataFrame(rows, columns=[*BY, "key", "repetition", "flows", "failed_flows", "value", "speed"])
    selection.check_distinct(found, BY)
    return found.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def _rows(run: Run) -> list[dict[str, Any]]:
    spec, values = run.spec, summaries(run)
    place = PLACES.get(spec.hosts)
    if run.sends_nothing:
        told = {what: values[name] for name, what in _OF_METRICS.items() if name in values}
    else:
        told = {"UDP" if spec.udp_share else "TCP": values.get("total_bps", float("nan"))}
    if place is None or spec.udp_share not in (0, 1):
        return []
    common = {name: getattr(spec, name) for name in (*selection.CELL, "repetition")}
    common |= {"place": place, "key": run.key, "flows": len(run.flows), "failed_flows": run.failed_flows}
    return [
        {**common, "what": what, "value": value, "speed": 1 / value if WHATS[what].less_is_better and value else value}
        for what, value in told.items()
    ]


def cells(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean of what is measured, by network and place, as cell_estimates.means."""
    return cell_estimates.means(repetitions.rename(columns={"value": "measured"}), BY, "measured", confidence)


def against_bare(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How much faster than without containers in the same place, in percent: less than 0 is slower.

    Paired by repetition, as cell_estimates.changes. Source: paper S, figure 1, which states no numbers.
    """
    by = [name for name in BY if name != "driver"]
    return cell_estimates.changes(repetitions, by, "speed", setting="driver", against=BARE, confidence=confidence)


def table(cells: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """What is measured by place and network, and its change against that without containers."""
    value: Texts = {}
    for what, measure in WHATS.items():
        value |= measure.texts(_told(cells[cells["what"] == what]), *_NAMES)
    columns: dict[Hashable, Texts] = {
        "Value": value,
        CHANGE.title: CHANGE.texts(_told(changes), *_NAMES),
        "p (Holm)": p_values(_told(changes), *_NAMES),
    }
    order = {"place": list(PLACES.values()), "what": [measure.title for measure in WHATS.values()]}
    return tabulate(_NAMES, columns, order)


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of S0, all below `containerization/`: those of measures.common_values, and

    <system>/<network>/<place>/<what>/cpu, memory-read, memory-write, tcp or udp, and against-process (percent, less
    than 0 is slower), each with its interval.
    """
    found = common_values("containerization", runs, cells, gap)
    names = ("system", "driver", "place", "what")
    for what, measure in WHATS.items():
        measure.put(found, cells[cells["what"] == what], *names)
    CHANGE.put(found, changes, *names)
    return found


def _told(frame: pd.DataFrame) -> pd.DataFrame:
    """With the name of what is measured, and its unit, in place of its key."""
    return frame.assign(what=frame["what"].map({what: measure.title for what, measure in WHATS.items()}))
