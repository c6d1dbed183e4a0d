"""The tables that a measurement yields.

TABLES is the one description of every column: its type, unit and meaning. Values are in base units and the unit is
part of the name. A failed flow is a row like any other, with its status and error, and nothing measured.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pairlab.model.metrics import Metric

#: The host that pairlab runs on; hosts that are namespaces on it share its kernel, CPUs and clock.
MACHINE = "machine"


class Column(NamedTuple):
    """before: the text in rows without this column, as in runs measured before the column existed."""

    dtype: str
    unit: str
    meaning: str
    before: str = ""


def _number(unit: str, meaning: str) -> Column:
    """A column that can be without a value: NaN."""
    return Column("float64", unit, meaning)


def _whole(meaning: str, unit: str = "") -> Column:
    return Column("int64", unit, meaning)


def _text(meaning: str, before: str = "") -> Column:
    return Column("str", "", meaning, before)


TABLES: dict[str, dict[str, Column]] = {
    "flows": {
        "pair": _whole("number of the pair, from 0"),
        "flow": _whole("number of the flow within its pair, from 0"),
        "status": _text("ok or failed"),
        "error": _text("why it failed; empty when ok"),
        "protocol": _text("tcp or udp"),
        "direction": _text("up: sent by its client, or requested by it; down: sent by its server (direction)", "up"),
        "client_host": _text("name of the host that its client is on, where there are several"),
        "server_host": _text("name of the host that its server is on, likewise"),
        "request": _number("", "number of the request that the flow is a part of, from 0 (traffic)"),
        "role": _text("elephant or mouse, where the spec has elephants; background of background pairs"),
        "priority": _text("high or normal, where the spec gives some pairs CPU priority"),
        "size_bytes": _number("B", "payload that the flow was to carry, where it has an end"),
        "intended_start_s": _number("s", "when it was to start, from the release"),
        "start_s": _number("s", "when its client was released, or requested it (traffic), from the release"),
        "connected_s": _number("s", "when its connection was established, from the release, where the tool reports it"),
        "first_byte_s": _number("s", "when its receiver had the first byte, from the release (flowgen)"),
        "completed_s": _number(
            "s",
            "when a flow with an end was complete, from the release: last byte at its server (flowgen) or at its client"
            " (traffic), or its client's end (netcat)",
        ),
        "fct_s": _number("s", "flow completion time from its actual start: completed_s - start_s"),
        "intended_fct_s": _number("s", "flow completion time from its intended start"),
        "duration_s": _number(
            "s",
            "the time over which throughput_bps is taken (without warm-up), by the clock of who counted; of UDP from"
            " the first datagram until sending was over, or the last one came",
        ),
        "flow_bytes": _number(
            "B",
            "payload in duration_s: acknowledged (flowgen), received at the other end (iperf, iperf3, sockperf, UDP),"
            " or of requests and their responses",
        ),
        "throughput_bps": _number("bit/s", "goodput: flow_bytes * 8 / duration_s"),
        "retransmits": _number("segments", "TCP segments retransmitted in duration_s, where the tool reports it"),
        "netns_retransmits": _number(
            "segments",
            "TCP segments retransmitted in the sender's network namespace between release and the end of its"
            " connections, all its flows together (RetransSegs of proc_net_snmp), where the namespace is its own",
        ),
        "diag_retransmits": _number(
            "segments",
            "the same of those of its connections that existed shortly before the end, to the end of each"
            " (sock_diag(7)), where they were read",
        ),
        "datagrams_sent": _number("datagrams", "UDP: sent by the client"),
        "datagrams_received": _number("datagrams", "UDP: received by the server"),
        "datagrams_lost": _number("datagrams", "UDP: sent and never received"),
        "datagrams_reordered": _number("datagrams", "UDP: received after a later one (RFC 4737, section 3)"),
        "transactions": _number("transactions", "requests of duration_s whose response came"),
        "transactions_lost": _number(
            "transactions", "requests that were due in duration_s and had no response in time, or were not sent in it"
        ),
        "transactions_failed": _number("transactions", "requests that could not be sent, or whose connection broke"),
        "rtt_s": _number("s", "smoothed round-trip time at the end (TCP_INFO)"),
        "min_rtt_s": _number("s", "least round-trip time seen (TCP_INFO)"),
        "cwnd_bytes": _number("B", "congestion window at the end (TCP_INFO)"),
        "delivery_rate_bps": _number("bit/s", "delivery rate at the end (TCP_INFO)"),
        "congestion_control": _text(
            "congestion control of the sender, as its tool reports it, else the kernel (sock_diag(7))"
        ),
        "client_cpu_s": _number("s", "CPU time of the client process (getrusage), with its first flow"),
        "server_cpu_s": _number("s", "CPU time of the server process (getrusage), likewise"),
        "client_voluntary_switches": _number(
            "switches", "context switches of the client process because it waited (getrusage), likewise"
        ),
        "client_involuntary_switches": _number(
            "switches", "those because its time slice was over or another process was more urgent"
        ),
        "server_voluntary_switches": _number("switches", "the same of the server process: because it waited"),
        "server_involuntary_switches": _number("switches", "the same of the server process: not by itself"),
        "client_runqueue_wait_s": _number(
            "s",
            "time in which the client process, its first thread, could have run and had no CPU (schedstat), likewise",
        ),
        "client_stopped_s": _number("s", "time for which signals had stopped the client process, likewise"),
        "server_runqueue_wait_s": _number("s", "the same of the server process: without a CPU"),
        "server_stopped_s": _number("s", "the same of the server process: stopped"),
    },
    "intervals": {
        "pair": _whole("number of the pair"),
        "flow": _whole("number of the flow within its pair"),
        "start_s": _number("s", "begin of the interval, from the release"),
        "end_s": _number("s", "end of the interval, from the release"),
        "interval_bytes": _number("B", "payload in the interval, as flow_bytes"),
        "throughput_bps": _number("bit/s", "payload bits over the interval"),
        "retransmits": _number("segments", "TCP segments retransmitted in the interval"),
        "rtt_s": _number("s", "smoothed round-trip time at its end"),
        "cwnd_bytes": _number("B", "congestion window at its end"),
        "warmup": Column("bool", "", "lies in the warm-up: left out of the flow's totals"),
    },
    "transactions": {
        "pair": _whole("number of the pair"),
        "flow": _whole("number of the flow within its pair"),
        "latency_s": _number(
            "s",
            "from when a request was due (requests_per_s), else sent, until its response was whole: the middle of a"
            " bucket, within 0.05 % of each in it; one row for each bucket that is not empty",
        ),
        "count": _whole("how many of duration_s took that long", "transactions"),
    },
    "launches": {
        "launch": _whole("number of the launch in the run, from 0: those of one number began at once"),
        "pair": _whole("number of the pair that the endpoint is of"),
        "side": _text("which of the pair was launched; the other one, which ran already, pinged it"),
        "host": _text("name of the host that it was launched on, where there are several"),
        "status": _text("ok or failed"),
        "error": _text("why it failed; empty when ok"),
        "create_s": _number("s", "the create command, from which the launch's other times count: 0"),
        "created_s": _number("s", "when its namespace was made; in Docker, when create had returned"),
        "attached_s": _number(
            "s", "when it had its link and address; in Docker, the daemon's event of the network's connect"
        ),
        "started_s": _number("s", "in Docker: when start had returned"),
        "running_s": _number("s", "when its process ran; in Docker, the daemon's event of the start"),
        "link_up_s": _number("s", "when the kernel reported its link up with a carrier, where pairlab attaches it"),
        "first_ping_s": _number("s", "when its partner had the first answer to a ping (ICMP echo)"),
        "ready_s": _number("s", "launch time: when it ran and had answered; without an address, when it ran"),
    },
    "cpu": {
        "host": _text(f"name of the host whose CPU it is: {MACHINE} for all hosts that are namespaces on it", MACHINE),
        "cpu": _whole("number of the CPU"),
        "start_s": _number("s", "begin of the sample, from the release"),
        "end_s": _number("s", "end of the sample, from the release"),
        "counted": _number(
            "share",
            "how much of the sample the kernel counted, of which the others are shares: it can lose some of a CPU that"
            " sleeps and wakes thousands of times a second; missing in older runs",
        ),
        "usr": _number("share", "user time, with nice, as a share of what was counted (proc_stat(5))"),
        "sys": _number("share", "system time"),
        "softirq": _number("share", "soft interrupts, where most packet processing is booked"),
        "irq": _number("share", "hard interrupts"),
        "iowait": _number("share", "idle with a disk request under way"),
        "idle": _number("share", "idle"),
        "steal": _number("share", "taken by the hypervisor for others"),
    },
    "profile": {
        "stack": _text(
            "program, then the kernel's functions from the entry to the one that ran, joined by semicolons; [user] for"
            " time in the program itself"
        ),
        "samples": _whole("how often the CPUs were found there", "samples"),
    },
}
#: The tables that most runs do not have: without rows they are not stored.
OPTIONAL = frozenset({"launches", "profile", "transactions"})


def table_of(name: str, columns: Mapping[str, Any], rows: int) -> pd.DataFrame:
    """A DataFrame of that table from whole columns; a single value fills all rows."""
    _require_known(name, columns, TABLES[name])
    data = {}
    for key, column in TABLES[name].items():
        missing = {"str": column.before, "float64": np.nan}
        values = columns.get(key, missing.get(column.dtype))
        data[key] = pd.Series(values, index=pd.RangeIndex(rows)).astype(column.dtype)
    return pd.DataFrame(data)


def _require_known(name: str, names: Iterable[str], columns: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(columns)):
        raise ValueError(f"table {name!r} has no column {', '.join(unknown)}")


def table(name: str, rows: Iterable[Mapping[str, Any]] = (), own: Sequence[Metric] = ()) -> pd.DataFrame:
    """A DataFrame of that table's columns, in order and typed; what a row leaves out is missing (text: Column.before).

    own: metrics of the workload, of which those of this table are columns after all others.
    """
    rows, own = list(rows), [each for each in own if each.table == name]
    return _table(name, rows, own) if rows or own else _empty(name).copy()


@functools.cache
def _empty(name: str) -> pd.DataFrame:
    """Cached: most runs have an empty table, whose columns take as long to make as those of any other."""
    return _table(name, [], [])


def _table(name: str, rows: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> pd.DataFrame:
    columns = TABLES[name] | {each.name: _number(each.unit, each.meaning) for each in own}
    _require_known(name, {key for row in rows for key in row}, columns)
    data = {}
    for key, column in columns.items():
        missing = column.before if column.dtype == "str" else None
        values = [missing if (value := row.get(key)) is None else value for row in rows]
        # No Series: pandas would align the rows of all columns, which takes most of the time.
        number = column.dtype == "float64"
        data[key] = np.array(values, "float64") if number else pd.array(values, dtype=column.dtype)
    return pd.DataFrame(data)


def carried_bytes(edges_s: ArrayLike, start_s: ArrayLike, end_s: ArrayLike, interval_bytes: ArrayLike) -> np.ndarray:
    """The bytes that one flow carried between consecutive edges, in ascending order.

    start_s, end_s, interval_bytes: of the reported intervals, in any order; times have the origin of the edges.
    The bytes of an interval are assumed to be spread evenly over it; outside the intervals there are none.
    """
    rows = np.column_stack([start_s, end_s, interval_bytes]).astype(float)
    rows = rows[np.argsort(rows[:, 0])]
    after = np.cumsum(rows[:, 2])
    before = np.concatenate([[0.0], after[:-1]])
    edges = np.asarray(edges_s, dtype=float)
    return np.diff(np.interp(edges, rows[:, :2].ravel(), np.column_stack([before, after]).ravel()))
