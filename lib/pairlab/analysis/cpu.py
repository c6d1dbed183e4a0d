"""CPU use beside throughput (E1): is the CPU the bottleneck, and what does a gigabyte cost?

The CPU is that of the whole host, all its CPUs together, over the measuring window: it holds whatever else ran there.
A CPU is *busy* unless it is idle or waits for a disk; time that a hypervisor takes away is busy, since it is not there
to be used, but it is not *used* by anybody here.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from pairlab.analysis import cpu_use, estimates
from pairlab.analysis.cpu_use import PARTS
from pairlab.analysis.latex import Values
from pairlab.analysis.layout import head, put, rows_by_driver, shown, systems
from pairlab.analysis.stats import CELL, SYSTEM
from pairlab.collection import Runs
from pairlab.records import Run

#: A CPU is saturated where at least this share of its time is busy.
SATURATED = 0.95
#: What is estimated for each cell, how tables call it, its scale and digits there.
_SHOWN = {
    "total_bps": ("Total (Gbit/s)", 1e-9, 2),
    "busy": ("Busy (%)", 100, 1),
    "usr": ("User (%)", 100, 1),
    "sys": ("System (%)", 100, 1),
    "softirq": ("Softirq (%)", 100, 1),
    "host_s_per_gb": ("Host (CPU s/GB)", 1, 3),
    "processes_s_per_gb": ("Processes (CPU s/GB)", 1, 3),
}


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: CPU use in its window (cpu_use.window_s), beside what was moved in it.

    Returns CELL, repetition, flows, failed_flows, total_bps, PARTS and busy (shares of all CPUs), cpus, host_s_per_gb
    (CPU seconds used on the host per 10^9 bytes of payload), processes_s_per_gb (those of the clients and servers
    themselves, by getrusage, over all they sent, in the warm-up too). What a run does not tell is NaN.
    """
    rows = [_row(run) for run in runs if run.status == "ok"]
    by = [*CELL, "repetition"]
    columns = [*by, "flows", "failed_flows", "total_bps", *PARTS, "busy", "cpus"]
    columns += ["host_s_per_gb", "processes_s_per_gb"]
    return pd.DataFrame(rows, columns=columns).sort_values(by, ignore_index=True)


def _row(run: Run) -> dict:
    shares, cpus, total_bps = cpu_use.shares(run), run.cpu["cpu"].nunique(), run.total_throughput_bps
    used = shares[["usr", "sys", "softirq", "irq"]].sum(skipna=False) * cpus
    done = run.flows[run.flows["status"] == "ok"]
    own_s = done[["client_cpu_s", "server_cpu_s"]].sum(skipna=False).sum(skipna=False)
    return {
        **{name: getattr(run.spec, name) for name in (*CELL, "repetition")},
        "flows": len(run.flows),
        "failed_flows": run.failed_flows,
        "total_bps": total_bps,
        **shares,
        "cpus": cpus,
        "host_s_per_gb": used / (total_bps / 8e9 or np.nan),
        "processes_s_per_gb": own_s / (_carried_bytes(run, done) / 1e9 or np.nan),
    }


def _carried_bytes(run: Run, done: pd.DataFrame) -> float:
    """Payload of these flows in all of their time; NaN where a warm-up was left out that no intervals tell of."""
    warm = run.intervals.loc[run.intervals["warmup"], "interval_bytes"]
    if cpu_use.warmup_s(run) and warm.empty:
        return np.nan
    return float(done["flow_bytes"].sum() + warm.sum())


def cells(repetitions: pd.DataFrame, confidence: float = 0.95) -> dict[str, pd.DataFrame]:
    """The mean over repetitions of throughput, of the parts of the CPU's time and of cost: estimates.means, by name."""
    names = [*_SHOWN, *(part for part in PARTS if part not in _SHOWN)]
    return {name: estimates.means(repetitions, CELL, name, confidence) for name in names}


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
    """CPU use, throughput and cost by pairs and driver: means ± half their interval.

    cells: as cells(), of one system.
    """
    keyed = {name: {(row.pairs, row.driver): row for row in frame.itertuples()} for name, frame in cells.items()}

    def tell(name: str):
        _, scale, digits = _SHOWN[name]
        return lambda cell: shown(keyed[name][cell.pairs, cell.driver], digits, scale=scale)

    columns = {told: tell(name) for name, (told, _, _) in _SHOWN.items()}
    return rows_by_driver(cells["busy"], ("pairs", "driver"), columns, heads=("Pairs", "Driver"))


def saturation_table(saturated: pd.DataFrame, cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """From how many pairs on the CPU is saturated, and what a gigabyte costs at the most pairs.

    A row per system and driver. saturated: as saturation(); cells: as cells(), of all systems.
    """
    keyed = {
        name: {(row.backend, row.workload, row.driver, row.pairs): row for row in frame.itertuples()}
        for name, frame in cells.items()
    }

    def at_most(name: str):
        _, scale, digits = _SHOWN[name]
        return lambda row: shown(
            keyed[name][row.backend, row.workload, row.driver, row.most_pairs], digits, scale=scale
        )

    parts = []
    for system, part in systems(saturated).items():
        columns = {
            "Saturated from (pairs)": lambda row: _pairs_text(row.from_pairs),
            "Surely from (pairs)": lambda row: _pairs_text(row.sure_from_pairs),
            "Most pairs": lambda row: str(row.most_pairs),
            **{_SHOWN[name][0]: at_most(name) for name in ("busy", "host_s_per_gb", "processes_s_per_gb")},
        }
        parts.append(
            rows_by_driver(part.assign(system=system), ("system", "driver"), columns, heads=("System", "Driver"))
        )
    return pd.concat(parts) if parts else pd.DataFrame()


def values(runs: Runs, cells: dict[str, pd.DataFrame], saturated: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of CPU use, all below `cpu/`: those of layout.head, and

    - level: the share from which on a CPU is called saturated; cpus: how many the host has;
    - <system>/<driver>/<pairs>/busy, usr, sys, softirq, irq, steal (%), host-cost, processes-cost (CPU s/GB), total,
      each with -interval;
    - <system>/<driver>/saturated-from, surely-from: a pair count, or "never";
    - <system>/<driver>/most: busy at the most pairs; <system>/least-busy, most-busy: of the drivers, there.
    """
    if not gap and cells["busy"]["value"].isna().all():
        gap = "no run has samples of the CPU throughout"
    found = head("cpu", runs, cells["busy"], gap)
    found.text("level", f"{100 * SATURATED:g} %")
    for name, frame in cells.items():
        _, scale, digits = _SHOWN.get(name, ("", 100, 1))
        unit = "Gbit/s" if name == "total_bps" else "CPU s/GB" if name.endswith("per_gb") else "%"
        short = name.replace("_s_per_gb", "-cost").replace("_bps", "")
        for cell in frame.itertuples():
            put(
                found,
                f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.pairs}/{short}",
                cell,
                digits,
                unit,
                scale=scale,
            )
    for row in saturated.itertuples():
        key = f"{row.backend}-{row.workload}/{row.driver}"
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
