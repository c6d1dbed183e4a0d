"""flowgen, pairlab's own generator: needs nothing in the container, and tells what TCP_INFO tells."""

import json

from pairlab.testbed.contracts import FEATURES, Measured, Workload

KEPT = ("retransmits", "rtt_s", "min_rtt_s", "cwnd_bytes", "delivery_rate_bps")


class Flowgen(Workload):
    """TCP flows, by time or by bytes; bytes are those the receiver acknowledged (tcp(7), TCP_INFO).

    A flow with an end is complete when its server has read the last byte.
    """

    name = "flowgen"
    summary = "flowgen: TCP by time or by bytes, exact, built with pairlab"
    can = frozenset(FEATURES) - {"udp"}

    def server(self, pair, spec, site):
        return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]

    def client(self, pair, spec, site):
        argv = [site.flowgen, "client", "--connect", f"{pair.server.address}:{pair.port}"]
        argv += ["--interval", f"{spec.interval_s:g}"]
        if pair.task.flow_bytes:
            argv += ["--bytes", str(pair.task.flow_bytes), "--limit", f"{spec.duration_s:g}"]
        else:
            argv += ["--duration", f"{spec.total_s:g}"]
        argv += ["--flows", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["--write-bytes", str(spec.message_bytes)] if spec.message_bytes else []
        argv += ["--congestion", spec.congestion_control] if spec.congestion_control else []
        return argv

    def parse(self, stdout, served=""):
        lines, received = _lines(stdout, "flowgen"), _lines(served, "flowgen's server")
        try:
            totals = [line for line in lines if line["event"] == "total"]
            if not totals:
                raise ValueError("flowgen reported 0 totals, not one for each flow")
            by_peer = {line["peer"]: line for line in received if line["event"] == "received"}
            intervals = [line for line in lines if line["event"] == "interval"]
            return [_measured(total, intervals, by_peer.get(total.get("local"), {})) for total in totals]
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"flowgen's report lacks what it should have: {error!r}") from None


def _lines(text, whose):
    try:
        return [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{whose} printed no whole report: {error}") from None


def _measured(total, intervals, received):
    """One flow, from the client's total and intervals, and from what the server received of it."""
    number = int(total.get("flow", 0))
    if error := _trouble(total, received):
        return Measured({}, number=number, error=f"flowgen: {error}")
    flow = {key: float(total[key]) for key in ("duration_s", "flow_bytes", "throughput_bps")}
    flow["congestion_control"] = str(total["congestion_control"])
    return Measured(
        {**flow, **{key: _number(total, key) for key in KEPT}},
        [_row(line) for line in intervals if int(line.get("flow", 0)) == number],
        connected_ns=int(total["connected_ns"]),
        number=number,
        first_byte_ns=_moment(received, "first_ns"),
        completed_ns=_moment(received, "last_ns") if "complete" in total else None,
    )


def _trouble(total, received):
    """Why a flow failed; of one with an end, the server must have all that was sent."""
    if total.get("error"):
        return total["error"]
    if "complete" not in total:
        return ""
    sent, arrived = int(total["bytes_written"]), int(received.get("flow_bytes", 0))
    if total["complete"] and arrived == sent:
        return ""
    return f"the server had {arrived} of {sent} bytes"


def _row(line):
    start_s, end_s, interval_bytes = (float(line[key]) for key in ("start_s", "end_s", "bytes"))
    return {
        "start_s": start_s,
        "end_s": end_s,
        "interval_bytes": interval_bytes,
        "throughput_bps": interval_bytes * 8 / (end_s - start_s) if end_s > start_s else None,
        "retransmits": _number(line, "retransmits"),
        "rtt_s": _number(line, "rtt_s"),
        "cwnd_bytes": _number(line, "cwnd_bytes"),
    }


def _number(told, key):
    """That value, or None where this system's TCP_INFO has it not."""
    return None if told.get(key) is None else float(told[key])


def _moment(told, key):
    return None if told.get(key) is None else int(told[key])
