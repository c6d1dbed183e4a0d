"""Each run reduced to one row: the table that the effects of claims are found in.

A run is one repetition of one cell, so rows are the independent samples and no flow is one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pairlab import store
from pairlab.analysis import allocations, selection
from pairlab.analysis.selection import SYSTEM, plain
from pairlab.errors import AnalysisError
from pairlab.model import cpu_use, fct, latencies, launches
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import client_bps
from pairlab.statistics.correlation import fisher_z, leverage

#: What the papers say something of though they did not vary it, and the experiments whose runs may: a claim that does
#: not name it reads runs with its default only.
ASIDE = {
    "flows_per_pair": ("throughput",),
    "udp_share": ("udp", selection.MODES, selection.CONTAINERS, "cpu-overhead", *selection.BETWEEN),
    "udp_rate_bps": ("udp",),
}
#: A setting: runs that differ in nothing else but the repetition measure the same thing.
SETTING = (
    *("experiment", *SYSTEM, "driver", "pairs", "cores", "pinning", "message_bytes"),
    *("hosts", "placement", "uplink_rate_bps", "ranks"),
    *("background_pairs", "background_workload", "background_driver"),
    *("interference_workers", "interference_load", "interference_where", "interference_tool"),
    "cpus_awake",
    *("direction", "request_bytes", "response_bytes", "host_kind"),
    *("flow_sizes", "offered_load_bps", "requests", "fan_out", "arrivals", "launches", "idle_pairs"),
    *("congestion_control", *ASIDE, "ends"),
)
#: What workloads that send nothing measure (stress-ng), by the names of their metrics.
COMPUTED = ("calculation_s", "memory_read_bps", "memory_write_bps")
#: The share of the flows that paper M calls the smallest.
SMALLEST = 0.2
#: The shares of the CPUs' time that claims are on.
CPU = ("busy", "usr", "sys", "softirq")


def reduce(runs: Iterable[Run], wanted: Mapping[str, Collection[str]] | None = None) -> pd.DataFrame:
    """One row per run that counts, whose clients start together, and which is plain but for its congestion control and
    ASIDE.

    wanted: by experiment, which of QUANTITIES are asked for of its runs, as reading tables takes most of the time;
    None: all of them. Columns: SETTING, repetition, containers_per_core, flows, failed_flows, QUANTITIES, and

    - control_in_force, datapath (selection.in_force; empty where not recorded), duration_s as asked for;
    - allocation and known_as, its number and the driver's name in paper M (allocations.py), host_kinds: what its
      hosts are, virtualization: what the machine is (facts.host), loops_per_cpu: busy loops beside it for each CPU, and
      transacts: whether its flows are transactions.

    What a run does not have is NaN. Raises AnalysisError where two runs claim one repetition of a setting, or runs of
    one experiment and system may not be compared (selection.check_alike).
    """
    counted = [run for run in runs if run.status == "ok" and _is_of_claims(run.spec)]
    selection.check_alike(counted, also=("congestion_control", *ASIDE))
    rows = [_row(run, QUANTITIES if wanted is None else wanted.get(run.spec.experiment, ())) for run in counted]
    frame = pd.DataFrame(rows, columns=None if rows else [*SETTING, "repetition"])
    texts = frame.columns[[pd.api.types.is_string_dtype(kind) for kind in frame.dtypes]]
    frame = frame.astype(dict.fromkeys(texts, object))  # a third of the columns: as Arrow's, each is chosen from apart
    twice = frame[frame.duplicated([*SETTING, "repetition"], keep=False)]
    if len(twice):
        first = twice.iloc[0]
        raise AnalysisError(
            f"several runs claim to be repetition {first['repetition']} of {first['driver']} with"
            f" {first['pairs']} pairs ({first['experiment']}, {first['backend']}, {first['workload']}): they were"
            " measured under different specs. Name one sweep, or keep them in a folder each"
        )
    return frame


def _is_of_claims(spec: Spec) -> bool:
    named = [name for name, experiments in ASIDE.items() if spec.experiment in experiments]
    usual = {name: Spec.model_fields[name].default for name in ("congestion_control", *named)}
    return not spec.start_spacing_s and plain(spec.model_copy(update=usual))


def _row(run: Run, wanted: Iterable[str]) -> dict:
    """The run's row; what it is made of is kept with the run, as the same runs are asked many questions."""
    kept = vars(run).setdefault("_quantities", {})
    groups = list(dict.fromkeys(QUANTITIES[name] for name in wanted))
    if missing := [group for group in (_SETTING, *groups) if group.make not in kept]:
        read = _with_flows(run, {name for group in missing for name in ("status", *group.columns)})
        kept |= {group.make: group.make(read) for group in missing}
    return {name: value for group in (_SETTING, *groups) for name, value in kept[group.make].items()}


def _with_flows(run: Run, columns: set[str]) -> Run:
    """The run with these columns of its flows only, which a run on disk does not keep."""
    if "flows" in vars(run) or run.metrics:
        return run
    read = object.__new__(type(run))
    vars(read).update(vars(run), flows=store.columns(run, "flows", sorted(columns)).to_pandas(use_threads=False))
    return read


class _Group(NamedTuple):
    """Quantities that are made together, and the columns of the flows that this takes."""

    make: Callable[[Run], dict[str, Any]]
    names: Sequence[str] = ()
    columns: Sequence[str] = ()


def _setting(run: Run) -> dict[str, Any]:
    spec, host, in_force = run.spec, run.facts.get("host") or {}, selection.in_force(run)
    cpus = host.get("cpus") or np.nan
    return {
        **{name: getattr(spec, name) for name in (*SETTING[:-1], "repetition", "duration_s")},
        "control_in_force": in_force["congestion control"],
        "datapath": in_force["datapath"],
        "ends": spec.flows_end,
        "containers_per_core": 2 * spec.pairs / (spec.cores or cpus),
        "flows": len(run.flows),
        "failed_flows": int((run.flows["status"] != "ok").sum()),
        "allocation": allocations.of(spec),
        "known_as": allocations.known_as(spec.driver, spec.hosts),
        "host_kinds": _host_kinds(run),
        "virtualization": host.get("virtualization", ""),
        "loops_per_cpu": spec.interference_workers * spec.interference_load / cpus,
        "transacts": latencies.measured(run.flows),
    }


def _host_kinds(run: Run) -> str:
    """What the hosts of a run are: "machine" where each is one, "namespace" where some share a kernel; empty where not
    all are recorded.
    """
    kinds = [each.get("kind", "") for each in run.facts.get("hosts") or ()]
    if run.spec.hosts == 1:
        return "machine"
    if len(kinds) < run.spec.hosts or not all(kinds):
        return ""
    return "machine" if set(kinds) == {"machine"} else "namespace"


def _throughput(run: Run) -> dict[str, Any]:
    """total_bps, client_bps (total / pairs), least_over_most (the least client's throughput as a share of the most) and
    inner_least_over_most (the same without these two clients): a failed flow counts as zero. COMPUTED of runs that send
    nothing, which have no total_bps.
    """
    clients = client_bps(run.flows)
    total_bps, rates = float(clients.sum()), np.sort(clients.to_numpy())
    return {
        "total_bps": np.nan if run.sends_nothing else total_bps,
        "client_bps": total_bps / run.spec.pairs,
        "least_over_most": _least_over_most(rates),
        "inner_least_over_most": _least_over_most(rates[1:-1]),
        **{name: run.metric_values.get(name, np.nan) for name in COMPUTED},
    }


def _least_over_most(rising: np.ndarray) -> float:
    return float(rising[0] / rising[-1]) if len(rising) and rising[-1] > 0 else np.nan


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


def _traffic(run: Run) -> dict[str, Any]:
    """fct_all_s: how long all flows with an end took together; smallest_fcts_s: the times of those whose sizes are
    drawn, of the SMALLEST by size.
    """
    flows = run.flows if run.spec.flows_end else run.flows.iloc[:0]
    drawn = flows if run.spec.flow_sizes else flows.iloc[:0]
    smallest_s = fct.of(fct.smallest(drawn, SMALLEST), fct.column(run.spec)).to_numpy(copy=True)
    return {"fct_all_s": fct.all_s(flows), "smallest_fcts_s": smallest_s}


_WINDOW = ("pair", "connected_s", "start_s")
_COUNTS = ("transactions", "transactions_lost", "transactions_failed", "duration_s")
_SETTING = _Group(_setting, (), ("transactions",))
_GROUPS = (
    _Group(
        _throughput,
        ("total_bps", "client_bps", "least_over_most", "inner_least_over_most", *COMPUTED),
        ("pair", "request", "throughput_bps", "flow_bytes", "intended_start_s", "completed_s"),
    ),
    _Group(_correlation, ("spearman_z", "pearson_z", "leverage"), ("throughput_bps", "retransmits")),
    _Group(
        _times,
        (
            *("fcts_s", "fct_mean_s", "fct_max_s", "fct_least_over_most"),
            *(f"{role}_{name}" for role in ("mouse", "elephant") for name in ("fcts_s", "mean_s", "max_s")),
        ),
        ("role", "fct_s", "intended_fct_s"),
    ),
    _Group(
        _traffic,
        ("fct_all_s", "smallest_fcts_s"),
        ("size_bytes", "start_s", "intended_start_s", "completed_s", "fct_s", "intended_fct_s"),
    ),
    _Group(lambda run: cpu_use.shares(run)[list(CPU)].to_dict(), CPU, _WINDOW),
    _Group(lambda run: {"host_s_per_gb": cpu_use.host_s_per_gb(run)}, ("host_s_per_gb",), ("flow_bytes",)),
    _Group(
        lambda run: {"service_demand_s": cpu_use.service_demand_s(run)}, ("service_demand_s",), (*_WINDOW, *_COUNTS)
    ),
    _Group(
        lambda run: {"latency_mean_s": latencies.mean_of_flows(run.transactions, run.flows)},
        ("latency_mean_s",),
        _COUNTS,
    ),
    _Group(
        lambda run: {"launch_mean_s": launches.summaries(run.launches).get("launch_mean_s", np.nan)}, ("launch_mean_s",)
    ),
)
#: What a run has one value of, or the times of its flows, and how it is made: the docstrings above, cpu_use.shares,
#: cpu_use.host_s_per_gb, cpu_use.service_demand_s (CPU seconds per transaction), latencies.py and launches.py.
QUANTITIES = {name: group for group in _GROUPS for name in group.names}
