"""CPU use beside throughput (E1): is the CPU the bottleneck, and what does a gigabyte cost?

The CPU is that of the whole host, all its CPUs together, over the measuring window: whatever else ran there counts.
A CPU is *busy* unless it is idle or waits for a disk; time that a hypervisor takes away is busy, since it is not there
to be used, but it is not *used* by anybody here.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates
from pairlab.analysis.output.formatting import systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, common_values, key_of, tabulate, texts
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.model import cpu_use
from pairlab.model.cpu_use import PARTS
from pairlab.model.records import Run
from pairlab.store.dataset import Runs

#: A CPU is saturated where at least this share of its time is busy.
SATURATED = 0.95
#: What is estimated for each cell; and what of it tables show.
MEASURES = {
    "total_bps": Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s"),
    "busy": Measure("Busy (%)", "busy", 1, 100, "%"),
    "usr": Measure("User (%)", "usr", 1, 100, "%"),
    "sys": Measure("System (%)", "sys", 1, 100, "%"),
    "softirq": Measure("Softirq (%)", "softirq", 1, 100, "%"),
    "host_s_per_gb": Measure("Host (CPU s/GB)", "host-cost", 3, unit="CPU s/GB"),
    "processes_s_per_gb": Measure("Processes (CPU s/GB)", "processes-cost", 3, unit="CPU s/GB"),
}
_SHOWN = tuple(MEASURES)
MEASURES |= {part: Measure(f"{part} (%)", part, 1, 100, "%") for part in PARTS if part not in MEASURES}


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: CPU use in its window (cpu_use.window_s), beside what was moved in it.

    Returns CELL, repetition, flows, failed_flows, total_bps, PARTS and busy (shares of all CPUs), cpus, host_s_per_gb
    (CPU seconds used on the host per 10^9 bytes of payload), processes_s_per_gb (those of the clients and servers
    themselves, by getrusage). Both costs are over the same time and bytes: from the release to the last process's end,
    and all that was sent meanwhile, in the warm-up too. The kernel counts the host's time in ticks (10 ms as a rule),
    so that a process alone on the host can come out up to some 3 % above it. What a run does not record is NaN.
    """
    rows = [_row(run) for run in runs if run.status == "ok"]
    by = [*CELL, "repetition"]
    columns = [*by, "flows", "failed_flows", "total_bps", *PARTS, "busy", "cpus"]
    columns += ["host_s_per_gb", "processes_s_per_gb"]
    return pd.DataFrame(rows, columns=columns).sort_values(by, ignore_index=True)


def others(runs: Iterable[Run]) -> str:
    """How much of the CPU time others had, in words: it is in the host's use, and in no cost."""
    shares = [run.checks.get("foreign_cpu") for run in runs if run.status == "ok"]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return "other processes' use not recorded"
    return f"other processes: at most {max(known) * 100:.1f} % of the CPU time"


def _row(run: Run) -> dict:
    shares, cpus, total_bps = cpu_use.shares(run), run.cpu["cpu"].nunique(), run.total_throughput_bps
    # What a process used is with its first flow.
    done = run.flows[(run.flows["status"] == "ok") & (run.flows["flow"] == 0)]
    carried_gb = cpu_use.carried_bytes(run) / 1e9 or np.nan
    own_s = done[["client_cpu_s", "server_cpu_s"]].sum(skipna=False).sum(skipna=False)
    return {
        **{name: getattr(run.spec, name) for name in (*CELL, "repetition")},
        "flows": len(run.flows),
        "failed_flows": run.failed_flows,
        "total_bps": total_bps,
        **shares,
        "cpus": cpus,
        "host_s_per_gb": cpu_use.host_s_per_gb(run),
        "processes_s_per_gb": own_s / carried_gb,
    }


def cells(repetitions: pd.DataFrame, confidence: float = 0.95) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as cell_estimates.means, by its name."""
    return {name: cell_estimates.means(repetitions, CELL, name, confidence) for name in MEASURES}


def saturation(busy: pd.DataFrame, level: float = SATURATED) -> pd.DataFrame:
    """From how many pairs on the CPU is saturated: one row per system and driver.

    busy: as cells()["busy"]. Returns SYSTEM, driver, from_pairs (the least pair count from which on every mean is at
    or above `level`; NaN where even the most pairs are below), sure_from_pairs (the same with every interval wholly
    at or above it), most_pairs and busy (the mean there), with low and high.
    """
    rows = []
    for names, line in busy.sort_values("pairs").groupby([*SYSTEM, "driver"], sort=True):
        most = line.iloc[-1]
        row = dict(zip([*SYSTEM, "driver"], names, strict=True))
        row |= {"from_pairs": _from(line, "value", level), "sure_from_pairs": _from(line, "low", level)}
        row |= {"most_pairs": int(most["pairs"]), "busy": most["value"], "low": most["low"], "high": most["high"]}
        rows.append(row)
    columns = ["from_pairs", "sure_from_pairs", "most_pairs", "busy", "low", "high"]
    return pd.DataFrame(rows, columns=[*SYSTEM, "driver", *columns])


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """CPU use, throughput and cost by pairs and driver; cells: as cells()."""
    names = {"system": "System", "pairs": "Pairs", "driver": "Driver"}
    return tabulate(names, {MEASURES[name].title: MEASURES[name].texts(cells[name], *names) for name in _SHOWN})


def saturation_table(saturated: pd.DataFrame, cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """From how many pairs on the CPU is saturated, and what a gigabyte costs at the most pairs.

    A row per system and driver. saturated: as saturation(); cells: as cells().
    """
    names = ("system", "driver")
    columns = {
        "Saturated from (pairs)": texts(saturated, names, lambda row: _pairs_text(row.from_pairs)),
        "Whole interval from (pairs)": texts(saturated, names, lambda row: _pairs_text(row.sure_from_pairs)),
        "Most pairs": texts(saturated, names, lambda row: str(row.most_pairs)),
    }
    at_most = saturated[[*SYSTEM, "driver"]].assign(pairs=saturated["most_pairs"])
    for name in ("busy", "host_s_per_gb", "processes_s_per_gb"):
        columns[MEASURES[name].title] = MEASURES[name].texts(cells[name].merge(at_most, on=list(CELL)), *names)
    return tabulate({"system": "System", "driver": "Driver"}, columns)


def values(runs: Runs, cells: dict[str, pd.DataFrame], saturated: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of CPU use, all below `cpu/`: those of measures.common_values, and

    - level: the share from which on a CPU is called saturated;
    - <system>/<driver>/<pairs>/busy, usr, sys, softirq, irq, steal (%), host-cost, processes-cost (CPU s/GB), total,
      each with -interval;
    - <system>/<driver>/saturated-from, surely-from: a pair count, or "never";
    - <system>/<driver>/most: busy at the most pairs; <system>/least-busy, most-busy: of the drivers, there.
    """
    if not gap and cells["busy"]["value"].isna().all():
        gap = "no run has samples of the CPU throughout"
    found = common_values("cpu", runs, cells["busy"], gap)
    found.text("level", f"{100 * SATURATED:g} %")
    for name, measure in MEASURES.items():
        measure.put(found, cells[name], "system", "driver", "pairs")
    for row in saturated.itertuples():
        key = key_of(row, "system", "driver")
        found.text(f"{key}/saturated-from", _pairs_text(row.from_pairs))
        found.text(f"{key}/surely-from", _pairs_text(row.sure_from_pairs))
        if row.busy == row.busy:
            found.text(f"{key}/most", f"{100 * row.busy:.1f} %")
    for system, part in systems(saturated.dropna(subset=["busy"])).items():
        found.text(f"{system}/least-busy", f"{100 * part['busy'].min():.1f} %")
        found.text(f"{system}/most-busy", f"{100 * part['busy'].max():.1f} %")
    return found


def _from(line: pd.DataFrame, bound: str, level: float) -> float:
    """The least pair count from which on all reach the level; line is in the order of pairs."""
    enough = line[bound].ge(level).to_numpy()
    if not enough[-1]:
        return np.nan
    below = np.flatnonzero(~enough)
    return float(line["pairs"].iloc[below[-1] + 1 if len(below) else 0])


def _pairs_text(pairs: float) -> str:
    return f"{pairs:.0f}" if pairs == pairs else "never"
