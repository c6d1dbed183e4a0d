"""Each run reduced to one row: what the claims ledger's estimators work on.

A run is one repetition of one cell, so rows are the independent samples and no flow is one.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from pairlab.analysis import selection
from pairlab.analysis.selection import SYSTEM, plain, plain_control
from pairlab.errors import AnalysisError
from pairlab.model import cpu_use, fct
from pairlab.model.records import Run
from pairlab.model.summaries import client_bps
from pairlab.statistics.correlation import fisher_z

#: A setting: runs that differ in nothing else but the repetition measure the same thing.
SETTING = ("experiment", *SYSTEM, "driver", "pairs", "cores", "pinning", "message_bytes", "ends")


def reduce(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per plain run that counts.

    Columns: SETTING, repetition, containers_per_core, flows, failed_flows, and

    - total_bps, client_bps (total / pairs), least_over_most (the least client's throughput as a share of the most):
      a failed flow counts as zero;
    - fct_mean_s, fct_max_s of flows with an end, the same as mouse_* and elephant_*, and fcts_s, mouse_fcts_s and
      elephant_fcts_s (arrays of all their times): a failed flow is infinite in the array, and what depends on it is NaN
      (model/fct.py);
    - correlation_z: Fisher's z of retransmits and throughput over the clients (statistics/correlation.py); busy: share
      of all CPUs' time in the window that was neither idle nor waiting for a disk (cpu_use.shares).

    What a run does not have is NaN. Raises AnalysisError where two runs claim one repetition of a setting, or runs of
    one experiment and system may not be compared (selection.check_alike).
    """
    ok = [run for run in runs if run.status == "ok"]
    control = plain_control(run.spec.congestion_control for run in ok)
    counted = [run for run in ok if plain(run.spec, control)]
    selection.check_alike(counted)
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
    clients = client_bps(flows)
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
        "correlation_z": _correlation(flows[ok]),
        "busy": cpu_use.shares(run)["busy"],
    }
    for prefix, part in (("fct", to_end), *((role, to_end[to_end["role"] == role]) for role in ("mouse", "elephant"))):
        times_s = fct.of(part)
        row["fcts_s" if prefix == "fct" else f"{prefix}_fcts_s"] = times_s.to_numpy()
        row[f"{prefix}_mean_s"] = fct.mean(times_s)
        row[f"{prefix}_max_s"] = fct.longest(times_s)
    return row


def _correlation(flows: pd.DataFrame) -> float:
    known = flows[["retransmits", "throughput_bps"]].dropna()
    return fisher_z(known["throughput_bps"], known["retransmits"])
