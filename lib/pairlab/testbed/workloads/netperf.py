"""netperf: its tests TCP_RR, UDP_RR and TCP_CRR, chosen by the spec."""

import re
from typing import Any

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, Metric, Site, Workload, incomplete, transaction_totals
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

_REMEDY = (
    "add the component non-free to Debian's sources and apt-get install netperf, or build it from"
    " https://github.com/HewlettPackard/netperf, so that netperf and netserver are on PATH"
)

#: The requested outputs, in the names of netperf's option -k. Rates are per second, and times in whole µs.
_QUANTILES = ("p50", "p90", "p99")
_LATENCIES = {f"client_{name}_s": f"{name.upper()}_LATENCY" for name in (*_QUANTILES, "max")}
_OUTPUTS = ("ELAPSED_TIME", "TRANSACTION_RATE", *_LATENCIES.values(), "REQUEST_SIZE", "RESPONSE_SIZE")

LINE = re.compile(r"^([A-Z][A-Z0-9_]{1,40})=(\d{1,15}(?:\.\d{1,9})?)$", re.MULTILINE)


def _latency(name: str, meaning: str, **how: Any) -> Metric:
    return Metric(name, "s", meaning, less_is_better=True, resolution=1e-6, **how)


class Netperf(Workload):
    """TCP_RR: requests one after the other; TCP_CRR with connect_per_request, UDP_RR with udp_share.

    A transaction of TCP_CRR includes its connection. netperf prints quantiles of each client's latencies in whole
    microseconds, but no histogram: the p99 of several clients together cannot be derived from them, so these are
    metrics of its own, and runs have no latency_p50_s. The number of transactions is the rate times the elapsed time,
    which is printed in hundredths of a second. By UDP, one lost datagram stops netperf until its time is over.
    """

    name = "netperf"
    summary = "netperf TCP_RR, UDP_RR and TCP_CRR: the rate of requests and responses"
    features = frozenset({"time", "udp", "transactions"})
    metrics = (
        *(_latency(f"client_{name}_s", f"clients' {name} latency") for name in _QUANTILES),
        _latency("client_max_s", "longest of clients' latencies", of_run="max"),
    )
    programs = (Program("netperf", "", _REMEDY), Program("netserver", "", _REMEDY))
    version_argv = ("netperf", "-V")
    whole_seconds = True
    one_port = False
    listens_by_tcp = True

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.requests_per_s or spec.udp_rate_bps:
            name = "requests_per_s" if spec.requests_per_s else "udp_rate_bps"
            raise BadSpec(f"{name}: netperf sends when the response has come: leave it out, or use rr")
        if spec.connect_per_request and spec.udp_share:
            raise BadSpec("connect_per_request: UDP has no connections: leave it out, or udp_share at 0")

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return ["netserver", "-D", "-N", "-L", pair.server.address, "-p", str(pair.port)]

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        udp = pair.task.protocol == "udp"
        test = "UDP_RR" if udp else "TCP_CRR" if spec.connect_per_request else "TCP_RR"
        argv = ["netperf", "-P", "0", "-H", pair.target, "-p", str(pair.port), "-t", test, "-l", f"{spec.total_s:.0f}"]
        sizes = f"{spec.request_bytes or 1},{spec.response_bytes or 1}"
        return [*argv, "--", "-r", sizes, "-k", ",".join(_OUTPUTS)]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        values = {name: float(value) for name, value in LINE.findall(stdout)}
        if missing := [name for name in _OUTPUTS if name not in values]:
            raise _refused(stdout, f"{missing[0]}=")
        duration_s, rate_per_s = values["ELAPSED_TIME"], values["TRANSACTION_RATE"]
        transactions = round(rate_per_s * duration_s)
        if not transactions:
            raise ValueError("netperf: no request was answered")
        flow = transaction_totals(duration_s, transactions, int(values["REQUEST_SIZE"] + values["RESPONSE_SIZE"]))
        return [FlowReport(flow | {name: values[field] / 1e6 for name, field in _LATENCIES.items()})]


def _refused(stdout: str, missing: str) -> ValueError:
    """The error for a missing value, with its line in the report, or else netperf's message, the first line."""
    lines = [line.strip() for line in stdout.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(missing):
            return ValueError(f"netperf printed {line[:160]!r}; expected a number, 0 or more, after {missing!r}")
    others = [line for line in lines if line.partition("=")[0] not in _OUTPUTS]
    return ValueError(f"netperf: {others[0][:200]}") if others else incomplete("netperf", stdout, f"{missing}NUMBER")
