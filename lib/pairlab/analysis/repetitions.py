"""A row per run that counts: the table that estimates, tests and claims are made from.

A run is one repetition of one cell, so rows are the independent samples and no flow is one. What sets cells apart are
factors: fields of Spec, those of FACTORS, and a question's own. What was measured are QUANTITIES.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pairlab import store
from pairlab.analysis import allocations, selection
from pairlab.model import blocks, cpu_use, fct, latencies, launches
from pairlab.model.cpu_use import PARTS
from pairlab.model.environment import host_names
from pairlab.model.rates import client_bps
from pairlab.model.records import Run
from pairlab.statistics import intervals, tests
from pairlab.statistics.correlation import fisher_z, leverage
from pairlab.store.dataset import Runs

#: What workloads that send nothing measure (stress-ng), by the names of their metrics.
COMPUTED = ("calculation_s", "memory_read_bps", "memory_write_bps")
#: The share of the flows that Mentz et al. 2020 call the smallest.
SMALLEST = 0.2
#: What every row has beside its factors and quantities.
_ALWAYS = ("ends", "transacts", "flows", "failed_flows", "attempts")


class Factor(NamedTuple):
    """What sets cells apart, and its value of a run; None: the run belongs to no cell."""

    name: str
    of: Callable[[Run], object]


def table(
    runs: Runs,
    by: Sequence[str | Factor] = selection.CELL,
    quantities: Sequence[str] = ("total_bps", "client_bps", "jain_index"),
    *,
    alike: bool = True,
    parts: Callable[[Run], Iterable[Mapping[str, object]]] = lambda run: [{}],
    of_parts: Sequence[str] = (),
) -> pd.DataFrame:
    """One row per run that counts, or one for each of its parts.

    by: the factors that set cells apart: fields of Spec, names of FACTORS, "host", or a Factor each. quantities: of
    QUANTITIES, and those that `parts` gives. parts: what the row of each part of a run has besides, with the values of
    the factors `of_parts`. alike: whether runs of a system must have selection.CONDITIONS alike, but for `by`.

    Returns `by`, `of_parts`, run, repetition, block (its label), ends (its flows have an end), transacts (they are
    transactions), flows and failed_flows (its launches, where it has these), attempts (those of its cell), and the
    quantities, in base units, NaN where a run does not have them. Raises AnalysisError where several runs claim one
    repetition of a cell, or may not be pooled.
    """
    factors = [
        each if isinstance(each, Factor) else FACTORS.get(each) or Factor(each, attrgetter(f"spec.{each}"))
        for each in by
    ]
    names = [each.name for each in factors]
    counted = runs.where(status="ok") if len(runs) else runs
    if alike:
        selection.check_comparable(counted, names)
    hosts = host_names(run.environment for run in counted) if "host" in names else {}
    known = [name for name in quantities if name in QUANTITIES]
    of_runs = [
        (run, {each.name: hosts.get(run.environment) if each.name == "host" else each.of(run) for each in factors})
        for run in runs
    ]
    of_cells = [
        (run, {**cell, **part})
        for run, cell in of_runs
        if None not in cell.values() and run.status in ("ok", "invalid")
        for part in parts(run)
    ]
    apart = [*names, *of_parts]
    attempts = attempts_by((tuple(map(cell.get, apart)), run) for run, cell in of_cells)
    rows = [
        {
            "key": run.key,
            "run": run,
            "repetition": run.spec.repetition,
            "block": blocks.label_of(run),
            **values(run, known),
            **cell,
            "attempts": attempts[tuple(map(cell.get, apart))],
        }
        for run, cell in of_cells
        if run.status == "ok"
    ]
    found = pd.DataFrame(rows, columns=[*apart, "key", "run", "repetition", "block", *_ALWAYS, *quantities])
    selection.check_distinct(found, [*apart, "ends"], lambda: counted.counted("flows"))
    return found.drop(columns="key").sort_values([*apart, "repetition"], ignore_index=True)


class Attempts(NamedTuple):
    """Measurements of a cell, or of a side: so many did not count, of so many."""

    discarded: int
    made: int

    @classmethod
    def of(cls, runs: Iterable[Run]) -> "Attempts":
        discarded, made = np.sum([(0, 0), *(run.attempts for run in runs)], axis=0)
        return cls(int(discarded), int(made))

    def differ(self, other: "Attempts") -> bool:
        """Whether of one a larger share did not count than of the other: Fisher's exact test."""
        return tests.shares_differ(self, other) <= intervals.ALPHA


def attempts_by(cells: Iterable[tuple[Hashable, Run]]) -> dict[Hashable, Attempts]:
    """Those of each cell, whose runs are given with its name: runs that count, and invalid ones."""
    runs: dict[Hashable, list[Run]] = {}
    for name, run in cells:
        runs.setdefault(name, []).append(run)
    return {name: Attempts.of(its) for name, its in runs.items()}


def values(run: Run, quantities: Iterable[str]) -> dict[str, Any]:
    """These of QUANTITIES of a run, and what every row has; they are kept with it, as it is asked many questions."""
    kept = vars(run).setdefault("_quantities", {})
    groups = list(dict.fromkeys(QUANTITIES[name] for name in quantities))
    if missing := [group for group in (_COUNTED, *groups) if group.make not in kept]:
        read = _with_flows(run, {name for group in missing for name in ("status", *group.columns)})
        kept |= {group.make: group.make(read) for group in missing}
    return {name: value for group in (_COUNTED, *groups) for name, value in kept[group.make].items()}


def _with_flows(run: Run, columns: set[str]) -> Run:
    """The run with these columns of its flows only, which a run on disk does not keep."""
    if "flows" in vars(run) or run.metrics:
        return run
    read = object.__new__(type(run))
    vars(read).update(vars(run), flows=store.columns(run, "flows", sorted(columns)).to_pandas(use_threads=False))
    return read


_Make = Callable[[Run], dict[str, Any]]


class _Group(NamedTuple):
    """Quantities that are made together, the columns of the flows that this takes, and whether they are CPU time."""

    make: _Make
    columns: Sequence[str] = ()
    of_cpus: bool = False


#: What a run has one value of, or the times of its flows, and how it is made: the docstrings below, cpu_use.py,
#: latencies.py and launches.py.
QUANTITIES: dict[str, _Group] = {}
#: The columns of flows that say when a run was measured, and what became of its transactions.
_WINDOW = ("pair", "connected_s", "start_s")
_ANSWERED = ("transactions", "transactions_lost", "transactions_failed", "duration_s")


def _makes(*names: str, of: Sequence[str] = (), of_cpus: bool = False) -> Callable[[_Make], _Make]:
    """Adds what makes these QUANTITIES of these columns of the flows."""

    def added(make: _Make) -> _Make:
        QUANTITIES.update(dict.fromkeys(names, _Group(make, of, of_cpus)))
        return make

    return added


def _counted(run: Run) -> dict[str, Any]:
    rows = run.launches if run.spec.launches else run.flows
    return {
        "ends": run.spec.flows_end,
        "transacts": transacts(run),
        "flows": len(rows),
        "failed_flows": int((rows["status"] != "ok").sum()),
    }


_COUNTED = _Group(_counted, ("transactions",))


def transacts(run: Run) -> bool:
    """Whether a run's flows are transactions: where all failed, whether it asked for requests of some size."""
    return latencies.measured(run.columns("flows", ["transactions"])) or bool(run.spec.request_bytes)


def _cpus(run: Run) -> float:
    return (run.facts.get("host") or {}).get("cpus") or np.nan


def _host_kinds(run: Run) -> str:
    """What the hosts of a run are: "machine" where each is one, "uml" where each has a kernel of its own on one
    machine, "namespace" where some share a kernel; empty where not all are recorded.
    """
    kinds = [each.get("kind", "") for each in run.facts.get("hosts") or ()]
    if run.spec.hosts == 1 and "uml" not in kinds:
        return "machine"
    if len(kinds) < run.spec.hosts or not all(kinds):
        return ""
    return kinds[0] if len(set(kinds)) == 1 else "namespace"


def _virtualization(run: Run) -> str:
    """Whether the machines of a run are virtual, as they recorded it; "unknown" where some are and some are not."""
    machines = [each for each in (run.facts.get("network") or {}).get("kernels", ()) if "virtualization" in each]
    recorded = {each.get("virtualization", "") for each in machines or [run.facts.get("host") or {}]}
    return recorded.pop() if len(recorded) == 1 else "unknown"


@_makes(
    *("total_bps", "client_bps", "least_bps", "most_bps", "most_over_least", "least_over_most"),
    *("inner_least_over_most", "jain_index", *COMPUTED),
    of=("pair", "request", "throughput_bps", "flow_bytes", "intended_start_s", "completed_s"),
)
def _throughput(run: Run) -> dict[str, Any]:
    """`shared`, and client_bps (total / pairs). A failed flow counts as zero. COMPUTED of runs that send nothing, which
    have no total_bps.
    """
    found = shared(client_bps(run.flows).to_numpy())
    return {
        **found,
        "client_bps": found["total_bps"] / run.spec.pairs,
        **({"total_bps": np.nan} if run.sends_nothing else {}),
        **{name: run.metric_values.get(name, np.nan) for name in COMPUTED},
    }


def shared(clients_bps: np.ndarray) -> dict[str, float]:
    """How clients that got these rates share their network: total_bps; least_bps and most_bps of a client,
    most_over_least (infinite where one got nothing), least_over_most, and inner_least_over_most (without these two
    clients); jain_index. Source: Boeira et al. 2021, figure 3; Jain, Chiu and Hawe 1984.
    """
    rates = np.sort(clients_bps)
    least_bps, most_bps = rates[[0, -1]] if len(rates) else (np.nan, np.nan)
    return {
        "total_bps": float(rates.sum()),
        "least_bps": least_bps,
        "most_bps": most_bps,
        "most_over_least": most_bps / least_bps if least_bps > 0 else np.inf,
        "jain_index": intervals.jain_index(rates) if len(rates) else np.nan,
        "least_over_most": _least_over_most(rates),
        "inner_least_over_most": _least_over_most(rates[1:-1]),
    }


def _least_over_most(rising: np.ndarray) -> float:
    return float(rising[0] / rising[-1]) if len(rising) and rising[-1] > 0 else np.nan


@_makes("spearman_z", "pearson_z", "leverage", of=("throughput_bps", "retransmits"))
def _correlation(run: Run) -> dict[str, Any]:
    """spearman_z, pearson_z: Fisher's z of retransmits and throughput over the clients, and leverage: the most that one
    client changes Pearson's r (statistics/correlation.py).
    """
    known = run.flows.loc[run.flows["status"] == "ok", ["throughput_bps", "retransmits"]].dropna()
    across, counts = known["throughput_bps"], known["retransmits"]
    return {
        "spearman_z": fisher_z(across, counts, "spearman"),
        "pearson_z": fisher_z(across, counts),
        "leverage": leverage(across, counts),
    }


@_makes(
    *("fcts_s", "fct_mean_s", "fct_max_s", "fct_least_over_most"),
    *(f"{role}_{name}" for role in ("mouse", "elephant") for name in ("fcts_s", "mean_s", "max_s")),
    of=("role", "fct_s", "intended_fct_s"),
)
def _times(run: Run) -> dict[str, Any]:
    """Of flows with an end fct_mean_s, fct_max_s, the same as mouse_* and elephant_*, and fcts_s, mouse_fcts_s and
    elephant_fcts_s (arrays of all their times): a failed flow is infinite in the array, and what depends on it is NaN
    (model/fct.py); fct_least_over_most: the shortest as a share of the longest.
    """
    flows = run.flows if run.spec.flows_end else run.flows.iloc[:0]
    times_s, roles = fct.of(flows, fct.column(run.spec)).to_numpy(), flows["role"].to_numpy()
    found: dict[str, Any] = {}
    for prefix, part_s in (("fct", times_s), *((role, times_s[roles == role]) for role in ("mouse", "elephant"))):
        # Copied, as else even an empty one would keep all of its run in memory.
        found["fcts_s" if prefix == "fct" else f"{prefix}_fcts_s"] = part_s.copy()
        found[f"{prefix}_mean_s"], found[f"{prefix}_max_s"] = fct.mean(part_s), fct.longest(part_s)
    return found | {"fct_least_over_most": times_s.min() / found["fct_max_s"] if len(times_s) else np.nan}


@_makes(
    *("fct_all_s", "smallest_fcts_s"),
    of=("size_bytes", "start_s", "intended_start_s", "completed_s", "fct_s", "intended_fct_s"),
)
def _traffic(run: Run) -> dict[str, Any]:
    """fct_all_s: how long all flows with an end took together; smallest_fcts_s: the times of those whose sizes are
    drawn, of the SMALLEST by size.
    """
    flows = run.flows if run.spec.flows_end else run.flows.iloc[:0]
    drawn = flows if run.spec.flow_sizes else flows.iloc[:0]
    smallest_s = fct.of(fct.smallest(drawn, SMALLEST), fct.column(run.spec)).to_numpy(copy=True)
    return {"fct_all_s": fct.all_s(flows), "smallest_fcts_s": smallest_s}


@_makes("latency_mean_s", "transactions_per_s", *map(latencies.measure, latencies.SHARES), of=_ANSWERED)
def _latencies(run: Run) -> dict[str, Any]:
    """Of transactions latency_mean_s, the quantiles latency_*_s, and transactions_per_s: as model/summaries.py."""
    found = dict.fromkeys(("latency_mean_s", "transactions_per_s", *map(latencies.measure, latencies.SHARES)), np.nan)
    if latencies.measured(run.flows):
        found["latency_mean_s"] = latencies.mean_of_flows(run.transactions, run.flows)
        found |= {latencies.measure(name): value for name, value in run.latency_quantiles_s.items()}
        found["transactions_per_s"] = latencies.rate_per_s(run.flows)
    return found


@_makes(*launches.MEASURES, *launches.PHASES.values())
def _launches(run: Run) -> dict[str, Any]:
    """Of a run's launches: what launches.MEASURES and launches.PHASES name, in s."""
    found = {**launches.summaries(run.launches), **(launches.phases(run.launches) if len(run.launches) else {})}
    return {name: found.get(name, np.nan) for name in (*launches.MEASURES, *launches.PHASES.values())}


@_makes(
    *("host_s_per_gb", "processes_s_per_gb"),
    of=("flow", "flow_bytes", "client_cpu_s", "server_cpu_s"),
    of_cpus=True,
)
def _costs(run: Run) -> dict[str, Any]:
    """host_s_per_gb: cpu_use.host_s_per_gb; processes_s_per_gb: what clients and servers used themselves (getrusage)
    over the same time and for the same 10^9 bytes of payload. The kernel counts the host's time in ticks (10 ms as a
    rule), so that a process alone on the host can come out up to some 3 % above it.
    """
    done = run.flows[(run.flows["status"] == "ok") & (run.flows["flow"] == 0)]  # what a process used is with its first
    own_s = done[["client_cpu_s", "server_cpu_s"]].sum(skipna=False).sum(skipna=False)
    carried_gb = cpu_use.carried_bytes(run) / 1e9 or np.nan
    return {"host_s_per_gb": cpu_use.host_s_per_gb(run), "processes_s_per_gb": own_s / carried_gb}


@_makes(*PARTS, "busy", "rest", of=_WINDOW, of_cpus=True)
def _cpu(run: Run) -> dict[str, Any]:
    """cpu_use.shares, and rest: what is neither user, system, softirq, nor idle."""
    shares = cpu_use.shares(run)
    return {**shares, "rest": shares["irq"] + shares["steal"] + shares["iowait"]}


@_makes("busiest_share", "others_share", "softirq_share", of=_WINDOW, of_cpus=True)
def _busiest(run: Run) -> dict[str, Any]:
    """Of the busiest CPU its share of work and of softirq, and the mean of the others, in the measuring window."""
    by_cpu = cpu_use.by_cpu(run).sort_values("work", ascending=False)
    busiest = by_cpu.iloc[0] if len(by_cpu) else {"work": np.nan, "softirq": np.nan}
    return {
        "busiest_share": float(busiest["work"]),
        "others_share": float(by_cpu["work"].iloc[1:].mean()) if len(by_cpu) else np.nan,
        "softirq_share": float(busiest["softirq"]),
    }


@_makes(
    *("service_demand_s", *(f"{side}_{name}" for side in cpu_use.SIDES for name in ("share", "demand_s"))),
    of=(*_WINDOW, *_ANSWERED),
    of_cpus=True,
)
def _demands(run: Run) -> dict[str, Any]:
    """service_demand_s: cpu_use.service_demand_s; of either end's CPU, where it had one of its own, the share that is
    work, and that for each transaction.
    """
    sides = cpu_use.by_side(run)
    columns = {"share": "utilisation", "demand_s": "service_demand_s"}
    of_sides = {
        f"{side}_{name}": sides[column].get(side, np.nan) for side in cpu_use.SIDES for name, column in columns.items()
    }
    return {"service_demand_s": cpu_use.service_demand_s(run), **of_sides}


def _udp_lost(run: Run) -> float:
    """The share of the datagrams that all flows of a run lost; NaN where none counts them."""
    if not run.spec.udp_share:
        return np.nan
    counted = ["datagrams_sent", "datagrams_lost"]
    counts = run.columns("flows", counted)[counted].astype(float).sum(min_count=1)
    return counts["datagrams_lost"] / counts["datagrams_sent"] if counts["datagrams_sent"] else np.nan


#: What sets runs apart and is no field of their spec, or not as it is: control_in_force and datapath as
#: selection.in_force has them (empty: not recorded); work_version: of the tool, if each version does other work; cores
#: really used; allocation and known_as, its number and the driver's name in Mentz et al. 2020; host_kinds and
#: virtualization: of its hosts and the machine; udp_lost, a share.
FACTORS = {
    name: Factor(name, of)
    for name, of in {
        "control_in_force": lambda run: selection.in_force(run)["congestion control"],
        "datapath": lambda run: selection.in_force(run)["datapath"],
        "work_version": selection.version_of_work,
        "ends": lambda run: run.spec.flows_end,
        "cores_used": lambda run: float(run.spec.cores or _cpus(run)),
        "containers_per_core": lambda run: 2 * run.spec.pairs / (run.spec.cores or _cpus(run)),
        "loops_per_cpu": lambda run: run.spec.interference_workers * run.spec.interference_load / _cpus(run),
        "allocation": lambda run: allocations.of(run.spec),
        "known_as": lambda run: allocations.known_as(run.spec.driver, run.spec.hosts),
        "host_kinds": _host_kinds,
        "udp_lost": _udp_lost,
        "virtualization": _virtualization,
    }.items()
}
