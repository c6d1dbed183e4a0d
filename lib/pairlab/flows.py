"""From what the tools printed to rows of the tables `flows` and `intervals`: one flow a client, failed ones too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pairlab.spec import Spec
from pairlab.testbed.barrier import Process
from pairlab.testbed.contracts import Measured, Workload

Row = dict[str, Any]


def read_flows(
    spec: Spec, workload: Workload, clients: Sequence[Process], servers: Sequence[Process], release_ns: int
) -> tuple[list[Row], list[Row]]:
    """The rows of `flows` and of `intervals`, from each client's output, its start and its end."""
    flows, intervals = [], []
    for index, (client, server) in enumerate(zip(clients, servers, strict=True)):
        flow = {"pair": index, "flow": 0, "status": "ok", "error": "", "intended_start_s": 0.0}
        flow |= {"client_cpu_s": client.cpu_s, "server_cpu_s": server.cpu_s}
        if client.start_ns is not None:
            flow["start_s"] = (client.start_ns - release_ns) / 1e9
        try:
            if client.trouble:
                raise ValueError(client.trouble)
            measured = window(whole(workload.parse(client.stdout), spec.total_s), spec.warmup_s)
            flow |= measured.flow
            if measured.connected_ns is not None:
                flow["connected_s"] = (measured.connected_ns - release_ns) / 1e9
            # A tool counts from its connection. Where it does not tell when that stood, its start is the nearest.
            begun_s = flow.get("connected_s", flow["start_s"])
            intervals += [_interval(index, row, begun_s, spec.warmup_s) for row in measured.intervals]
        except ValueError as error:
            flow |= {"status": "failed", "error": _with_last_words(str(error), client.stderr)}
        flows.append(flow)
    return flows, intervals


def _interval(pair: int, row: Row, begun_s: float, warmup_s: float) -> Row:
    times = {"start_s": row["start_s"] + begun_s, "end_s": row["end_s"] + begun_s}
    return {"pair": pair, "flow": 0, **row, **times, "warmup": row["start_s"] < warmup_s - 1e-3}


def _with_last_words(error: str, stderr: str) -> str:
    told = " ".join(stderr.split())[-200:]
    return f"{error} ({told})" if told and told not in error else error


def whole(measured: Measured, total_s: float) -> Measured:
    """The same, where the flow lasted as long as it was to; iperf ends well when its connection breaks, too."""
    duration_s = measured.flow["duration_s"]
    if duration_s < 0.95 * total_s:
        raise ValueError(f"it ended after {duration_s:.2f} s of {total_s:g}")
    return measured


def window(measured: Measured, warmup_s: float) -> Measured:
    """What a flow did after its warm-up: totals over the intervals that begin later, all other columns as they are."""
    if not warmup_s:
        return measured
    kept = [row for row in measured.intervals if row["start_s"] >= warmup_s - 1e-3]
    duration_s = sum(row["end_s"] - row["start_s"] for row in kept)
    if duration_s <= 0:
        raise ValueError(f"it reported no interval after its warm-up of {warmup_s:g} s")
    flow_bytes = sum(row["interval_bytes"] for row in kept)
    flow = {"duration_s": duration_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / duration_s}
    if all(row.get("retransmits") is not None for row in kept):
        flow["retransmits"] = sum(row["retransmits"] for row in kept)
    return replace(measured, flow={**measured.flow, **flow})
