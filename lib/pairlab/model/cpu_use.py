"""What the host's CPUs did in the time that a run's throughput is taken over."""

import numpy as np
import pandas as pd

from pairlab.model.records import Run

#: What a CPU's time is split into, in the order it is drawn; irq is shown with softirq.
PARTS = ("usr", "sys", "softirq", "irq", "steal", "iowait", "idle")


def warmup_s(run: Run) -> float:
    """The warm-up that is left out of the flows' totals: what the spec asks for, and what was found after it."""
    return run.spec.warmup_s + run.checks.get("warmup_s", 0.0)


def window_s(run: Run) -> tuple[float, float]:
    """Begin and end of what the throughput is taken over, from the release: spec.total_s without the warm-up.

    It counts from when the flow in the middle began to send: when it was connected (its client let go, where the tool
    does not report it), and its tool had waited (facts; an older run that did not record it is taken as not waiting).
    Of clients that start one after the other, it is when all of them send. Without a flow that did its work both are
    NaN.
    """
    done = run.flows[run.flows["status"] == "ok"]
    due_s = done["pair"] * run.spec.start_spacing_s
    connected_s = float((done["connected_s"].fillna(done["start_s"]) - due_s).median())
    begun_s = connected_s + run.facts.get("waits_s", 0.0)
    return begun_s + run.spec.last_due_s + warmup_s(run), begun_s + run.spec.total_s


def used_s(run: Run) -> float:
    """CPU seconds used on the host from the release to the last sample, by whoever it was; NaN without samples."""
    cpu = run.cpu
    used = cpu[["usr", "sys", "softirq", "irq"]].sum(axis=1, skipna=False) * (
        cpu["end_s"] - cpu["start_s"].clip(lower=0)
    )
    return float(used.sum(skipna=False)) if len(cpu) else np.nan


def carried_bytes(run: Run) -> float:
    """Payload that the host's CPU time was for, of the flows that did their work, in all of their time.

    NaN where no intervals cover a warm-up, and where the background or interference used the CPUs, too.
    """
    if run.spec.background_pairs or run.spec.interference_workers:
        return np.nan
    warm = run.intervals.loc[run.intervals["warmup"], "interval_bytes"]
    if warmup_s(run) and warm.empty:
        return np.nan
    return float(run.flows.loc[run.flows["status"] == "ok", "flow_bytes"].sum() + warm.sum())


def host_s_per_gb(run: Run) -> float:
    """CPU seconds used on the host per 10^9 bytes of payload, over the same time; NaN where either is not known."""
    return used_s(run) / (carried_bytes(run) / 1e9 or np.nan)


def shares(run: Run) -> pd.Series:
    """Each of PARTS, and busy (neither idle nor waiting for a disk), as a share of all CPUs' time in the window.

    Samples weigh by how long they lie in the window; where none does, all is NaN.
    """
    begin_s, end_s = window_s(run)
    inside_s = np.minimum(run.cpu["end_s"], end_s) - np.maximum(run.cpu["start_s"], begin_s)
    weights = inside_s.clip(lower=0)
    found = run.cpu[list(PARTS)].mul(weights, axis=0).sum() / (weights.sum() or np.nan)
    found["busy"] = 1 - found["idle"] - found["iowait"]
    return found
