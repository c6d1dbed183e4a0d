"""Why a driver is slower: what the CPUs run, by layer of the network stack, and what the kernel counts for a gigabyte.

Both are of profiled runs (Spec.profile), whose throughput is lower than that of others: they are compared with each
other only. Counts are of the whole host, from the release to the last client's end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, layers
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, across, common_values, tabulate
from pairlab.analysis.selection import CELL, in_force
from pairlab.model import cpu_use
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: What one estimate is made for: the congestion control is the one in force, asked for or not.
BY = (*CELL, "congestion_control")
SHARE = Measure("Samples (%)", "share", 1, 100, "%")
#: What is estimated for each cell, in the order of the table; those per GB of 10^9 bytes of payload.
MEASURES = {
    "total_bps": Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s"),
    "voluntary_per_gb": Measure("Voluntary switches (1/GB)", "voluntary-switches", 0, unit="1/GB"),
    "involuntary_per_gb": Measure("Involuntary switches (1/GB)", "involuntary-switches", 0, unit="1/GB"),
    "interrupts_per_gb": Measure("Interrupts (1/GB)", "interrupts", 0, unit="1/GB"),
    "net_rx_per_gb": Measure("NET_RX softirqs (1/GB)", "net-rx", 0, unit="1/GB"),
    "hrtimer_per_gb": Measure("HRTIMER softirqs (1/GB)", "hrtimer", 0, unit="1/GB"),
    "squeezes_per_gb": Measure("Squeezes (1/GB)", "squeezes", 2, unit="1/GB"),
    "retransmits_per_gb": Measure("Retransmitted segments (1/GB)", "retransmits", 1, unit="1/GB"),
    "cycles_per_byte": Measure("Cycles (1/B)", "cycles", 2, unit="1/B"),
    "instructions_per_byte": Measure("Instructions (1/B)", "instructions", 2, unit="1/B"),
    "cache_misses_per_kb": Measure("Cache misses (1/kB)", "cache-misses", 2, unit="1/kB"),
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


def profiled(spec: Spec) -> bool:
    """Whether a run has a profile: only those are compared here."""
    return spec.profile


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: BY, repetition, flows, failed_flows, and MEASURES by name; NaN: not recorded.

    Switches are those of the clients and servers (getrusage(2)), over all that they sent, in a warm-up too; so are the
    counts of the host. Retransmitted segments are by the tool's count, over the measuring window.
    """
    rows = [_row(run) for run in runs if run.status == "ok"]
    by = [*BY, "repetition"]
    return pd.DataFrame(rows, columns=[*by, "flows", "failed_flows", *MEASURES]).sort_values(by, ignore_index=True)


def shares_by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """A row per run that counts and layer (layers.names): BY, repetition, layer, and its share of the samples of CPUs
    that were not idle."""
    rows = [
        {**_cell(run), "layer": layer, "share": share}
        for run in runs
        if run.status == "ok"
        for layer, share in layers.shares(_stacks(run)).items()
    ]
    return pd.DataFrame(rows, columns=[*BY, "repetition", "layer", "share"])


def stacks(runs: Iterable[Run]) -> Iterator[tuple[dict[str, object], Counter[str]]]:
    """By cell, in order: its values by the names in BY, and how often each stack was found, in all its repetitions."""
    found: dict[tuple, Counter[str]] = {}
    for run in runs:
        if run.status == "ok":
            cell = _cell(run)
            here = found.setdefault(tuple(cell[name] for name in BY), Counter())
            for stack, samples in _stacks(run):
                here[stack] += samples
    for cell, counted in sorted(found.items()):
        yield dict(zip(BY, cell, strict=True)), counted


def cells(repetitions: pd.DataFrame, confidence: float = 0.95) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as cell_estimates.means, by its name."""
    return {name: cell_estimates.means(repetitions, BY, name, confidence) for name in MEASURES}


def layer_cells(shares: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The mean share of each layer over repetitions, as cell_estimates.means; of BY and layer."""
    return cell_estimates.means(shares, [*BY, "layer"], "share", confidence)


#: The names of cells as tables call them.
_HEADS = {"system": "System", "pairs": "Pairs", "driver": "Driver", "congestion_control": "Congestion control"}


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """What a gigabyte takes, by pairs and driver; cells: as cells()."""
    return tabulate(_HEADS, {MEASURES[name].title: MEASURES[name].texts(cells[name], *_HEADS) for name in MEASURES})


def layer_table(shares: pd.DataFrame, least: float = 0.005) -> pd.DataFrame:
    """The share of each layer in percent, a column each, of those that have `least` anywhere; as layer_cells()."""
    most = shares.groupby("layer")["value"].max()
    shown = [layer for layer in layers.names() if most.get(layer, 0.0) >= least]
    texts = SHARE.texts(shares[shares["layer"].isin(shown)], *_HEADS, "layer")
    return tabulate(_HEADS, across(texts, order=shown))


def values(runs: Runs, cells: dict[str, pd.DataFrame], shares: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of the causes, all below `causes/`: those of measures.common_values, and

    - <system>/<driver>/<congestion control>/<pairs>/<measure>, the keys of MEASURES, each with -interval;
    - <system>/<driver>/<congestion control>/<pairs>/<layer>: its share of the samples, with -interval.
    """
    found = common_values("causes", runs, cells["total_bps"], gap)
    names = ("system", "driver", "congestion_control", "pairs")
    for name, measure in MEASURES.items():
        measure.put(found, cells[name], *names)
    for layer, part in shares.groupby("layer"):
        SHARE.put(found, part, *names, key=str(layer).replace(" ", "-").lower())
    return found


def _cell(run: Run) -> dict[str, object]:
    spec = {name: getattr(run.spec, name) for name in (*CELL, "repetition")}
    return spec | {"congestion_control": in_force(run)["congestion control"] or "unknown"}


def _stacks(run: Run) -> Iterator[tuple[str, int]]:
    return zip(run.profile["stack"], run.profile["samples"], strict=True)


def _row(run: Run) -> dict[str, object]:
    done = run.flows[run.flows["status"] == "ok"]
    carried_bytes = cpu_use.carried_bytes(run) or np.nan
    counters = run.facts.get("counters", {})

    # A client and a server count all their flows together, in the row of the first.
    first = done[done["flow"] == 0]
    return {
        **_cell(run),
        "flows": len(run.flows),
        "failed_flows": run.failed_flows,
        "total_bps": run.total_throughput_bps,
        "voluntary_per_gb": _switches(first, "voluntary") * 1e9 / carried_bytes,
        "involuntary_per_gb": _switches(first, "involuntary") * 1e9 / carried_bytes,
        **{name: counters.get(key, np.nan) * per / carried_bytes for name, (key, per) in _COUNTED.items()},
        "retransmits_per_gb": done["retransmits"].sum(skipna=False) * 1e9 / (done["flow_bytes"].sum() or np.nan),
    }


def _switches(flows: pd.DataFrame, kind: str) -> float:
    """Of clients and servers together; NaN where one is not known."""
    return float(flows[[f"{side}_{kind}_switches" for side in ("client", "server")]].to_numpy().sum())
