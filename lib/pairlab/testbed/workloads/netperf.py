"""netperf: its tests TCP_RR, UDP_RR and TCP_CRR, which the spec chooses between."""

import re

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Metric, Workload, incomplete, transaction_totals
from pairlab.testbed.requirements import Program

_REMEDY = (
    "add the component non-free to Debian's sources and apt-get install netperf, or build it from"
    " https://github.com/HewlettPackard/netperf, so that netperf and netserver are on PATH"
)

#: What is asked of netperf, in the names of its option -k. It counts in transactions a second, and times in whole µs.
_QUANTILES = ("p50", "p90", "p99")
_LATENCIES = {f"client_{name}_s": f"{name.upper()}_LATENCY" for name in (*_QUANTILES, "max")}
_ASKED = ("ELAPSED_TIME", "TRANSACTION_RATE", *_LATENCIES.values(), "REQUEST_SIZE", "RESPONSE_SIZE")

LINE = re.compile(r"^([A-Z][A-Z0-9_]{1,40})=(\d{1,15}(?:\.\d{1,9})?)$", re.MULTILINE)


def _latency(name, meaning, **how):
    return Metric(name, "s", meaning, less_is_better=True, resolution=1e-6, **how)


class Netperf(Workload):
    """TCP_RR: requests one after the other; TCP_CRR with connect_per_request, UDP_RR with udp_share.

    A transaction of TCP_CRR includes its connection. netperf tells quantiles of each client's latencies in whole
    microseconds, and not how many requests took how long: p99 of several clients together cannot be made of them, so
    these are metrics of its own, and runs have no latency_p50_s. Their number is its rate times its elapsed time, of
    which it prints hundredths of a second. By UDP, one datagram that is lost stops it until its time is over.
    """

    name = "netperf"
    summary = "netperf TCP_RR, UDP_RR and TCP_CRR: the rate of requests and responses"
    can = frozenset({"time", "udp", "transactions"})
    metrics = (
        *(_latency(f"client_{name}_s", f"clients' {name} latency") for name in _QUANTILES),
        _latency("client_max_s", "longest of clients' latencies", of_run="max"),
    )
    programs = (Program("netperf", "", _REMEDY), Program("netserver", "", _REMEDY))
    version_argv = ("netperf", "-V")
    one_port = False
    listens_by_tcp = True

    def check(self, spec):
        if spec.total_s != int(spec.total_s):
            raise BadSpec(f"netperf sends for whole seconds only, and duration_s is {spec.total_s:g}: change it")
        if spec.requests_per_s or spec.udp_rate_bps:
            name = "requests_per_s" if spec.requests_per_s else "udp_rate_bps"
            raise BadSpec(f"{name}: netperf sends when the response has come: leave it out, or use rr")
        if spec.connect_per_request and spec.udp_share:
            raise BadSpec("connect_per_request: UDP has no connections: leave it out, or udp_share at 0")

    def server(self, pair, spec, site):
        return ["netserver", "-D", "-N", "-L", pair.server.address, "-p", str(pair.port)]

    def client(self, pair, spec, site):
        udp = pair.task.protocol == "udp"
        test = "UDP_RR" if udp else "TCP_CRR" if spec.connect_per_request else "TCP_RR"
        argv = ["netperf", "-P", "0", "-H", pair.target, "-p", str(pair.port), "-t", test, "-l", f"{spec.total_s:.0f}"]
        sizes = f"{spec.request_bytes or 1},{spec.response_bytes or 1}"
        return [*argv, "--", "-r", sizes, "-k", ",".join(_ASKED)]

    def parse(self, stdout, served=""):
        told = {name: float(value) for name, value in LINE.findall(stdout)}
        if missing := [name for name in _ASKED if name not in told]:
            raise _refused(stdout, f"{missing[0]}=")
        duration_s, rate_per_s = told["ELAPSED_TIME"], told["TRANSACTION_RATE"]
        transactions = round(rate_per_s * duration_s)
        if not transactions:
            raise ValueError("netperf: no request was answered")
        flow = transaction_totals(duration_s, transactions, int(told["REQUEST_SIZE"] + told["RESPONSE_SIZE"]))
        return [Measured(flow | {name: told[field] / 1e6 for name, field in _LATENCIES.items()})]


def _refused(stdout, missing):
    """Why a report has no value of that name: what it has there, or else what netperf says, which is its first line."""
    lines = [line.strip() for line in stdout.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(missing):
            return ValueError(f"netperf printed {line[:160]!r}; expected a number, 0 or more, after {missing!r}")
    said = [line for line in lines if line.partition("=")[0] not in _ASKED]
    return ValueError(f"netperf: {said[0][:200]}") if said else incomplete("netperf", stdout, f"{missing}NUMBER")
