"""Round trips of a small message over every network, within a host and between two, where nothing else is sent."""

import re

from pairlab import Spec, open_testbed
from pairlab.errors import PairlabError
from pairlab.testbed import plans, registry
from tests.bench.table import leave_out, out

#: sockperf(3.7) prints half a round trip at each percentile.
_PERCENTILE = re.compile(r"percentile (50|99)\.000 = +([\d.]+)")
SECONDS, MESSAGE_BYTES = 3, 64


def networks():
    """The median and the p99 of round trips over each network that this machine has, in microseconds."""
    for backend in registry.backends.names():
        for name in registry.drivers.names():
            driver = registry.drivers.get(name)
            for hosts in (1, 2):
                asked = {"hosts": 2, "placement": "across"} if hosts == 2 else {}
                if driver.carries_traffic and (hosts == 1 or driver.spans_hosts):
                    _one(Spec(backend=backend, driver=name, pairs=1, workload="sockperf", **asked))


def _one(spec):
    what = f"{spec.backend}, {spec.driver}, {spec.hosts} host{'s' * (spec.hosts > 1)}: round trip"
    plan = plans.layout(spec)
    if lacks := plan.lacks():
        return leave_out(what, "; ".join(str(lack) for found in lacks.values() for lack in found))
    try:
        with open_testbed(plan) as bed:
            found = _round_trips_us(bed)
    except PairlabError as error:
        return leave_out(what, str(error))
    out.print(f"{what}: p50 {found['50']:.1f} µs, p99 {found['99']:.1f} µs")


def _round_trips_us(bed):
    (pair,), conductor = bed.pairs, bed.conductor
    listening = ["sockperf", "server", "--tcp", "-i", pair.server.address, "-p", str(pair.port)]
    servers = conductor.start([(pair.server, listening)], options=[["--listen", str(pair.port)]])
    conductor.wait_ready(servers, 10)
    ask = ["sockperf", "ping-pong", "--tcp", "-i", pair.target, "-p", str(pair.port)]
    done = pair.client.run([*ask, "-t", str(SECONDS), "-m", str(MESSAGE_BYTES)], timeout_s=30)
    conductor.stop(servers)
    conductor.results(servers)
    if done.returncode:
        raise PairlabError(f"sockperf failed: {done.stderr or done.stdout}")
    return {percentile: 2 * float(half) for percentile, half in _PERCENTILE.findall(done.stdout)}
