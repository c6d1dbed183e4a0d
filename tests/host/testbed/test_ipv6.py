"""Traffic over IPv6: by the networks whose endpoints share a subnet or a loopback; others are refused beforehand."""

import errno
import ipaddress
import sys

import pytest

from pairlab import measure, open_testbed
from pairlab.errors import BadSpec, Unavailable
from pairlab.testbed.netns.backend import IPV6
from pairlab.testbed.plans import layout
from tests.conftest import need_all_of
from tests.support.shared import FLOW_BYTES, asking, watched
from tests.support.sockets import assert_inside

pytestmark = pytest.mark.skipif(not IPV6.exists(), reason="this kernel has no IPv6")

ACROSS = {"hosts": 2, "placement": "across"}
#: What an endpoint received in packets of IPv6, and how often it asked for a neighbour (proc_pid_net(5), snmp6).
RECEIVED, ASKED = "Ip6InOctets", "Icmp6OutNeighborSolicits"


def over_ipv6(driver="bridge", workload="flowgen", **values):
    return asking(workload, driver=driver, ip_version=6, **values)


def counts(endpoint):
    lines = endpoint.run(["cat", "/proc/self/net/snmp6"]).stdout.splitlines()
    return {name: int(count) for name, count in map(str.split, lines)}


DRIVERS = [
    ("bridge", {}),
    ("macvlan", {}),
    ("ovs", {}),
    ("p2p", {}),
    ("container", {}),
    ("host", {}),
    ("overlay", ACROSS),
]


@pytest.mark.parametrize(("driver", "values"), DRIVERS)
def test_servers_listen_at_addresses_of_ipv6_and_each_byte_is_counted(driver, values, tmp_path):
    spec = over_ipv6(driver, flow_bytes=FLOW_BYTES, duration_s=60.0, **values)
    need_all_of(spec)
    seen = watched(spec, tmp_path / "runs")
    servers = [end for name, end in seen.at_release.items() if name.startswith("server-")]
    assert {ipaddress.ip_address(end.address).version for end in servers} == {6}
    assert_inside("netns", driver, servers, seen.new_listeners)
    assert seen.run.flows["flow_bytes"].to_list() == [FLOW_BYTES] * 2, list(seen.run.flows["error"])
    assert seen.run.checks["interface_bytes"] in (None, 0.0)


@pytest.mark.parametrize(("driver", "values"), DRIVERS)
def test_nobody_is_asked_for_a_neighbour(driver, values):
    spec = over_ipv6(driver, **values)
    need_all_of(spec)
    with open_testbed(spec) as bed:
        pair = bed.pairs[0]
        calls = f"import socket; print(socket.socket(socket.AF_INET6).connect_ex(({pair.target!r}, 9)))"
        before = counts(pair.server)
        refused = pair.client.run([sys.executable, "-c", calls])
        after = [counts(pair.client), counts(pair.server)]
    assert int(refused.stdout) == errno.ECONNREFUSED
    assert after[1][RECEIVED] > before[RECEIVED]
    assert [each[ASKED] for each in after] == [0, 0]


@pytest.mark.parametrize(
    ("workload", "values"),
    [
        ("flowgen", {"flow_bytes": FLOW_BYTES, "duration_s": 60.0}),
        ("flowgen", {"udp_share": 1.0, "udp_rate_bps": 1e6, "warmup_s": 0.0}),
        ("rr", {}),
        ("all-to-all", {"message_bytes": 1000}),
        ("iperf", {}),
        ("iperf3", {}),
        ("netcat", {"flow_bytes": FLOW_BYTES, "duration_s": 60.0}),
    ],
)
def test_what_tools_report_is_what_the_links_carried(workload, values, tmp_path):
    """The headers of IPv6 are 20 B longer: a tenth of a percent of full packets, all of small ones."""
    spec = over_ipv6(workload=workload, **values)
    need_all_of(spec)
    run = measure(spec, root=tmp_path / "runs")
    assert list(run.flows["status"]) == ["ok"] * len(run.flows), list(run.flows["error"])
    for check in ("interface_bytes", "port_bytes", "datagram_bytes"):
        assert run.checks.get(check) in (None, 0.0), (check, run.reasons)


def test_a_congestion_control_is_set_on_the_routes_of_ipv6(tmp_path):
    run = measure(over_ipv6(congestion_control="reno", flow_bytes=FLOW_BYTES, duration_s=60.0), root=tmp_path / "runs")
    assert run.congestion_control == "reno"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"backend": "docker"}, "networks of backend 'docker' have IPv4: take backend 'netns'"),
        ({"driver": "nat"}, "driver 'nat' connects hosts by IPv4: take a driver whose containers share one subnet"),
        ({"driver": "host", **ACROSS}, "driver 'host' connects hosts by IPv4"),
    ],
)
def test_networks_of_ipv4_are_refused_before_anything_is_built(values, why):
    lacks = layout(over_ipv6(**values))._missing_ipv6()
    assert why in "; ".join(map(str, lacks))


def test_a_tool_that_sends_over_ipv4_alone_is_refused(tmp_path):
    with pytest.raises((BadSpec, Unavailable), match=r"cannot send over IPv6 \(ip_version\); these can: .*iperf3"):
        measure(over_ipv6(workload="sockperf"), root=tmp_path / "runs")
