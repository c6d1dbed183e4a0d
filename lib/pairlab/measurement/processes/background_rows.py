"""Turns what the background's tools printed into rows of `flows` and `intervals`."""

import inspect
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pairlab.base.error_location import located
from pairlab.measurement import own_columns
from pairlab.measurement.flow_rows import begun_s
from pairlab.measurement.reading import Reading
from pairlab.model.time_steps import carried_bytes
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.endpoints import BACKGROUND
from pairlab.testbed.launch.conductor import Process


def read_background(
    first_pair: int,
    workload: Workload,
    clients: Sequence[Process],
    servers: Sequence[Process],
    ended: Collection[Process],
    release_ns: int,
    window_s: tuple[float, float],
    hosts: Sequence[tuple[str, str]] = (),
) -> Reading:
    """The rows of each pair's flow, and what was received in all, for the cross-checks.

    first_pair: its number. ended: processes that had ended before the others did. release_ns: of the pairs that are
    measured; all times are from it. window_s: totals are of what was carried between these. hosts: the names of those
    that each pair's client and server are on; empty: all are on one.
    """
    found = Reading(late_share=0.0)
    for number, (client, server) in enumerate(zip(clients, servers, strict=True)):
        pair = first_pair + number
        row: dict[str, Any] = {"pair": pair, "flow": 0, "protocol": "tcp", "role": BACKGROUND}
        if hosts:
            row["client_host"], row["server_host"] = hosts[number]
        if client.start_ns is not None:
            row["start_s"] = (client.start_ns - release_ns) / 1e9
        measured = _measured(workload, client, server, ended)
        if measured.error:
            found.flows.append({**row, "status": "failed", "error": measured.error})
            continue
        if measured.connected_ns is not None:
            row["connected_s"] = (measured.connected_ns - release_ns) / 1e9
        begin_s = begun_s(measured, row)
        intervals = [_interval(each, pair, begin_s, window_s) for each in measured.intervals]
        columns = ([each[key] for each in intervals] for key in ("start_s", "end_s", "interval_bytes"))
        (flow_bytes,) = carried_bytes(window_s, *columns)
        duration_s = window_s[1] - window_s[0]
        totals = {"duration_s": duration_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / duration_s}
        row["congestion_control"] = measured.flow.get("congestion_control") or ""
        found.flows.append({**row, "status": "ok", "error": "", **totals})
        found.intervals += intervals
        if measured.received_bytes is not None:
            found.received_bytes[pair] = measured.received_bytes
        found.retransmits[pair] = measured.flow.get("retransmits") or 0.0
        if measured.flow["duration_s"]:
            found.late_share = max(found.late_share, workload.late_s / measured.flow["duration_s"])
    return found


def _measured(workload: Workload, client: Process, server: Process, ended: Collection[Process]) -> Measured:
    """The one flow that the client reports, or one with the reason why it failed."""
    for which, process in (("client", client), ("server", server)):
        if process in ended:
            return Measured(
                {}, error=f"its {which} ended before the pairs that are measured: {process.trouble or 'ok'}"
            )
    try:
        (measured,) = workload.parse_stopped(client.stdout, server.stdout)
        own_columns.require_declared(workload, [measured])
    except Exception as error:  # whatever a plugin raises is this client's failure, and no other's
        return Measured({}, error=client.trouble or located(error, inspect.getfile(type(workload))))
    if not measured.error and not measured.intervals:
        return Measured({}, error=f"{workload.name} reported no intervals, which tell what was carried when")
    own = {each.name for each in workload.metrics}  # the table's columns are those of the workload that is measured
    return replace(measured, flow={name: value for name, value in measured.flow.items() if name not in own})


def _interval(row: Any, pair: int, begin_s: float, window_s: tuple[float, float]) -> dict[str, Any]:
    """An interval, with times from the release; outside the window it counts as warm-up."""
    start_s, end_s = row["start_s"] + begin_s, row["end_s"] + begin_s
    outside = end_s <= window_s[0] or start_s >= window_s[1]
    return {**row, "pair": pair, "flow": 0, "start_s": start_s, "end_s": end_s, "warmup": outside}
