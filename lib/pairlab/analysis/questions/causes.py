"""Why a driver is slower: what the CPUs run, by layer of the network stack, and what the kernel counts for a gigabyte.

Both are of profiled runs (Spec.profile), whose throughput is lower than that of others: they are compared with each
other only. Counts are of the whole host, from the release to the last client's end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from pairlab.analysis import layers
from pairlab.analysis.cell_estimates import at_pairs
from pairlab.analysis.figures import causes as figures
from pairlab.analysis.layers import key
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Across, Answer, Change, Mean, Question, Table
from pairlab.analysis.questions.throughput import TOTAL
from pairlab.analysis.repetitions import Factor
from pairlab.analysis.selection import CELL, SYSTEM, in_force
from pairlab.analysis.sentences import per_system
from pairlab.model import cpu_use
from pairlab.model.records import Run

SHARE = Quantity("Samples (%)", "share", 1, 100, "%")
COST = Quantity("CPU time (ms/GB)", "cost", 1, 1e3, "ms/GB")
COST_CHANGE = Quantity("Change of the CPU time per GB (%)", "cost-change", 0, unit="%", change=True)
#: What is estimated for each cell, in the order of the table; those per GB of 10^9 bytes of payload.
MEASURES = {
    "total_bps": TOTAL,
    "voluntary_per_gb": Quantity("Voluntary switches (1/GB)", "voluntary-switches", 0, unit="per GB"),
    "involuntary_per_gb": Quantity("Involuntary switches (1/GB)", "involuntary-switches", 0, unit="per GB"),
    "interrupts_per_gb": Quantity("Interrupts (1/GB)", "interrupts", 0, unit="per GB"),
    "net_rx_per_gb": Quantity("NET_RX softirqs (1/GB)", "net-rx", 0, unit="per GB"),
    "hrtimer_per_gb": Quantity("HRTIMER softirqs (1/GB)", "hrtimer", 0, unit="per GB"),
    "squeezes_per_gb": Quantity("Squeezes (1/GB)", "squeezes", 2, unit="per GB"),
    "retransmits_per_gb": Quantity("Retransmitted segments (1/GB)", "retransmits", 0, unit="per GB"),
    "cycles_per_byte": Quantity("Cycles (1/B)", "cycles", 2, unit="1/B"),
    "instructions_per_byte": Quantity("Instructions (1/B)", "instructions", 2, unit="1/B"),
    "cache_misses_per_kb": Quantity("Cache misses (1/kB)", "cache-misses", 2, unit="1/kB"),
}
#: Of what the kernel counts (facts["counters"]), and for how many bytes.
_COUNTED = {
    "interrupts_per_gb": ("interrupts", 1e9),
    "net_rx_per_gb": ("softirqs_net_rx", 1e9),
    "hrtimer_per_gb": ("softirqs_hrtimer", 1e9),
    "squeezes_per_gb": ("softnet_time_squeeze", 1e9),
    "cycles_per_byte": ("cycles", 1),
    "instructions_per_byte": ("instructions", 1),
    "cache_misses_per_kb": ("cache_misses", 1e3),
}
#: Layers with a smaller share everywhere have no column.
_LEAST = 0.005


def of_run(run: Run) -> dict[str, object]:
    """MEASURES by name; NaN: not recorded.

    Switches are those of the clients and servers (getrusage(2)), over all that they sent, in a warm-up too; so are the
    counts of the host. Retransmitted segments are by the tool's count, over the measuring window.
    """
    done = run.flows[run.flows["status"] == "ok"]
    carried_bytes = cpu_use.carried_bytes(run) or np.nan
    counters = run.facts.get("counters", {})
    first = done[done["flow"] == 0]  # a client and a server count all their flows together, in the row of the first
    return {
        "total_bps": run.total_throughput_bps,
        "voluntary_per_gb": _switches(first, "voluntary") * 1e9 / carried_bytes,
        "involuntary_per_gb": _switches(first, "involuntary") * 1e9 / carried_bytes,
        **{name: counters.get(key, np.nan) * per / carried_bytes for name, (key, per) in _COUNTED.items()},
        "retransmits_per_gb": done["retransmits"].sum(skipna=False) * 1e9 / (done["flow_bytes"].sum() or np.nan),
    }


def _switches(flows: pd.DataFrame, kind: str) -> float:
    """Of clients and servers together; NaN where one is not known."""
    return float(flows[[f"{side}_{kind}_switches" for side in ("client", "server")]].to_numpy().sum())


def by_layer(run: Run) -> Iterator[dict[str, object]]:
    """Of each layer (layers.names): share, of the samples of CPUs that were not idle, and s_per_gb: that share of the
    CPU seconds that the host used for 10^9 bytes of payload; and what the run has of MEASURES.
    """
    host_s_per_gb, whole = cpu_use.host_s_per_gb(run), of_run(run)
    for layer, share in layers.shares(_stacks(run)).items():
        yield {"layer": layer, "share": share, "s_per_gb": share * host_s_per_gb, **whole}


def _stacks(run: Run) -> Iterator[tuple[str, int]]:
    return zip(run.profile["stack"], run.profile["samples"], strict=True)


def _control(run: Run) -> str:
    """The congestion control in force, asked for or not."""
    return in_force(run)["congestion control"] or "unknown"


def stacks(runs: Iterable[Run]) -> Iterator[tuple[dict[str, object], Counter[str]]]:
    """By cell, in order: its names and values, and how often each stack was found, in all its repetitions."""
    found: dict[tuple, Counter[str]] = {}
    names = ("backend", "workload", "driver", "pairs")
    for run in (run for run in runs if run.status == "ok"):
        here = found.setdefault((*(getattr(run.spec, name) for name in names), _control(run)), Counter())
        for stack, samples in _stacks(run):
            here[stack] += samples
    for cell, counted in sorted(found.items()):
        yield dict(zip((*names, "congestion_control"), cell, strict=True)), counted


def flame_graphs(answer: Answer) -> Iterator[str]:
    """A flame graph as SVG of each cell with the most pairs."""
    most = max((run.spec.pairs for run in answer.found), default=0)
    for cell, counted in stacks(answer.found):
        if cell["pairs"] == most:
            yield figures.flame_graph(counted, f"{', '.join(map(str, cell.values()))} pairs")


def _whole(repetitions: pd.DataFrame) -> pd.DataFrame:
    """A row per run: what all its layers have alike."""
    return repetitions[repetitions["layer"] == layers.names()[0]]


def _ends(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Those with the fewest and the most pairs of each line, where these differ."""
    pairs = repetitions.groupby(list(_LINE))["pairs"]
    fewest, most = pairs.transform("min"), pairs.transform("max")
    mine = repetitions.assign(fewest=fewest)
    return mine[(fewest < most) & ((mine["pairs"] == fewest) | (mine["pairs"] == most))]


def _shown(answer: Answer) -> list[str]:
    most = answer["share"].groupby("layer")["value"].max()
    return [layer for layer in layers.names() if most.get(layer, 0.0) >= _LEAST]


def _values(answer: Answer, found: Values) -> None:
    r"""<system>/<driver>/<congestion control>/<fewest>-<most>/<layer>-cost-change, with -interval: how the layer's CPU
    time for a gigabyte changes from the fewest pairs to the most; <layer>-cost-rises: the same, only where the whole
    interval is above zero.
    """
    for cell in answer["change"].itertuples():
        where = f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.congestion_control}/{cell.fewest}-{cell.pairs}"
        COST_CHANGE.put_one(found, f"{where}/{key(cell.layer)}-cost-change", cell)
        if cell.low > 0:
            COST_CHANGE.put_one(found, f"{where}/{key(cell.layer)}-cost-rises", cell)


def _largest(part: pd.DataFrame) -> str:
    """The layer with the largest mean share of each driver at the most pairs."""
    at_most = part[part["pairs"] == part["pairs"].max()].dropna(subset="value")
    largest = at_most.sort_values("value").drop_duplicates("driver", keep="last").sort_values("driver")
    parts = [f"{row.driver} {row.layer} ({100 * row.value:.0f} %)" for row in largest.itertuples()]
    return f"the layer with most of the CPU time at the most pairs is of {', '.join(parts)}" if parts else ""


_HEADS = {"pairs": "Pairs", "driver": "Driver", "congestion_control": "Congestion control"}
#: What a gigabyte takes, of what other tables do not tell.
_COUNTS = [name for name in MEASURES if name not in ("total_bps", "retransmits_per_gb")]
_NAMES = ("system", "driver", "congestion_control", "pairs")
_CELL, _LINE = (*CELL, "congestion_control"), (*SYSTEM, "driver", "congestion_control")


def _without_zeros(part: pd.DataFrame) -> pd.DataFrame:
    """What never happened needs no column on paper."""
    return part.loc[:, ~part.isin(["0.00"]).all()]


CAUSES = Question(
    topic="causes",
    which=lambda spec: spec.profile,
    by=[Factor("congestion_control", _control)],
    of_parts=["layer"],
    parts=by_layer,
    quantities=("share", "s_per_gb", *MEASURES),
    estimates={
        "share": Mean(SHARE, "share", key=lambda row: key(row.layer)),
        "cost": Mean(COST, "s_per_gb", key=lambda row: f"{key(row.layer)}-cost"),
        **{name: Mean(measure, name, _whole, _CELL) for name, measure in MEASURES.items()},
        "change": Change(
            *(COST_CHANGE, "s_per_gb", "pairs", lambda line: line["fewest"].iloc[0], _ends),
            each=_LINE,
            keep=("fewest",),
        ),
    },
    tables={
        "causes-layers": Table(_HEADS, [Across("share", "layer", _shown)]),
        "causes-costs": Table(_HEADS, [Across("cost", "layer", _shown)], file=False),
        "causes": Table(_HEADS, list(MEASURES), file=False),
        "causes-counts": Table(_HEADS, _COUNTS, trim=_without_zeros, wrapped=0.68),
    },
    figures={
        "causes-layers": lambda answer: (
            None if (known := answer.known("share")).empty else figures.by_layer(at_pairs(known), answer.conditions)
        )
    },
    keys=dict.fromkeys(("share", "cost", *MEASURES), _NAMES),
    main=("total_bps",),
    values=_values,
    answer=[per_system("share", _largest)],
)
