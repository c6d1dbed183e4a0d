"""flowgen, pairlab's own generator: needs nothing in the container, and tells what TCP_INFO tells."""

import json

from pairlab.testbed.contracts import Measured, Workload

KEPT = ("retransmits", "rtt_s", "min_rtt_s", "cwnd_bytes", "delivery_rate_bps")


class Flowgen(Workload):
    """One TCP connection at full rate; bytes are those the receiver acknowledged (tcp(7), TCP_INFO)."""

    name = "flowgen"
    summary = "flowgen: TCP at full rate, exact, built with pairlab"

    def server(self, pair, spec, site):
        return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]

    def client(self, pair, spec, site):
        target = [site.flowgen, "client", "--connect", f"{pair.server.address}:{pair.port}"]
        return [*target, "--duration", f"{spec.total_s:g}", "--interval", f"{spec.interval_s:g}"]

    def parse(self, stdout):
        try:
            lines = [json.loads(line) for line in stdout.splitlines()]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"flowgen printed no whole report: {error}") from None
        try:
            return _measured(lines)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"flowgen's report lacks what it should have: {error!r}") from None


def _measured(lines):
    totals = [line for line in lines if line["event"] == "total"]
    if len(totals) != 1:
        raise ValueError(f"flowgen reported {len(totals)} totals, not one")
    (total,) = totals
    if total.get("error"):
        raise ValueError(f"flowgen: {total['error']}")
    intervals = [_row(line) for line in lines if line["event"] == "interval"]
    flow = {key: float(total[key]) for key in ("duration_s", "flow_bytes", "throughput_bps")}
    flow["congestion_control"] = str(total["congestion_control"])
    known = {key: _number(total, key) for key in KEPT}
    return Measured({**flow, **known}, intervals, connected_ns=int(total["connected_ns"]))


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
