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
COST = Measure("CPU time (ms/GB)", "cost", 1, 1e3, "ms/GB")
COST_CHANGE = Measure("Change of the CPU time per GB (%)", "cost-change", 0, unit="%", change=True)
#: What is estimated for each cell, in the order of the table; those per GB of 10^9 bytes of payload.
MEASURES = {
    "total_bps": Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s"),
    "voluntary_per_gb": Measure("Voluntary switches (1/GB)", "voluntary-switches", 0, unit="per GB"),
    "involuntary_per_gb": Measure("Involuntary switches (1/GB)", "involuntary-switches", 0, unit="per GB"),
    "interrupts_per_gb": Measure("Interrupts (1/GB)", "interrupts", 0, unit="per GB"),
    "net_rx_per_gb": Measure("NET_RX softirqs (1/GB)", "net-rx", 0, unit="per GB"),
    "hrtimer_per_gb": Measure("HRTIMER softirqs (1/GB)", "hrtimer", 0, unit="per GB"),
    "squeezes_per_gb": Measure("Squeezes (1/GB)", "squeezes", 2, unit="per GB"),
    "retransmits_per_gb": Measure("Retransmitted segments (1/GB)", "retransmits", 0, unit="per GB"),
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
    """A row per run that counts and layer (layers.names): BY, repetition, layer, share, s_per_gb.

    share: of the samples of CPUs that were not idle. s_per_gb: that share of the CPU seconds that the host used for
    10^9 bytes of payload.
    """
    rows = []
    for run in runs:
        if run.status == "ok":
            host_s_per_gb = cpu_use.host_s_per_gb(run)
            for layer, share in layers.shares(_stacks(run)).items():
                rows.append({**_cell(run), "layer": layer, "share": share, "s_per_gb": share * host_s_per_gb})
    return pd.DataFrame(rows, columns=[*BY, "repetition", "layer", "share", "s_per_gb"])


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


def layer_costs(shares: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The mean CPU time of each layer for a gigabyte over repetitions, as cell_estimates.means; of BY and layer."""
    return cell_estimates.means(shares, [*BY, "layer"], "s_per_gb", confidence)


def cost_changes(shares: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """How that time changes from the fewest pairs to the most, in percent, as cell_estimates.changes; of BY and layer.

    shares: as shares_by_repetition. Of a driver that was measured with one number of pairs there is no row.
    """
    by = [*(name for name in BY if name != "pairs"), "layer"]
    parts = []
    for _, part in shares.groupby([name for name in by if name != "layer"]):
        fewest, most = part["pairs"].min(), part["pairs"].max()
        ends = part[part["pairs"].isin([fewest, most])]
        if fewest < most:
            found = cell_estimates.changes(ends, by, "s_per_gb", setting="pairs", against=fewest, confidence=confidence)
            parts.append(found.assign(fewest=fewest))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


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


def cost_table(costs: pd.DataFrame, shares: pd.DataFrame, least: float = 0.005) -> pd.DataFrame:
    """The CPU time of each layer for a gigabyte, a column each, of the layers that layer_table() has."""
    shown = list(layer_table(shares, least).columns)
    return tabulate(_HEADS, across(COST.texts(costs[costs["layer"].isin(shown)], *_HEADS, "layer"), order=shown))


def values(
    runs: Runs,
    cells: dict[str, pd.DataFrame],
    shares: pd.DataFrame,
    costs: pd.DataFrame,
    changes: pd.DataFrame,
    gap: str,
) -> Values:
    r"""The keyed numbers of the causes, all below `causes/`: those of measures.common_values, and

    - <system>/<driver>/<congestion control>/<pairs>/<measure>, the keys of MEASURES, each with -interval;
    - <system>/<driver>/<congestion control>/<pairs>/<layer>: its share of the samples, with -interval; <layer>-cost:
      its CPU time for a gigabyte, with -interval;
    - <system>/<driver>/<congestion control>/<fewest>-<most>/<layer>-cost-change, with -interval: how that changes from
      the fewest pairs to the most; <layer>-cost-rises: the same, only where the whole interval is above zero.
    """
    found = common_values("causes", runs, cells["total_bps"], gap)
    names = ("system", "driver", "congestion_control", "pairs")
    for name, measure in MEASURES.items():
        measure.put(found, cells[name], *names)
    for layer, part in shares.groupby("layer"):
        SHARE.put(found, part, *names, key=_key(layer))
    for layer, part in costs.groupby("layer"):
        COST.put(found, part, *names, key=f"{_key(layer)}-cost")
    for cell in changes.itertuples():
        where = f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.congestion_control}/{cell.fewest}-{cell.pairs}"
        COST_CHANGE.put_one(found, f"{where}/{_key(cell.layer)}-cost-change", cell)
        if cell.low > 0:
            COST_CHANGE.put_one(found, f"{where}/{_key(cell.layer)}-cost-rises", cell)
    return found


def _key(layer: object) -> str:
    return str(layer).replace(" ", "-").lower()


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
