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
            intervals = [_row(line) for line in lines if line["event"] == "interval"]
            (total,) = (line for line in lines if line["event"] == "total")
            if total.get("error"):
                raise ValueError(f"flowgen: {total['error']}")
            flow = {key: total[key] for key in ("duration_s", "flow_bytes", "throughput_bps", "congestion_control")}
        except json.JSONDecodeError as error:
            raise ValueError(f"flowgen printed no whole report: {error}") from None
        except KeyError as error:
            raise ValueError(f"flowgen's report lacks {error}") from None
        return Measured({**flow, **{key: total.get(key) for key in KEPT}}, intervals)


def _row(line):
    length_s = line["end_s"] - line["start_s"]
    return {
        "start_s": line["start_s"],
        "end_s": line["end_s"],
        "interval_bytes": line["bytes"],
        "throughput_bps": line["bytes"] * 8 / length_s if length_s > 0 else None,
        "retransmits": line.get("retransmits"),
        "rtt_s": line.get("rtt_s"),
        "cwnd_bytes": line.get("cwnd_bytes"),
    }
