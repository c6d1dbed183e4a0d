"""Turns one client's records of flows into the table `flows`, by columns: there are hundreds of thousands."""

import errno
import inspect
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pairlab.errors import located
from pairlab.measurement.flow_rows import OF_PROCESSES
from pairlab.measurement.parsed_flows import Hosts, ParsedFlows
from pairlab.model.spec import Spec
from pairlab.model.tables import table, table_of
from pairlab.testbed.contracts import FlowReport, FlowTable, Workload
from pairlab.testbed.process_launcher import Process

#: What flows may take beyond the time in which all are due, as the last ones do at any load.
LAST_S = 0.1


def read_table(
    spec: Spec,
    workload: Workload,
    client: Process,
    servers: Sequence[Process],
    release_ns: int,
    directory: Path,
    hosts: Hosts = (),
) -> ParsedFlows:
    """The table `flows`, and the values of checks. Without a whole report, a failed flow for each pair.

    directory: the testbed's.
    """
    try:
        (total,) = workload.parse(client.stdout)
        _require_whole(client, total)
        flows = workload.flow_table(spec, directory)
    except Exception as error:  # whatever a plugin raises is this run's failure
        said = str(error) if isinstance(error, ValueError) else located(error, inspect.getfile(type(workload)))
        why = client.failure or said
        why = why.encode(errors="replace").decode()
        rows = [{"pair": pair, "flow": 0, "status": "failed", "error": why} for pair in range(len(servers))]
        parsed = ParsedFlows(table=table("flows", rows))
        parsed.checks |= dict.fromkeys(("load", "unbegun", "incomplete"))
        return parsed
    received = float(flows.received_bytes.sum())
    parsed = ParsedFlows(
        table=_rows(flows, client, servers, release_ns, hosts),
        received_bytes={0: received} if not flows.errno.any() else {},
        answered_bytes={0: 0.0},
        retransmits={0: float(sum(server.tcp_retransmits or 0 for server in servers))},
    )
    parsed.checks |= {
        "load": _load(spec, total, flows) if spec.offered_load_bps else None,
        "unbegun": _unbegun(spec, flows) if spec.requests else None,
        "incomplete": _incomplete(spec, flows) if spec.may_fall_behind else None,
    }
    return parsed


def _load(spec: Spec, total: FlowReport, flows: FlowTable) -> float:
    """Carried load relative to the offered load, minus 1."""
    offered_s = float(flows.size_bytes.sum()) * 8 / spec.offered_load_bps
    lasted_s = max(offered_s, total.flow["duration_s"] - LAST_S)
    return float(total.flow["flow_bytes"]) * 8 / (lasted_s * spec.offered_load_bps) - 1


def _unbegun(spec: Spec, flows: FlowTable) -> float:
    return 1 - (int(flows.request.max()) + 1) / spec.requests


def _incomplete(spec: Spec, flows: FlowTable) -> float:
    """The share of the requests that began and had a flow that was not complete when duration_s was over."""
    return len(np.unique(flows.request[flows.errno == errno.ETIMEDOUT])) / spec.requests


def _require_whole(client: Process, total: FlowReport) -> None:
    """Raises ValueError unless the client ran to completion. Failed flows make it exit with 1."""
    if client.error or client.signal or not client.ended or client.exit_code not in (0, 1):
        raise ValueError(client.failure)
    if total.error:
        raise ValueError(total.error)


def _rows(flows: FlowTable, client: Process, servers: Sequence[Process], release_ns: int, hosts: Hosts) -> pd.DataFrame:
    ok = flows.errno == 0
    number = pd.Series(flows.pair).groupby(flows.pair).cumcount().to_numpy()
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


def _texts(codes: np.ndarray, words: dict) -> pd.Categorical | str:
    """Texts by code; one text for all where there is one."""
    if len(words) == 1:
        return next(iter(words.values()))
    return pd.Categorical.from_codes(np.searchsorted(sorted(words), codes), [words[code] for code in sorted(words)])


def _of_processes(pair: np.ndarray, number: np.ndarray, client: Process, servers: Sequence[Process]) -> dict:
    """Counts of a process are of all its flows: they are with the first of its pair, the client's with the first."""
    first, of_client = number == 0, (number == 0) & (pair == pair.min())
    columns = {}
    for name in OF_PROCESSES:
        of_client_process, *of_servers = np.array(
            [getattr(each, name) for each in (client, *servers)], dtype=float
        )  # None is NaN
        columns[f"client_{name}"] = np.where(of_client, of_client_process, np.nan)
        columns[f"server_{name}"] = np.where(first, np.array(of_servers)[pair], np.nan)
    return columns
