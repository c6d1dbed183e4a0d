"""Turns what one client wrote of its flows into the table `flows`, by columns: there are hundreds of thousands."""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pairlab.base.error_location import located
from pairlab.measurement.reading import Reading
from pairlab.model.spec import Spec
from pairlab.model.tables import table, table_of
from pairlab.testbed.contracts import FlowTable, Measured, Workload
from pairlab.testbed.launch.conductor import Process

#: What flows may take beyond the time in which all are due, as the last ones do at any load.
LAST_S = 0.1


def read_table(
    spec: Spec,
    workload: Workload,
    client: Process,
    servers: Sequence[Process],
    release_ns: int,
    directory: Path,
    hosts: Sequence[tuple[str, str]] = (),
) -> Reading:
    """The table `flows`, and what the checks need besides. Without a whole report, a failed flow of each pair.

    directory: the testbed's. hosts: the names of those that each pair's client and server are on; empty: all on one.
    """
    try:
        (total,) = workload.parse(client.stdout)
        _require_whole(client, total)
        flows = workload.flow_table(spec, directory)
    except Exception as error:  # whatever a plugin raises is this run's failure
        why = client.trouble or (str(error) if isinstance(error, ValueError) else _located(error, workload))
        return Reading(table=_failed(servers, why))
    ok = flows.errno == 0
    received = float(flows.received_bytes.sum())
    return Reading(
        table=_frame(flows, ok, client, servers, release_ns, hosts),
        received_bytes={0: received} if ok.all() else {},
        answered_bytes={0: 0.0},
        retransmits={0: float(sum(server.tcp_retransmits or 0 for server in servers))},
        load=_load(spec, total, flows) if spec.offered_load_bps else None,
        silence_s=_silence_s(flows) if spec.offered_load_bps else None,
        unbegun=1 - (int(flows.request.max()) + 1) / spec.requests if spec.requests else None,
    )


def _load(spec: Spec, total: Measured, flows: FlowTable) -> float:
    """What was carried per second, relative to what was offered, minus 1."""
    offered_s = float(flows.size_bytes.sum()) * 8 / spec.offered_load_bps
    lasted_s = max(offered_s, total.flow["duration_s"] - LAST_S)
    return float(total.flow["flow_bytes"]) * 8 / (lasted_s * spec.offered_load_bps) - 1


def _silence_s(flows: FlowTable) -> float:
    """The longest time in which no flow began and none ended, though one was due to begin: its client stood still."""
    ended_ns = flows.completed_ns[flows.completed_ns > 0]
    moments_ns = np.sort(np.concatenate([flows.start_ns[flows.start_ns > 0], ended_ns]).astype(np.int64))
    due_ns = np.sort(flows.intended_ns.astype(np.int64))
    if len(moments_ns) < 2:
        return 0.0
    begins_ns, ends_ns = moments_ns[:-1], moments_ns[1:]
    due = np.searchsorted(due_ns, ends_ns) > np.searchsorted(due_ns, begins_ns, side="right")
    return float(np.max((ends_ns - begins_ns) * due)) / 1e9


def _require_whole(client: Process, total: Measured) -> None:
    """Raises ValueError where the client did not come to its end. It exits with 1 where flows failed."""
    if client.error or client.signal or not client.over or client.exit_code not in (0, 1):
        raise ValueError(client.trouble)
    if total.error:
        raise ValueError(total.error)


def _located(error: Exception, workload: Workload) -> str:
    return located(error, inspect.getfile(type(workload)))


def _failed(servers: Sequence[Process], why: str) -> pd.DataFrame:
    why = why.encode(errors="replace").decode()
    return table("flows", [{"pair": pair, "flow": 0, "status": "failed", "error": why} for pair in range(len(servers))])


def _frame(
    flows: FlowTable,
    ok: np.ndarray,
    client: Process,
    servers: Sequence[Process],
    release_ns: int,
    hosts: Sequence[tuple[str, str]],
) -> pd.DataFrame:
    number = _number_within(flows.pair)
    due_s, start_s, first_s, end_s = (
        np.where(moments > 0, (moments.astype(np.int64) - release_ns) / 1e9, np.nan)
        for moments in (flows.intended_ns, flows.start_ns, flows.first_byte_ns, flows.completed_ns)
    )
    took_s = end_s - start_s
    size_bytes = flows.size_bytes.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        throughput_bps = np.where(ok, size_bytes * 8 / took_s, np.nan)
    why = {int(each): f"flowgen: {os.strerror(int(each))}" for each in np.unique(flows.errno)} | {0: ""}
    columns = {
        "pair": flows.pair,
        "flow": number,
        "status": _texts(ok, {True: "ok", False: "failed"}),
        "error": _texts(flows.errno, why),
        "protocol": "tcp",
        "request": flows.request.astype(float),
        "size_bytes": size_bytes,
        "intended_start_s": due_s,
        "start_s": start_s,
        "first_byte_s": first_s,
        "completed_s": end_s,
        "fct_s": took_s,
        "intended_fct_s": end_s - due_s,
        "duration_s": took_s,
        "flow_bytes": np.where(ok, size_bytes, np.nan),
        "throughput_bps": throughput_bps,
        **_of_processes(flows.pair, number, client, servers),
    }
    if hosts:
        columns["client_host"] = hosts[0][0]
        columns["server_host"] = _texts(flows.pair, {pair: server for pair, (_, server) in enumerate(hosts)})
    return table_of("flows", columns, len(flows.pair))


def _number_within(pair: np.ndarray) -> np.ndarray:
    """The number of each flow within its pair, in their order."""
    number = np.empty(len(pair), dtype=np.int64)
    for each in np.unique(pair):
        mine = pair == each
        number[mine] = np.arange(mine.sum())
    return number


def _texts(codes: np.ndarray, words: dict) -> pd.Categorical | str:
    """Texts by code; one text for all where there is one."""
    if len(words) == 1:
        return next(iter(words.values()))
    return pd.Categorical.from_codes(np.searchsorted(sorted(words), codes), [words[code] for code in sorted(words)])


def _of_processes(pair: np.ndarray, number: np.ndarray, client: Process, servers: Sequence[Process]) -> dict:
    """Counts of a process are of all its flows: they are with the first of its pair, the client's with the first."""
    first, of_client = number == 0, (number == 0) & (pair == pair.min())
    columns = {
        "client_cpu_s": np.where(of_client, client.cpu_s, np.nan),
        "server_cpu_s": np.where(first, np.array([server.cpu_s for server in servers])[pair], np.nan),
    }
    for kind in ("voluntary", "involuntary"):
        counted = [getattr(server, f"{kind}_switches") for server in servers]
        of_servers = np.array([np.nan if count is None else count for count in counted], dtype=float)
        mine = getattr(client, f"{kind}_switches")
        columns[f"client_{kind}_switches"] = np.where(of_client, np.nan if mine is None else mine, np.nan)
        columns[f"server_{kind}_switches"] = np.where(first, of_servers[pair], np.nan)
    return columns
