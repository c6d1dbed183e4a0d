"""What a tool cannot do is refused before anything is built, with the parameter, and with what can be done."""

import pytest

from pairlab.errors import BadSpec
from pairlab.measurement.measure import resolve
from pairlab.model.spec import Spec
from pairlab.testbed import plans

ACROSS = {"hosts": 2, "placement": "across"}
REFUSED = {
    "all-to-all": [
        ({"pairs": 2, "ranks": 5}, "2 pairs are 4 containers, and 5 are asked for: give pairs 3, or ranks 0"),
        ({"pairs": 4, "ranks": 3}, "4 pairs are 8 containers, of which at most one can have no rank: give pairs 2"),
        ({"pairs": 1, "ranks": 1}, "at least two exchange messages"),
        ({"message_bytes": 1 << 21}, "message_bytes from 1 to 1048576"),
        ({"pairs": 129}, "between at most 256 containers"),
        ({"driver": "p2p", "pairs": 2}, "connects all with all"),
    ],
    "flowgen": [
        ({"udp_share": 0.5, "pairs": 2, "warmup_s": 1.0}, "no intervals for UDP"),
        ({"udp_share": 0.5, "pairs": 2, "message_bytes": 39}, "from 40 to 65507, not 39"),
        ({"request_bytes": 1}, r"'flowgen' cannot send requests .*; these can: .*\brr\b"),
    ],
    "iperf": [
        ({"flow_bytes": 1}, r"'iperf' cannot send flows of a given size \(flow_bytes\); these can: flowgen"),
        ({"flow_sizes": "prv2-1"}, "'iperf' cannot send flows of sizes from a distribution .*; these can: traffic"),
    ],
    "iperf3": [
        ({"flows_per_pair": 129}, "flows_per_pair from 1 to 128"),
        ({"message_bytes": 1_048_577}, "from 1 to 1048576"),
        ({"duration_s": 1.5}, r"whole seconds only, and warmup_s \+ duration_s is 1\.5"),
    ],
    "netcat": [
        ({}, r"'netcat' cannot send for a given time: give flow_bytes; .*\bflowgen\b"),
        ({"flow_bytes": 1 << 31}, "at most 1073741824 bytes"),
    ],
    "netperf": [
        ({"duration_s": 2.5}, r"whole seconds only, and duration_s is 2\.5"),
        ({"requests_per_s": 10.0}, "requests_per_s: netperf sends when the response has come"),
        ({"connect_per_request": True, "udp_share": 1.0}, "UDP has no connections"),
        ({"driver": "nat", **ACROSS}, "driver 'nat' publishes one port of each server"),
        ({"warmup_s": 1.0}, "'netperf' cannot leave out what was sent in warmup_s"),
    ],
    "rr": [
        ({"udp_share": 1.0, "request_bytes": 31}, "request_bytes: rr sends it by UDP with 32 to 65507, not 31"),
        ({"udp_share": 1.0, "response_bytes": 65508}, "response_bytes: rr sends it by UDP with 16 to 65507"),
        ({"udp_share": 1.0, "connect_per_request": True}, "UDP has no connections"),
        ({"udp_share": 1.0, "udp_rate_bps": 1e6}, "rr sends at requests_per_s"),
        ({"pairs": 2, "start_spacing_s": 1.0}, "'rr' cannot report intervals"),
    ],
    "sockperf": [
        ({"message_bytes": 13}, "from 14 to 65507, not 13"),
        ({"message_bytes": 65_508}, "from 14 to 65507, not 65508"),
        ({"duration_s": 2.5}, r"whole seconds only, and duration_s is 2\.5"),
        (
            {"udp_share": 1.0, "udp_rate_bps": 1e6},
            "udp_rate_bps: sockperf sends as fast as it can: leave it out, or use flowgen",
        ),
        ({"warmup_s": 1.0}, "'sockperf' cannot leave out what was sent in warmup_s"),
        ({"flows_per_pair": 2, "flow_bytes": 1}, "cannot send flows of.* nor send several"),
    ],
    "sockperf-ping-pong": [
        ({"request_bytes": 100}, "the same value, not 100 and 0"),
        ({"request_bytes": 13, "response_bytes": 13}, "takes request_bytes from 14 to 65507, not 13"),
        ({"connect_per_request": True}, "keeps its connection: leave connect_per_request out"),
        ({"requests_per_s": 10.0}, "has no rate: use sockperf-under-load"),
    ],
    "sockperf-under-load": [
        ({"requests_per_s": rate_hz}, f"at least 1: give requests_per_s, not {rate_hz:g}")
        for rate_hz in (0.0, 0.5, 1000.5)
    ],
    "stress-ng-cpu": [
        ({"direction": "down"}, "cannot send from servers to clients"),
        ({"warmup_s": 1.0}, "cannot leave out what was sent in warmup_s"),
    ],
    "stress-ng-stream": [({"duration_s": 4.0}, "from 5 s on: make duration_s that long, not 4")],
    "traffic": [
        ({"flow_sizes": ""}, "flow_sizes: traffic makes flows from a distribution"),
        ({"flow_sizes": "prv2"}, "flow_sizes: no flow size distribution or file 'prv2'; did you mean 'prv2-1'"),
        ({"fan_out": "4"}, "fan_out: a request cannot ask 4 of 3 servers"),
        ({"fan_out": "2=0"}, "fan_out: all weights are 0"),
        ({"pairs": 17}, "pairs: traffic has one client for at most 16 servers, not 17"),
        (
            {"offered_load_bps": 1e6, "requests": 1000},
            "duration_s: 1,000 requests at 1 Mbit/s take about 444 s, not 20",
        ),
        ({"arrivals": "fixed"}, "arrivals: in a closed loop a request follows another"),
        ({"flow_bytes": 1}, "flow_bytes: says nothing of flows from a distribution"),
        ({"driver": "p2p"}, "pairs: on driver 'p2p' containers reach the other one of their pair only"),
        ({"hosts": 2}, "placement: 'same-host' puts clients on several hosts, and workload 'traffic' has one"),
        ({"limited_uplinks": 1}, "limited_uplinks: a single host has no uplink"),
    ],
}
#: What the others are asked beside that.
ALSO = {"traffic": {"flow_sizes": "prv2-1", "flows_per_pair": 64, "duration_s": 20.0, "pairs": 3}}


@pytest.mark.parametrize(
    ("workload", "asked", "told"), [(name, *each) for name, cases in REFUSED.items() for each in cases]
)
def test_what_a_tool_cannot_do_is_refused_with_what_can_be_done(workload, asked, told):
    with pytest.raises(BadSpec, match=told):
        plans.layout(resolve(Spec(**{"workload": workload, **ALSO.get(workload, {}), **asked})))
