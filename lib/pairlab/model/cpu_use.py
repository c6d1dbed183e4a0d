"""CPU use of the host in the window of a run's throughput."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pairlab.model import latencies
from pairlab.model.records import Run

#: The kinds of CPU time, in the order in which they are drawn; irq is shown with softirq.
PARTS = ("usr", "sys", "softirq", "irq", "steal", "iowait", "idle")
#: The kinds that are work: neither waiting, nor taken by a hypervisor.
WORK = ("usr", "sys", "softirq", "irq")
#: The policy that binds the ends of a pair to CPUs of their own.
APART = "different-cores"
SIDES = ("client", "server")


def warmup_s(run: Run) -> float:
    """The warm-up that is left out of the flows' totals: what the spec requests, and the warm-up detected beyond it."""
    return run.spec.warmup_s + (run.checks.get("warmup_s") or 0.0)


def window_s(run: Run) -> tuple[float, float]:
    """Begin and end of the throughput's window, from the release: spec.total_s without the warm-up.

    It counts from when the flow in the middle began to send: when it was connected (its client released, where the tool
    does not report it), and its tool had waited (facts; an older run that did not record it is taken as not waiting).
    Of clients that start one after the other, it is when all of them send. Without a flow that did its work both are
    NaN.
    """
    flows = run.columns("flows", ["status", "pair", "connected_s", "start_s"])
    connected_s = flows["connected_s"].to_numpy()
    began_s = np.where(np.isnan(connected_s), flows["start_s"].to_numpy(), connected_s)
    began_s = (began_s - flows["pair"].to_numpy() * run.spec.start_spacing_s)[(flows["status"] == "ok").to_numpy()]
    connected_s = float(np.nanmedian(began_s)) if not np.isnan(began_s).all() else np.nan
    begun_s = connected_s + run.facts.get("waits_s", 0.0)
    return begun_s + run.spec.last_due_s + warmup_s(run), begun_s + run.spec.total_s


def others_share(run: Run) -> float:
    """Share of all CPU time that other programs used during the traffic, visible or hidden; 0 if not recorded."""
    return sum(run.checks.get(name) or 0.0 for name in ("foreign_cpu", "hidden_cpu"))


def used_s(run: Run) -> float:
    """CPU seconds used on the host from the release to the last sample, without other programs; NaN without samples."""
    start_s, end_s = (np.clip(run.cpu[name].to_numpy(), 0, None) for name in ("start_s", "end_s"))
    used_s = (_work(run.cpu).sum(axis=0) - others_share(run)) * (end_s - start_s)
    return float(used_s.sum()) if len(used_s) else np.nan


def carried_bytes(run: Run) -> float:
    """Payload of the successful flows, warm-up included: the work for which the host used CPU time.

    NaN where no intervals cover a warm-up, and where the background or interference used the CPUs, too.
    """
    if run.spec.background_pairs or run.spec.interference_workers:
        return np.nan
    warm_bytes = 0.0
    if warmup_s(run):
        warm = run.intervals.loc[run.intervals["warmup"], "interval_bytes"]
        if warm.empty:
            return np.nan
        warm_bytes = warm.sum()
    flows = run.columns("flows", ["status", "flow_bytes"])
    return float(flows.loc[flows["status"] == "ok", "flow_bytes"].sum() + warm_bytes)


def host_s_per_gb(run: Run) -> float:
    """CPU seconds used on the host per 10^9 bytes of payload, over the same time; NaN where either is not known."""
    return used_s(run) / (carried_bytes(run) / 1e9 or np.nan)


def shares(run: Run) -> pd.Series:
    """Each of PARTS, and busy (neither idle nor waiting for a disk), as a share of all CPUs' time in the window.

    Samples weigh by how long they lie in the window; where none does, all is NaN.
    """
    of_parts = dict(zip(PARTS, _shares(run, run.cpu, _parts(run.cpu, PARTS)), strict=True))
    return pd.Series(of_parts | {"busy": 1 - of_parts["idle"] - of_parts["iowait"]})


def service_demand_s(run: Run) -> float:
    """CPU seconds (WORK, all CPUs, in the window) per transaction, without other programs; NaN if not known.

    That is so without transactions, without samples, and where a background or interference used the CPUs, too. It is
    what netperf calls the service demand of client and server together, from the same counts of /proc/stat (proc(5)),
    which netperf takes for its own, whosever they are.
    """
    return _demand_s(run, run.cpu, others_share(run))


def by_cpu(run: Run) -> pd.DataFrame:
    """How each CPU spent its time in the window: a row per CPU, by its number, with PARTS and work (WORK), as shares.

    Without samples, no rows.
    """
    numbers = run.cpu["cpu"].to_numpy()
    weights, parts, cpus = _weights(run, run.cpu), _parts(run.cpu, PARTS), np.unique(numbers)
    rows = np.array([_mean(parts[:, numbers == cpu], weights[numbers == cpu]) for cpu in cpus])
    frame = pd.DataFrame(rows.reshape(len(cpus), len(PARTS)), index=cpus, columns=list(PARTS))
    busy = 1 - frame["idle"] - frame["iowait"]
    return frame.assign(busy=busy, work=frame[list(WORK)].sum(axis=1, skipna=False))


def by_side(run: Run) -> pd.DataFrame:
    """The utilisation (share of their time that is WORK) and the service demand of the client's CPUs and the server's.

    One row for each of SIDES, with columns utilisation and service_demand_s: where one pair had CPUs of its own for
    either end (pinning different-cores); else no rows. The kernel books what it does for a packet on the CPU that it
    does it on: over a veth pair, the receiver's softirq is the sender's time. So the sides tell what each CPU had to
    do, and only their sum what a transaction costs.
    """
    rows = {}
    held = sorted((run.facts.get("pinning") or {}).get("cpus") or {}) if run.spec.pinning == APART else []
    if run.spec.pairs == 1 and len(held) == len(SIDES) and all(each.isdecimal() for each in held):
        for side, cpu in zip(SIDES, sorted(map(int, held)), strict=True):
            of_side = run.cpu[run.cpu["cpu"] == cpu]
            utilisation = float(_shares(run, of_side, _parts(of_side, WORK)).sum())
            rows[side] = [utilisation, _demand_s(run, of_side)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["utilisation", "service_demand_s"], dtype=float)


def _shares(run: Run, cpu: pd.DataFrame, values: np.ndarray) -> np.ndarray:
    """The mean of values (a row for each kind, a column for each sample) over the samples of the window."""
    return _mean(values, _weights(run, cpu))


def _weights(run: Run, cpu: pd.DataFrame) -> np.ndarray:
    """How long each of these samples lies in the window, in s."""
    begin_s, end_s = window_s(run)
    return np.clip(np.minimum(cpu["end_s"].to_numpy(), end_s) - np.maximum(cpu["start_s"].to_numpy(), begin_s), 0, None)


def _mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.asarray(np.nansum(values * weights, axis=1) / (np.nansum(weights) or np.nan))


def _parts(cpu: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """By part and sample, the share of its time."""
    return np.stack([cpu[name].to_numpy() for name in names])


def _work(cpu: pd.DataFrame) -> np.ndarray:
    """WORK as shares of the samples' time, and not of what the kernel counted of it: older runs have but the latter."""
    counted = cpu["counted"].to_numpy()
    return _parts(cpu, WORK) * np.where(np.isnan(counted), 1.0, counted)


def _demand_s(run: Run, cpu: pd.DataFrame, others: float = 0.0) -> float:
    flows = run.columns("flows", ["status", "transactions", "duration_s"])
    if run.spec.background_pairs or run.spec.interference_workers or not latencies.measured(flows):
        return np.nan
    cpus = cpu.drop_duplicates(["host", "cpu"])
    working = (float(_shares(run, cpu, _work(cpu)).sum()) - others) * len(cpus)
    return working / (latencies.rate_per_s(flows) or np.nan)
