"""What one pair gets on each allocation of paper M, alone, beside busy loops and beside a background pair (M1 to M3).

Throughput, latency and the CPUs' time, by driver: how far they lie from those of the host's own network, and how far
what runs beside the pair moves them from what it gets alone.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis import allocations, cell_estimates, published, selection
from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, p_values, tabulate, texts
from pairlab.model import cpu_use, latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import summaries
from pairlab.store.dataset import Runs

#: What a pair has beside it where it has nothing.
ALONE = "alone"
#: What is said besides of runs in which idle CPUs did not sleep.
AWAKE = "CPUs awake"
#: What one estimate is made for.
BY = (*selection.CELL, "allocation", "beside")
#: Of bulk flows, and of transactions.
THROUGHPUT = Measure("Throughput (Gbit/s)", "throughput", 2, 1e-9, "Gbit/s", short=True)
LATENCY = Measure("Mean latency (µs)", "latency", 2, 1e6, "µs", short=True)
MEASURES = {"total_bps": THROUGHPUT, "latency_mean_s": LATENCY}
#: The parts of the CPUs' time as paper M's figure 6 has them; rest is all that is neither these nor idle.
CPU = {
    "usr": Measure("User (%)", "usr", 1, 100, "%"),
    "sys": Measure("System (%)", "sys", 1, 100, "%"),
    "softirq": Measure("Softirq (%)", "softirq", 1, 100, "%"),
    "rest": Measure("Rest (%)", "rest", 1, 100, "%"),
}
AGAINST_ALONE = Measure("Against alone (%)", "against-alone", 1, unit="%", change=True, short=True)
AGAINST_HOST = Measure("Against host (%)", "against-host", 1, unit="%", change=True, short=True)

_NAMES = {"system": "System", "place": "Allocation", "beside": "Beside", "driver": "Driver"}


def beside(spec: Spec) -> str:
    """What runs beside the pairs, in words: "alone", "2 busy loops", "20 loops at 10 %", "1 background pair"; "alone,
    CPUs awake" where idle CPUs were kept from sleeping.

    Busy loops are on the clients' hosts, and the background is flowgen's, where nothing else is said.
    """
    told = []
    if spec.interference_workers:
        loops = "busy loop" if spec.interference_load == 1 else "loop"
        loops = loops if spec.interference_tool == "flowgen" else f"{spec.interference_tool} stressor"
        share = "" if spec.interference_load == 1 else f" at {spec.interference_load * 100:g} %"
        where = {"client": "", "server": " by the servers", "both": " on both sides"}[spec.interference_where]
        told.append(f"{spec.interference_workers} {loops}{'s' * (spec.interference_workers > 1)}{share}{where}")
    if spec.background_pairs:
        tool = "" if spec.background_workload == "flowgen" else f" of {spec.background_workload}"
        network = " over the hosts' own network" * bool(spec.background_driver)
        told.append(f"{spec.background_pairs} background pair{'s' * (spec.background_pairs > 1)}{tool}{network}")
    awake = [AWAKE] if spec.cpus_awake else []
    return ", ".join([*(told or [ALONE]), *awake])


def with_loops_by_clients(spec: Spec) -> bool:
    """Whether a run is of paper M's kind: of interference, only beside loops on the clients' hosts."""
    return spec.experiment != "interference" or bool(spec.interference_workers and spec.interference_where == "client")


def with_loops_by_servers(spec: Spec) -> bool:
    """Whether a run is of paper S's kind: of interference, alone or beside loops on the servers' hosts."""
    return spec.experiment == "interference" and (not spec.interference_workers or spec.interference_where == "server")


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts and is on one of the allocations.

    Returns BY, repetition, known_as (the driver's name in paper M), transacts (whether its flows are transactions),
    total_bps in bit/s of other flows, latency_mean_s in s of transactions, and CPU: shares of all CPUs' time in the
    window. What a run does not have is NaN. Raises AnalysisError where two runs claim one repetition of a cell.
    """
    rows = [_row(run) for run in runs if run.status == "ok" and allocations.of(run.spec)]
    columns = [*BY, "key", "repetition", "known_as", "transacts", "flows", "failed_flows", *MEASURES, *CPU]
    found = pd.DataFrame(rows, columns=columns)
    selection.check_distinct(found, BY)
    return found.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def _row(run: Run) -> dict[str, Any]:
    spec, found, shares = run.spec, summaries(run), cpu_use.shares(run)
    answered = latencies.measured(run.flows)
    return {
        **{name: getattr(spec, name) for name in (*selection.CELL, "repetition")},
        "allocation": allocations.of(spec),
        "beside": beside(spec),
        "key": run.key,
        "known_as": allocations.known_as(spec.driver, spec.hosts),
        "transacts": answered,
        "flows": len(run.flows),
        "failed_flows": run.failed_flows,
        "total_bps": np.nan if answered else found.get("total_bps", np.nan),
        "latency_mean_s": latencies.mean_of_flows(run.transactions, run.flows),
        **shares[["usr", "sys", "softirq"]],
        "rest": shares[["irq", "steal", "iowait"]].sum(skipna=False),
    }


def of(repetitions: pd.DataFrame, name: str) -> pd.DataFrame:
    """The repetitions whose runs measure that one of MEASURES: bulk flows or transactions."""
    return repetitions[repetitions["transacts"] == (name == "latency_mean_s")]


def by_backend(repetitions: pd.DataFrame, name: str) -> list[tuple[str, pd.DataFrame]]:
    """The parts of `of` by backend, each with how the name of its figure ends: not at all for namespaces, or alone."""
    parts = sorted(of(repetitions, name).groupby("backend"), key=lambda part: part[0] != "netns")
    return [("" if number == 0 else f"-{backend}", part) for number, (backend, part) in enumerate(parts)]


def cells(repetitions: pd.DataFrame, name: str, confidence: float) -> pd.DataFrame:
    """The mean of one of MEASURES by driver, allocation and what runs beside, as cell_estimates.means."""
    return cell_estimates.means(of(repetitions, name), BY, name, confidence)


def cpu_cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of CPU beside bulk flows, as cell_estimates.means; where no sample is, it has a gap."""
    return {part: cell_estimates.means(of(repetitions, "total_bps"), BY, part, confidence) for part in CPU}


def against_alone(repetitions: pd.DataFrame, name: str, confidence: float) -> pd.DataFrame:
    """The change of one of MEASURES against what a pair has alone over the same driver, in percent.

    Paired by repetition, as cell_estimates.changes. Source: paper M, section IV-B and IV-C, which states no interval.
    """
    by = [each for each in BY if each != "beside"]
    return cell_estimates.changes(
        of(repetitions, name), by, name, setting="beside", against=ALONE, confidence=confidence
    )


def against_host(repetitions: pd.DataFrame, name: str, confidence: float) -> pd.DataFrame:
    """The same against the host's own network in the same place, or against what stands in for it (allocations.py)."""
    by = [each for each in BY if each != "driver"]
    mine = of(repetitions, name)
    parts = []
    for _, part in mine.groupby(by):
        hosts = sorted(part.loc[part["known_as"] == "host", "driver"].unique())
        if hosts:  # `host` before `process`
            reference = hosts[0]
            parts.append(
                cell_estimates.changes(part, by, name, setting="driver", against=reference, confidence=confidence)
            )
    kept = [part for part in parts if len(part)]
    return pd.concat(kept, ignore_index=True) if kept else _no_changes(mine, by, name, confidence)


def _no_changes(repetitions: pd.DataFrame, by: list[str], name: str, confidence: float) -> pd.DataFrame:
    return cell_estimates.changes(
        repetitions.iloc[:0], by, name, setting="driver", against="host", confidence=confidence
    )


def table(name: str, cells: pd.DataFrame, to_host: pd.DataFrame, to_alone: pd.DataFrame | None = None) -> pd.DataFrame:
    """One of MEASURES by allocation, what runs beside, and driver; its changes, and those that paper M states.

    to_host: as against_host; to_alone: as against_alone, where something runs beside the pairs.
    """
    names = _names(cells)
    columns: dict[Hashable, Texts] = {
        MEASURES[name].title: MEASURES[name].texts(_with_place(cells), *names),
        AGAINST_HOST.title: AGAINST_HOST.texts(_with_place(to_host), *names),
    }
    if to_alone is not None:
        changed = _with_place(to_alone)
        columns[AGAINST_ALONE.title] = AGAINST_ALONE.texts(changed, *names)
        columns["p (Holm)"] = p_values(changed, *names)
        stated = _stated({"total_bps": "throughput", "latency_mean_s": "latency"}[name])
        columns["Paper M (%)"] = texts(changed, tuple(names), lambda row: stated.get(_stated_key(row), MISSING))
    return tabulate(names, columns, {"place": list(ALLOCATIONS.values())})


def cpu_table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The parts of the CPUs' time by allocation, what runs beside, and driver."""
    names = _names(cells["usr"])
    columns: dict[Hashable, Texts] = {
        CPU[part].title: CPU[part].texts(_with_place(frame), *names) for part, frame in cells.items()
    }
    return tabulate(names, columns, {"place": list(ALLOCATIONS.values())})


def values(
    topic: str,
    runs: Runs,
    cells: dict[str, pd.DataFrame],
    to_host: dict[str, pd.DataFrame],
    to_alone: dict[str, pd.DataFrame],
    cpu: dict[str, pd.DataFrame],
    *gaps: str,
) -> Values:
    r"""The keyed numbers, all below `topic`: those of measures.common_values, and

    <system>/<driver>/<allocation>/<beside>/throughput or latency, against-host and against-alone (of the throughput, or
    else of the latency), usr, sys, softirq, rest: each with its interval. <allocation> is its number.
    """
    every = pd.concat([frame for frame in cells.values() if len(frame)] or [*cells.values()][:1], ignore_index=True)
    found = common_values(topic, runs, every, *gaps)
    names = ("system", "driver", "allocation", "beside")
    for name in cells:
        MEASURES[name].put(found, cells[name], *names)
        AGAINST_HOST.put(found, to_host[name], *names)
        if name in to_alone:
            AGAINST_ALONE.put(found, to_alone[name], *names)
    for part in cpu:
        CPU[part].put(found, cpu[part], *names)
    return found


def _names(cells: pd.DataFrame) -> dict[str, str]:
    """The heads of a table of these cells: what runs beside the pairs is not told where nothing does in any of them."""
    alone = (cells["beside"] == ALONE).all()
    return {name: head for name, head in _NAMES.items() if not (alone and name == "beside")}


def _with_place(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(place=frame["allocation"].map(ALLOCATIONS))


def _stated(what: str) -> dict[tuple, str]:
    """The changes against alone that paper M states, by experiment, allocation and driver."""
    rows = published.load("placement_changes")
    mine = rows[(rows["what"] == what) & (rows["against"] == "placement")]
    return {
        (row.experiment, int(row.allocation), driver): _between(row.low_percent, row.high_percent)
        for row in mine.itertuples()
        for driver in (("host", "bridge", "macvlan", "overlay") if row.driver == "all" else (row.driver,))
    }


def _stated_key(row) -> tuple:
    if "by the servers" in row.beside:  # as paper S has them
        return ()
    experiment = "congestion" if "background" in row.beside else "interference"
    return experiment, row.allocation, allocations.STANDS_FOR.get(row.driver, row.driver)


def _between(low: float, high: float) -> str:
    return f"{low:+g}" if low == high else f"{low:+g} to {high:+g}"
