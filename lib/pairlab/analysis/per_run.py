"""Each run reduced to one row: what the claims ledger's estimators work on.

A run is one repetition of one cell, so rows are the independent samples and no flow is one.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy import stats

from pairlab import completion_times
from pairlab.analysis import cpu_use
from pairlab.analysis.stats import SYSTEM
from pairlab.errors import AnalysisError
from pairlab.records import Run
from pairlab.spec import Spec

#: What experiments beyond the papers vary: a run that has other values than these decides nothing about the papers.
BEYOND = (
    "flows_per_pair",
    "udp_share",
    "congestion_control",
    "cpu_quota",
    "cpu_shares",
    "link_rate_bps",
    "link_loss",
)
#: What only its own experiment may vary, beside that.
OWN = {"cores": ("core-ratio", "pinning"), "pinning": ("pinning",), "message_bytes": ("message-size",)}
#: What all runs of one experiment of a system must share, or their numbers do not belong together.
CONDITIONS = ("duration_s", "warmup_s", "flow_bytes", "elephant_share", "elephant_bytes", "hosts", "placement")
#: A setting: runs that differ in nothing else but the repetition measure the same thing.
SETTING = ("experiment", *SYSTEM, "driver", "pairs", "cores", "pinning", "message_bytes", "ends")
#: Fewer clients than this have no correlation worth the name.
LEAST_CLIENTS = 4


def plain(spec: Spec) -> bool:
    """Whether a run asks for nothing that the papers did not."""
    default = {name: field.default for name, field in Spec.model_fields.items()}
    own = [name for name, experiments in OWN.items() if spec.experiment not in experiments]
    return all(getattr(spec, name) == default[name] for name in (*BEYOND, *own))


def reduce(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per plain run that counts.

    Columns: SETTING, repetition, containers_per_core, flows, failed_flows, and

    - total_bps, client_bps (total / pairs), least_over_most (the least client's throughput as a share of the most):
      a failed flow counts as zero;
    - fct_median_s, fct_mean_s, fct_max_s of flows with an end, the same as mouse_* and elephant_*, and fcts_s (an array
      of all their times): a failed flow is infinite in the array, and what hangs on it is NaN (completion_times.py);
    - correlation: Pearson's r of retransmits and throughput over the clients; busy: share of all CPUs' time in the
      window that was neither idle nor waiting for a disk (cpu_use.shares).

    What a run does not have is NaN. Raises AnalysisError where two runs claim one repetition of a setting, or runs of
    one experiment and system differ in CONDITIONS.
    """
    counted = [run for run in runs if run.status == "ok" and plain(run.spec)]
    _check_comparable([run.spec for run in counted])
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


def _row(run: Run) -> dict:
    spec, flows = run.spec, run.flows
    ok = flows["status"] == "ok"
    clients = flows["throughput_bps"].where(ok, 0.0).fillna(0.0).groupby(flows["pair"]).sum()
    cores = spec.cores or (run.facts.get("host") or {}).get("cpus") or np.nan
    to_end = flows if spec.flow_bytes else flows.iloc[:0]
    row = {
        **{name: getattr(spec, name) for name in (*SETTING[:-1], "repetition")},
        "ends": spec.flow_bytes > 0,
        "containers_per_core": 2 * spec.pairs / cores,
        "flows": len(flows),
        "failed_flows": int((~ok).sum()),
        "total_bps": float(clients.sum()),
        "client_bps": float(clients.sum()) / spec.pairs,
        "least_over_most": float(clients.min() / clients.max()) if clients.max() > 0 else np.nan,
        "fcts_s": completion_times.of(to_end).to_numpy(),
        "correlation": _correlation(flows[ok]),
        "busy": cpu_use.shares(run)["busy"],
    }
    for prefix, part in (("fct", to_end), *((role, to_end[to_end["role"] == role]) for role in ("mouse", "elephant"))):
        times_s = completion_times.of(part)
        row[f"{prefix}_median_s"] = completion_times.median(times_s)
        row[f"{prefix}_mean_s"] = completion_times.mean(times_s)
        row[f"{prefix}_max_s"] = completion_times.longest(times_s)
    return row


def _correlation(flows: pd.DataFrame) -> float:
    known = flows[["retransmits", "throughput_bps"]].dropna()
    if len(known) < LEAST_CLIENTS or (known.nunique() < 2).any():
        return np.nan
    return float(stats.pearsonr(known["retransmits"], known["throughput_bps"]).statistic)


def _check_comparable(specs: list[Spec]) -> None:
    values: dict[tuple, set] = {}
    for spec in specs:
        for condition in CONDITIONS:
            # Flows that end and flows that do not may stand in one experiment; their durations mean different things.
            where = (spec.experiment, spec.backend, spec.workload, spec.flow_bytes > 0, condition)
            values.setdefault(where, set()).add(getattr(spec, condition))
    for (experiment, backend, workload, _, condition), found in values.items():
        if len(found) > 1:
            raise AnalysisError(
                f"the runs of {experiment} with {backend}, {workload} differ in {condition}"
                f" ({', '.join(map(str, sorted(found)))}), so their numbers do not belong together."
                " Name one sweep, or keep them in a folder each"
            )
