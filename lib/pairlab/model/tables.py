"""The tables that a measurement yields.

TABLES is the one description of every column: its type, unit and meaning. Values are in base units and the unit is
part of the name. A failed flow is a row like any other, with its status and error, and nothing measured.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pairlab.model.metrics.declared import Metric

#: The host that pairlab runs on; hosts that are namespaces on it share its kernel, CPUs and clock.
MACHINE = "machine"


class Column(NamedTuple):
    """before: what texts are that no row gives, as in runs that were measured before there was such a column."""

    dtype: str
    unit: str
    meaning: str
    before: str = ""


TABLES: dict[str, dict[str, Column]] = {
    "flows": {
        "pair": Column("int64", "", "number of the pair, from 0"),
        "flow": Column("int64", "", "number of the flow within its pair, from 0"),
        "status": Column("str", "", "ok or failed"),
        "error": Column("str", "", "why it failed; empty when ok"),
        "protocol": Column("str", "", "tcp or udp"),
        "direction": Column(
            "str", "", "up: sent by its client, or asked for by it; down: sent by its server (direction)", "up"
        ),
        "client_host": Column("str", "", "name of the host that its client is on, where there are several"),
        "server_host": Column("str", "", "name of the host that its server is on, likewise"),
        "request": Column("float64", "", "number of the request that the flow is a part of, from 0 (traffic)"),
        "role": Column("str", "", "elephant or mouse, where the spec has elephants; background of background pairs"),
        "priority": Column("str", "", "high or normal, where the spec gives some pairs CPU priority"),
        "size_bytes": Column("float64", "B", "payload that the flow was to carry, where it has an end"),
        "intended_start_s": Column("float64", "s", "when it was to start, from the release"),
        "start_s": Column("float64", "s", "when its client was let go, or asked for it (traffic), from the release"),
        "connected_s": Column("float64", "s", "when its connection stood, from the release, where the tool reports it"),
        "first_byte_s": Column("float64", "s", "when its receiver had the first byte, from the release (flowgen)"),
        "completed_s": Column(
            "float64",
            "s",
            "when a flow with an end was complete, from the release: last byte at its server (flowgen) or at its client"
            " (traffic), or its client's end (netcat)",
        ),
        "fct_s": Column("float64", "s", "flow completion time from its actual start: completed_s - start_s"),
        "intended_fct_s": Column("float64", "s", "flow completion time from its intended start"),
        "duration_s": Column(
            "float64",
            "s",
            "the time over which throughput_bps is taken (without warm-up), by the clock of who counted; of UDP from"
            " the first datagram until sending was over, or the last one came",
        ),
        "flow_bytes": Column(
            "float64",
            "B",
            "payload in duration_s: acknowledged (flowgen), received at the other end (iperf, iperf3, sockperf, UDP),"
            " or of requests and their responses",
        ),
        "throughput_bps": Column("float64", "bit/s", "goodput: flow_bytes * 8 / duration_s"),
        "retransmits": Column(
            "float64", "segments", "TCP segments retransmitted in duration_s, where the tool reports it"
        ),
        "netns_retransmits": Column(
            "float64",
            "segments",
            "TCP segments retransmitted in the sender's network namespace between release and the end of its"
            " connections, all its flows together (RetransSegs of proc_net_snmp), where the namespace is its own",
        ),
        "diag_retransmits": Column(
            "float64",
            "segments",
            "the same of those of its connections that stood shortly before the end, to the end of each"
            " (sock_diag(7)), where they were read",
        ),
        "datagrams_sent": Column("float64", "datagrams", "UDP: sent by the client"),
        "datagrams_received": Column("float64", "datagrams", "UDP: received by the server"),
        "datagrams_lost": Column("float64", "datagrams", "UDP: sent and never received"),
        "datagrams_reordered": Column("float64", "datagrams", "UDP: received after a later one (RFC 4737, section 3)"),
        "transactions": Column("float64", "transactions", "requests of duration_s whose response came"),
        "transactions_lost": Column(
            "float64",
            "transactions",
            "requests that were due in duration_s and had no response in time, or were not sent in it",
        ),
        "transactions_failed": Column(
            "float64", "transactions", "requests that could not be sent, or whose connection broke"
        ),
        "rtt_s": Column("float64", "s", "smoothed round-trip time at the end (TCP_INFO)"),
        "min_rtt_s": Column("float64", "s", "least round-trip time seen (TCP_INFO)"),
        "cwnd_bytes": Column("float64", "B", "congestion window at the end (TCP_INFO)"),
        "delivery_rate_bps": Column("float64", "bit/s", "delivery rate at the end (TCP_INFO)"),
        "congestion_control": Column(
            "str", "", "congestion control of the sender, as its tool reports it, else the kernel (sock_diag(7))"
        ),
        "client_cpu_s": Column("float64", "s", "CPU time of the client process (getrusage), with its first flow"),
        "server_cpu_s": Column("float64", "s", "CPU time of the server process (getrusage), likewise"),
        "client_voluntary_switches": Column(
            "float64", "switches", "context switches of the client process because it waited (getrusage), likewise"
        ),
        "client_involuntary_switches": Column(
            "float64", "switches", "those because its time slice was over or another process was more urgent"
        ),
        "server_voluntary_switches": Column("float64", "switches", "the same of the server process: because it waited"),
        "server_involuntary_switches": Column("float64", "switches", "the same of the server process: not by itself"),
    },
    "intervals": {
        "pair": Column("int64", "", "number of the pair"),
        "flow": Column("int64", "", "number of the flow within its pair"),
        "start_s": Column("float64", "s", "begin of the interval, from the release"),
        "end_s": Column("float64", "s", "end of the interval, from the release"),
        "interval_bytes": Column("float64", "B", "payload in the interval, as flow_bytes"),
        "throughput_bps": Column("float64", "bit/s", "payload bits over the interval"),
        "retransmits": Column("float64", "segments", "TCP segments retransmitted in the interval"),
        "rtt_s": Column("float64", "s", "smoothed round-trip time at its end"),
        "cwnd_bytes": Column("float64", "B", "congestion window at its end"),
        "warmup": Column("bool", "", "lies in the warm-up: left out of the flow's totals"),
    },
    "transactions": {
        "pair": Column("int64", "", "number of the pair"),
        "flow": Column("int64", "", "number of the flow within its pair"),
        "latency_s": Column(
            "float64",
            "s",
            "from when a request was due (requests_per_s), else sent, until its response was whole: the middle of a"
            " bucket, within 0.05 % of each in it; one row for each bucket that is not empty",
        ),
        "count": Column("int64", "transactions", "how many of duration_s took that long"),
    },
    "launches": {
        "launch": Column("int64", "", "number of the launch in the run, from 0: those of one number began at once"),
        "pair": Column("int64", "", "number of the pair that the endpoint is of"),
        "side": Column("str", "", "which of the pair was launched; the other one, which ran already, pinged it"),
        "host": Column("str", "", "name of the host that it was launched on, where there are several"),
        "status": Column("str", "", "ok or failed"),
        "error": Column("str", "", "why it failed; empty when ok"),
        "create_s": Column("float64", "s", "the create command, from which the launch's other times count: 0"),
        "created_s": Column("float64", "s", "when its namespace was made; in Docker, when create had returned"),
        "attached_s": Column(
            "float64", "s", "when it had its link and address; in Docker, the daemon's event of the network's connect"
        ),
        "started_s": Column("float64", "s", "in Docker: when start had returned"),
        "running_s": Column("float64", "s", "when its process ran; in Docker, the daemon's event of the start"),
        "link_up_s": Column(
            "float64", "s", "when the kernel told that its link was up with a carrier, where pairlab attaches it"
        ),
        "first_ping_s": Column("float64", "s", "when its partner had the first answer to a ping (ICMP echo)"),
        "ready_s": Column("float64", "s", "launch time: when it ran and had answered; without an address, when it ran"),
    },
    "cpu": {
        "host": Column(
            "str", "", f"name of the host whose CPU it is: {MACHINE} for all hosts that are namespaces on it", MACHINE
        ),
        "cpu": Column("int64", "", "number of the CPU"),
        "start_s": Column("float64", "s", "begin of the sample, from the release"),
        "end_s": Column("float64", "s", "end of the sample, from the release"),
        "counted": Column(
            "float64",
            "share",
            "how much of the sample the kernel counted, of which the others are shares: it can lose some of a CPU that"
            " sleeps and wakes thousands of times a second; missing in older runs",
        ),
        "usr": Column("float64", "share", "user time, with nice, as a share of what was counted (proc_stat(5))"),
        "sys": Column("float64", "share", "system time"),
        "softirq": Column("float64", "share", "soft interrupts, where most packet processing is booked"),
        "irq": Column("float64", "share", "hard interrupts"),
        "iowait": Column("float64", "share", "idle with a disk request under way"),
        "idle": Column("float64", "share", "idle"),
        "steal": Column("float64", "share", "taken by the hypervisor for others"),
    },
    "profile": {
        "stack": Column(
            "str",
            "",
            "program, then the kernel's functions from the entry to the one that ran, joined by semicolons; [user] for"
            " time in the program itself",
        ),
        "samples": Column("int64", "samples", "how often the CPUs were found there"),
    },
}
#: The tables that most runs do not have: without rows they are not stored.
OPTIONAL = frozenset({"launches", "profile", "transactions"})


def table_of(name: str, columns: Mapping[str, Any], rows: int) -> pd.DataFrame:
    """The same from whole columns of so many rows, of which one value is that of all rows."""
    if strange := set(columns) - set(TABLES[name]):
        raise ValueError(f"table {name!r} has no column {', '.join(sorted(strange))}")
    data = {}
    for key, column in TABLES[name].items():
        missing = {"str": column.before, "float64": np.nan}
        values = columns.get(key, missing.get(column.dtype))
        data[key] = pd.Series(values, index=pd.RangeIndex(rows)).astype(column.dtype)
    return pd.DataFrame(data)


def table(name: str, rows: Iterable[Mapping[str, Any]] = (), own: Sequence[Metric] = ()) -> pd.DataFrame:
    """A DataFrame of that table's columns, in order and typed; what a row leaves out is missing (text: Column.before).

    own: metrics of the workload, of which those of this table are columns after all others.
    """
    rows, own = list(rows), [each for each in own if each.table == name]
    return _table(name, rows, own) if rows or own else _empty(name).copy()


@functools.cache
def _empty(name: str) -> pd.DataFrame:
    """Made once: most runs have a table without rows, and each column of one takes as long as of any other."""
    return _table(name, [], [])


def _table(name: str, rows: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> pd.DataFrame:
    columns = TABLES[name] | {each.name: Column("float64", each.unit, each.meaning) for each in own}
    strange = {key for row in rows for key in row} - set(columns)
    if strange:
        raise ValueError(f"table {name!r} has no column {', '.join(sorted(strange))}")
    data = {}
    for key, column in columns.items():
        values = [row.get(key) for row in rows]
        if column.dtype == "str":
            data[key] = pd.Series([column.before if value is None else value for value in values], dtype="str")
        else:
            data[key] = pd.Series(values, dtype=column.dtype)
    return pd.DataFrame(data)
