"""Each run reduced to one row: what the claims ledger's estimators work on.

A run is one repetition of one cell, so rows are the independent samples and no flow is one.
"""

import weakref
from collections.abc import Iterable

import numpy as np
import pandas as pd

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
#: The columns of the flows' table that a row is made of.
_OF_FLOWS = (
    *("pair", "request", "role", "status", "size_bytes", "flow_bytes", "throughput_bps", "retransmits"),
    *("start_s", "intended_start_s", "completed_s", "fct_s", "intended_fct_s"),
    *("transactions", "transactions_lost", "transactions_failed"),
)
#: The share of the flows that paper M calls the smallest.
SMALLEST = 0.2
#: The shares of the CPUs' time that claims are on.
CPU = ("busy", "usr", "sys", "softirq")


def reduce(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts, whose clients start together, and which is plain but for its congestion control and
    ASIDE.

    Columns: SETTING, repetition, containers_per_core, flows, failed_flows, and

    - control_in_force, datapath (selection.in_force; empty where not recorded), duration_s as asked for;
    - total_bps, client_bps (total / pairs), least_over_most (the least client's throughput as a share of the most),
      inner_least_over_most (the same without these two clients): a failed flow counts as zero;
    - COMPUTED, of runs that send nothing, which have no total_bps;
    - fct_mean_s, fct_max_s of flows with an end, the same as mouse_* and elephant_*, and fcts_s, mouse_fcts_s and
      elephant_fcts_s (arrays of all their times): a failed flow is infinite in the array, and what depends on it is NaN
      (model/fct.py); fct_least_over_most: the shortest as a share of the longest;
    - spearman_z, pearson_z: Fisher's z of retransmits and throughput over the clients, and leverage: the most that one
      client changes Pearson's r (statistics/correlation.py);
    - busy: share of all CPUs' time in the window that was neither idle nor waiting for a disk, usr, sys and softirq
      (cpu_use.shares), host_s_per_gb: CPU seconds of the host per 10^9 bytes of payload (cpu_use.host_s_per_gb), and
      service_demand_s: CPU seconds per transaction (cpu_use.service_demand_s);
    - allocation and known_as, its number and the driver's name in paper M (allocations.py), host_kinds: what its
      hosts are, virtualization: what the machine is (facts.host), loops_per_cpu: busy loops beside it for each CPU,
      latency_mean_s (latencies.py) and transacts: whether its flows are transactions, and launch_mean_s (launches.py);
    - of flows with an end, fct_all_s: how long all of them took together; and of those whose sizes are drawn,
      smallest_fcts_s: the times of the SMALLEST by size.

    What a run does not have is NaN. Raises AnalysisError where two runs claim one repetition of a setting, or runs of
    one experiment and system may not be compared (selection.check_alike).
    """
    counted = [run for run in runs if run.status == "ok" and _is_of_claims(run.spec)]
    selection.check_alike(counted, also=("congestion_control", *ASIDE))
    frame = pd.DataFrame([_row(run) for run in counted], columns=None if counted else [*SETTING, "repetition"])
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


#: The rows of runs that are still there, by identity: the same runs are asked many questions.
_rows: dict[int, tuple[weakref.ref[Run], dict]] = {}


def _row(run: Run) -> dict:
    """The run's row, made once."""
    at = id(run)
    if at not in _rows:
        _rows[at] = weakref.ref(run, lambda _: _rows.pop(at, None)), _reduced(run)
    return _rows[at][1]


def _reduced(run: Run) -> dict:
    spec, flows = run.spec, run.columns("flows", _OF_FLOWS)
    ok = flows["status"] == "ok"
    clients = client_bps(flows)
    cpus = (run.facts.get("host") or {}).get("cpus") or np.nan
    cores = spec.cores or cpus
    to_end = flows if spec.flows_end else flows.iloc[:0]
    of_sizes = to_end if spec.flow_sizes else flows.iloc[:0]
    known = flows[ok][["throughput_bps", "retransmits"]].dropna()
    across, counts = known["throughput_bps"], known["retransmits"]
    in_force = selection.in_force(run)
    row = {
        **{name: getattr(spec, name) for name in (*SETTING[:-1], "repetition", "duration_s")},
        "control_in_force": in_force["congestion control"],
        "datapath": in_force["datapath"],
        "ends": spec.flows_end,
        "containers_per_core": 2 * spec.pairs / cores,
        "flows": len(flows),
        "failed_flows": int((~ok).sum()),
        "total_bps": np.nan if run.sends_nothing else float(clients.sum()),
        **{name: run.metric_values.get(name, np.nan) for name in COMPUTED},
        "client_bps": float(clients.sum()) / spec.pairs,
        "least_over_most": _least_over_most(clients),
        "inner_least_over_most": _least_over_most(clients.sort_values().iloc[1:-1]),
        "spearman_z": fisher_z(across, counts, "spearman"),
        "pearson_z": fisher_z(across, counts),
        "leverage": leverage(across, counts),
        **cpu_use.shares(run)[list(CPU)],
        "host_s_per_gb": cpu_use.host_s_per_gb(run),
        "service_demand_s": cpu_use.service_demand_s(run),
        "allocation": allocations.of(spec),
        "known_as": allocations.known_as(spec.driver, spec.hosts),
        "host_kinds": _host_kinds(run),
        "virtualization": (run.facts.get("host") or {}).get("virtualization", ""),
        "loops_per_cpu": spec.interference_workers * spec.interference_load / cpus,
        "latency_mean_s": latencies.mean_of_flows(run.transactions, flows),
        "transacts": latencies.measured(flows),
        "launch_mean_s": launches.summaries(run.launches).get("launch_mean_s", np.nan),
        "fct_all_s": fct.all_s(to_end),
        "smallest_fcts_s": fct.of(fct.smallest(of_sizes, SMALLEST), fct.column(spec)).to_numpy(copy=True),
    }
    for prefix, part in (("fct", to_end), *((role, to_end[to_end["role"] == role]) for role in ("mouse", "elephant"))):
        times_s = fct.of(part, fct.column(spec))
        # Copied, as else even an empty one would keep the whole table of its run in memory.
        row["fcts_s" if prefix == "fct" else f"{prefix}_fcts_s"] = times_s.to_numpy(copy=True)
        row[f"{prefix}_mean_s"] = fct.mean(times_s)
        row[f"{prefix}_max_s"] = fct.longest(times_s)
    row["fct_least_over_most"] = row["fcts_s"].min() / row["fct_max_s"] if len(to_end) else np.nan
    return row


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


def _least_over_most(values: pd.Series) -> float:
    return float(values.min() / values.max()) if len(values) and values.max() > 0 else np.nan
