"""Networks on physical and on virtual hosts (S4), each held against no containers on physical ones."""

from collections.abc import Hashable

import pandas as pd

from pairlab.analysis import cell_estimates
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, p_values, tabulate
from pairlab.analysis.questions.message_size import size_text
from pairlab.analysis.questions.modes.by_message import BARE, BY, MESSAGES, TOTAL
from pairlab.store.dataset import Runs

KINDS = ("physical", "virtual")
CHANGE = Measure("Against physical process (%)", "against-physical", 1, unit="%", change=True, short=True)
_REFERENCE = f"{BARE}, {KINDS[0]}"
_NAMES = {"system": "System", "what": "What", "sized": "Size", "host_kind": "Hosts", "driver": "Network"}


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of each network on either kind of host against `process` on physical ones, in percent.

    Paired by repetition, as cell_estimates.changes. repetitions: as by_message.throughputs. Source: paper S, figure 7.
    """
    named = repetitions[repetitions["host_kind"].isin(KINDS)]
    named = named.assign(network=named["driver"] + ", " + named["host_kind"])
    by = [name for name in BY if name not in ("driver", "host_kind")]
    found = cell_estimates.changes(named, by, "total_bps", setting="network", against=_REFERENCE, confidence=confidence)
    parts = found["network"].str.partition(", ") if len(found) else pd.DataFrame(columns=[0, 1, 2], dtype=str)
    return found.assign(driver=parts[0], host_kind=parts[2])


def table(cells: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Throughput by protocol, size of messages, kind of host and network, and its changes."""
    shown, changed = (frame.assign(sized=[size_text(size) for size in frame["size"]]) for frame in (cells, changes))
    columns: dict[Hashable, Texts] = {
        TOTAL.title: TOTAL.texts(shown, *_NAMES),
        CHANGE.title: CHANGE.texts(changed, *_NAMES),
        "p (Holm)": p_values(changed, *_NAMES),
    }
    sizes = [size_text(size) for size in sorted(cells["size"].unique())]
    return tabulate(_NAMES, columns, {"what": list(MESSAGES), "sized": sizes, "host_kind": list(KINDS)})


def values(runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, *gaps: str) -> Values:
    r"""The keyed numbers, all below `virtualization/`: those of measures.common_values, and

    <system>/<driver>/<kind>/<what>/<size>/throughput and against-physical, each with its interval.
    """
    found = common_values("virtualization", runs, cells, *gaps)
    names = ("system", "driver", "host_kind", "what", "size")
    TOTAL.put(found, cells, *names)
    CHANGE.put(found, changes, *names)
    return found
