"""What a plan refuses before anything is built."""

import ipaddress
import re
import subprocess
import sys

import pytest

from pairlab.errors import BadSpec
from pairlab.measurement.measure import resolve
from pairlab.model.spec import Spec
from pairlab.testbed import registry, requirements
from pairlab.testbed.endpoints import Limits, Task, pairs_of
from pairlab.testbed.placement import most_on_a_host, placement
from pairlab.testbed.plans import layout

MICE = {"workload": "flowgen", "flow_bytes": 5_000_000, "elephant_bytes": 50_000_000}
ACROSS = {"hosts": 2, "placement": "across"}
OVER_A_PROXY = {"backend": "docker", "driver": "nat-proxy"}
BOTH_WAYS = {**OVER_A_PROXY, "direction": "both", "workload": "iperf3"}
SLOW_LINK = {"link_rate_bps": 1e8, "duration_s": 0.5}
ONE_CLIENT = {"workload": "traffic", "flow_sizes": "fixed", "pairs": 3}
ON_THREE = {"hosts": 3, "placement": "one-to-all", "driver": "overlay"}
REFUSED = [
    # Shares that are none or all of the pairs.
    ({**MICE, "pairs": 10, "elephant_share": 0.05}, "elephant_share: 0.05 of 10 pairs is none, rounded"),
    ({**MICE, "pairs": 1, "elephant_share": 0.5}, "elephant_share: 0.5 of 1 pair is none, rounded"),
    ({"pairs": 4, "priority_share": 0.1, "priority_cpu_shares": 2048}, "priority_share: 0.1 of 4 pairs is none"),
    ({"pairs": 10, "udp_share": 0.04}, "udp_share: 0.04 of 10 pairs is none, .* or udp_share 0"),
    ({"pairs": 10, "udp_share": 0.96}, "udp_share: 0.96 of 10 pairs is all, .* or udp_share 1"),
    # What runs beside the pairs.
    ({"background_workload": "iperf3"}, "background_workload: there is no background: give background_pairs"),
    ({"interference_load": 0.1}, "interference_load: there is no interference: give interference_workers"),
    ({"interference_where": "both"}, "interference_where: there is no interference"),
    ({"interference_workers": 1, "interference_load": 0.0}, "interference_load: .* greater than or equal to 0.001"),
    ({"background_pairs": 1, "background_workload": "iperf9"}, "no workload 'iperf9'; did you mean 'iperf'"),
    ({"background_pairs": 1, "background_workload": "auto"}, "no workload 'auto'"),
    (
        {"background_pairs": 1, "background_workload": "netcat"},
        "'netcat' does not send until it is stopped and then report it; these can: flowgen, iperf, iperf3$",
    ),
    ({"background_driver": "host"}, "background_driver: there is no background: give background_pairs"),
    ({"background_pairs": 1, "background_driver": "host"}, "background_driver: no pair crosses hosts"),
    (
        {"background_pairs": 1, "background_driver": "host", "driver": "process", **ACROSS},
        "pairs over 'process' have no network but their hosts'",
    ),
    ({"interference_tool": "stress-ng"}, "interference_tool: there is no interference"),
    ({"background_pairs": 1, "background_workload": "rr"}, "'rr' does not send until it is stopped"),
    # Endpoints whose packets are captured.
    ({"capture": "client-0,server-2", "pairs": 2}, r"no endpoint 'server-2' \(there are: client-0, server-0, client-1"),
    (
        {**ONE_CLIENT, "capture": "client-1"},
        r"no endpoint 'client-1' \(there are: client-0, server-0, server-1, server-2",
    ),
    ({"capture": "client-0", "driver": "host"}, "over driver 'host' endpoints share their host's network"),
    ({"capture": "worker-0"}, "capture: .*pattern"),
    ({"capture": "client-0", "launches": 1}, "capture: launches send no traffic"),
    # Hosts, and what they can have.
    ({"pairs": 400, "background_pairs": 200, "driver": "bridge"}, "at most 511, not 600"),
    ({"driver": "overlay", **ACROSS, "pairs": 1100}, "pairs: 'overlay' can have at most 1022 .* on a host, not 1100"),
    (
        {"driver": "overlay", "hosts": 5, "placement": "across", "pairs": 2},
        "with 2 pairs placed 'across', 1 of 5 hosts have no container: take more pairs",
    ),
    # Links, whose first burst counts, and uplinks.
    (SLOW_LINK, r"the throughput 1\.3% too high: .* a duration_s of 1\.4 or more"),
    (
        {"driver": "overlay", **ACROSS, "uplink_rate_bps": 1e8, "duration_s": 0.5},
        "uplink_rate_bps: .* too high: give a warmup_s, or a duration_s of",
    ),
    ({"driver": "overlay", "hosts": 2, "pairs": 2, "uplink_rate_bps": 1e9}, "uplink_rate_bps: no pair crosses hosts"),
    ({**ONE_CLIENT, **ON_THREE, "limited_uplinks": 4, "uplink_rate_bps": 1e9}, "limited_uplinks: .* 3 hosts, not 4"),
    (
        {**ONE_CLIENT, **ON_THREE, "limited_uplinks": 1},
        "limited_uplinks: nothing limits uplinks: give uplink_rate_bps, uplink_delay_s or uplink_loss",
    ),
    (
        {"driver": "overlay", **ACROSS, "mtu_bytes": 9000},
        r"uplinks of 1500 B carry, of which 50 .*: give uplink_mtu_bytes 9050, or mtu_bytes 1450",
    ),
    # Flows that a proxy would mix up.
    ({**OVER_A_PROXY, "flows_per_pair": 2}, "flows_per_pair: driver 'nat-proxy' relays flows within a host, so that"),
    (BOTH_WAYS, r"direction: driver 'nat-proxy' relays .*: give up or down, take workload 'flowgen'"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED, ids=lambda each: each if isinstance(each, str) else "")
def test_what_cannot_be_planned_is_refused_with_what_can(asked, said):
    with pytest.raises(BadSpec, match=said):
        layout(resolve(Spec(**{"workload": "flowgen", **asked})))


@pytest.mark.parametrize(
    "asked",
    [
        *(SLOW_LINK | more for more in ({"duration_s": 1.4}, {"warmup_s": 0.5}, {"flow_bytes": 1000})),
        SLOW_LINK | {"link_rate_bps": 0.0},
        *({**OVER_A_PROXY, "flows_per_pair": 2} | more for more in (ACROSS, {"driver": "nat"})),
        *(BOTH_WAYS | more for more in ({"driver": "nat"}, {"workload": "flowgen"})),
    ],
    ids=str,
)
def test_what_is_next_to_what_is_refused_is_planned(asked):
    layout(Spec(**{"workload": "flowgen", **asked}))


@pytest.mark.parametrize("asked", [{"udp_share": 0.06}, {"udp_share": 0.94}, {"udp_share": 0}, {"udp_share": 1}])
def test_a_share_that_is_some_of_the_pairs_is_kept(asked):
    tasks = layout(Spec(workload="flowgen", pairs=10, **asked)).tasks
    assert sum(task.protocol == "udp" for task in tasks) == round(10 * asked["udp_share"])


def test_more_endpoints_than_this_process_may_have_open_files_are_refused_with_what_raises_the_limit(monkeypatch):
    monkeypatch.setattr(requirements.resource, "getrlimit", lambda which: (64, 84))
    assert requirements.missing_open_files(20) == []
    (lack,) = requirements.missing_open_files(21)
    assert lack.what == "21 endpoints need 85 open files, and this process may have 84"
    assert "LimitNOFILE" in lack.remedy


def test_a_command_may_open_as_many_files_as_a_notebooks_kernel_needs():
    """In a process of its own, as a limit is for good. With 64, a kernel had none left when it began to measure."""
    code = (
        "import resource; _, most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))\n"
        "from pairlab.cli import main; main(['ls', '--help'], standalone_mode=False)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) == requirements.OPEN_FILES


# --- what runs beside the pairs


def test_background_pairs_come_after_the_others_whose_addresses_and_hosts_stay_and_are_on_the_same_hosts():
    asked = {"workload": "flowgen", "driver": "overlay", "hosts": 4, "placement": "across", "pairs": 2}
    alone, beside = layout(Spec(**asked)), layout(Spec(**asked, background_pairs=2))
    assert beside.endpoints[:4] == alone.endpoints
    assert [each.name for each in beside.endpoints[4:]] == ["client-2", "server-2", "client-3", "server-3"]
    assert [each.host for each in beside.endpoints[4:]] == [each.host for each in alone.endpoints] == [0, 2, 1, 3]
    assert [each.role for each in beside.tasks] == ["", "", "background", "background"]
    assert len({each.address for each in beside.endpoints}) == 8


def test_a_background_on_the_hosts_own_network_has_their_addresses_and_nothing_of_the_driver_s():
    asked = Spec(workload="flowgen", driver="bgp", hosts=2, placement="across", link_loss=0.1)
    alone = layout(asked)
    beside = layout(asked.replace(background_pairs=2, background_driver="host"))
    assert beside.endpoints[:2] == alone.endpoints
    assert [(each.name, each.address, each.uses_host_network) for each in beside.endpoints[2:]] == [
        ("client-1", beside.hosts[0].address, True),
        ("server-1", beside.hosts[1].address, True),
        ("client-2", beside.hosts[0].address, True),
        ("server-2", beside.hosts[1].address, True),
    ]
    assert list(beside.links) == ["server-0"]


def test_the_background_has_the_cores_and_a_fair_part_as_the_others_do():
    plan = layout(Spec(workload="flowgen", background_pairs=1, cores=1, cpu_quota_of_fair_share=1.0), cpus=[4, 5])
    assert {each.limits for each in plan.endpoints} == {Limits((4,), 0.25)}
    assert plan.tasks == (Task(), Task(role="background"))


def test_the_background_is_asked_for_tcp_until_after_all_else_can_take():
    spec = Spec(workload="flowgen", flow_bytes=1000, duration_s=30.0, background_pairs=3, background_workload="iperf3")
    told = layout(spec).background_spec
    assert (told.workload, told.pairs, told.flow_bytes) == ("iperf3", 3, 0)
    assert told.duration_s == 15 + 40 + 60  # to its rate, the flows' time and what they may take to end, and some
    assert layout(spec.replace(duration_s=86400.0)).background_spec.duration_s == 86400


@pytest.mark.parametrize(
    ("asked", "hosts"),
    [
        ({}, [0, 0]),
        ({"hosts": 2, "placement": "across"}, [0, 0]),
        ({"hosts": 2, "placement": "across", "interference_where": "server"}, [1, 1]),
        ({"hosts": 2, "placement": "across", "interference_where": "both"}, [0, 0, 1, 1]),
        ({"hosts": 4, "placement": "across", "pairs": 2}, [0, 0, 1, 1]),
        ({"hosts": 3, "placement": "one-to-many", "pairs": 2, "background_pairs": 2}, [0, 0]),
    ],
)
def test_interference_is_on_each_host_of_those_who_are_to_have_it(asked, hosts):
    plan = layout(Spec(workload="flowgen", driver="overlay", interference_workers=2, **asked))
    assert [each.host for each in plan.workers] == hosts
    assert [each.name for each in plan.workers] == [f"worker-{number}" for number in range(len(hosts))]


def test_interference_is_on_the_cores_of_the_pairs_and_has_a_group_where_they_have():
    def limits(**asked):
        (worker,) = layout(Spec(workload="flowgen", interference_workers=1, **asked), cpus=[0, 1, 2]).workers
        return worker.limits

    assert limits() == Limits()
    assert limits(cores=2) == Limits((0, 1))
    assert limits(cpu_quota=0.5) == limits(cpu_shares=2048) == Limits(cpu_shares=1024)


# --- several hosts


@pytest.mark.parametrize(
    ("hosts", "where", "placed"),
    [
        (1, "same-host", [(0, 0), (0, 0), (0, 0), (0, 0)]),
        (2, "same-host", [(0, 0), (1, 1), (0, 0), (1, 1)]),
        (2, "across", [(0, 1), (0, 1), (0, 1), (0, 1)]),
        (4, "across", [(0, 2), (1, 3), (0, 2), (1, 3)]),
        (3, "across", [(0, 1), (0, 2), (0, 1), (0, 2)]),
        (4, "one-to-many", [(0, 1), (0, 2), (0, 3), (0, 1)]),
        (3, "one-to-all", [(0, 0), (0, 1), (0, 2), (0, 0)]),
        (2, "spread", [(0, 1), (0, 1), (0, 1), (0, 1)]),
        (3, "spread", [(0, 1), (2, 0), (1, 2), (0, 1)]),
        (2, "packed-but-one", [(0, 1), (1, 1), (1, 1), (1, 1)]),
    ],
)
def test_endpoints_are_placed_as_asked(hosts, where, placed):
    spec = Spec(driver="process", hosts=hosts, placement=where, pairs=4)
    assert placement(spec) == placed
    plan = layout(spec)
    assert [each.host for each in plan.endpoints] == [host for pair in placed for host in pair]
    assert plan.crosses_hosts == any(client != server for client, server in placed)


def test_a_network_that_ends_at_its_host_is_refused_only_where_pairs_cross():
    lacking = layout(Spec(driver="bridge", hosts=2, placement="across"))._missing_span()
    assert "a network of driver 'bridge' ends at its host" in str(lacking[0])
    assert "overlay" in str(lacking[0])
    assert layout(Spec(driver="bridge", hosts=2, pairs=2))._missing_span() == []


@pytest.mark.parametrize("driver", registry.drivers.names())
def test_every_address_is_had_once_and_in_the_network_of_its_host(driver):
    kind = registry.drivers.get(driver)
    plan = layout(Spec(driver=driver, hosts=3, placement="spread", pairs=30))
    addresses = [each.address for each in plan.endpoints]
    own = [host.address for host in plan.hosts] + [host.gateway for host in plan.hosts if host.gateway]
    assert len(set(own)) == len(own) >= 3
    if not kind.has_links():
        assert set(addresses) <= {"127.0.0.1", *own}
        return
    assert len(set(addresses)) == 60
    assert not set(addresses) & set(own)
    for each in plan.endpoints:
        subnet = plan.hosts[each.host].subnet
        assert bool(subnet) == bool(each.gateway) == kind.routed
        assert not subnet or ipaddress.ip_address(each.address) in ipaddress.ip_network(subnet)
        assert each.published == (plan.hosts[each.host].address if kind.publishes and each.side == "server" else "")


def test_what_a_tunnel_adds_is_left_for_it_between_hosts():
    spec = Spec(driver="overlay", hosts=2, placement="across")
    assert {each.mtu_bytes for each in layout(spec).endpoints} == {1450}
    assert {each.mtu_bytes for each in layout(spec.replace(driver="macvlan")).endpoints} == {1500}
    assert {each.mtu_bytes for each in layout(Spec(driver="overlay")).endpoints} == {0}
    jumbo = spec.replace(uplink_mtu_bytes=9050, mtu_bytes=9000)
    assert {each.mtu_bytes for each in layout(jumbo).endpoints} == {9000}


def test_more_containers_than_a_bridge_has_ports_are_counted_by_host():
    assert most_on_a_host(Spec(pairs=511)) == 1022
    assert most_on_a_host(Spec(driver="overlay", hosts=2, placement="across", pairs=600)) == 600
    resolve(Spec(driver="overlay", hosts=2, placement="across", pairs=600, workload="flowgen"))


def test_a_workload_with_one_client_has_no_other_and_each_server_is_that_clients():
    plan = layout(Spec(**ONE_CLIENT, **ON_THREE))
    assert [(each.name, each.host) for each in plan.endpoints] == [
        *[("client-0", 0), ("server-0", 0), ("server-1", 1), ("server-2", 2)]
    ]
    assert [client.name for client, _ in pairs_of(plan.endpoints)] == ["client-0"] * 3
    assert plan.crosses_hosts
    assert len({each.address for each in plan.endpoints}) == 4


def test_the_fair_part_of_a_cpu_is_of_the_containers_that_there_are():
    asked = {**ONE_CLIENT, "cpu_quota_of_fair_share": 1.0}
    assert layout(Spec(**asked), cpus=range(4)).endpoints[0].limits.cpu_quota == 1.0


@pytest.mark.parametrize("limited", [0, 1, 2, 3])
def test_the_last_hosts_alone_have_slow_uplinks(limited):
    plan = layout(Spec(**ONE_CLIENT, **ON_THREE, uplink_rate_bps=1e9, uplink_delay_s=0.01, limited_uplinks=limited))
    slow = [each.name for each in plan.hosts if (each.uplink.rate_bps, each.uplink.delay_s) == (1e9, 0.01)]
    fast = [each.name for each in plan.hosts if (each.uplink.rate_bps, each.uplink.delay_s) == (0, 0)]
    assert slow == ["host-0", "host-1", "host-2"][-(limited or 3) :]
    assert len(slow) + len(fast) == 3
    assert {each.uplink.mtu_bytes for each in plan.hosts} == {1500}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"uplink_rate_bps": 1e9, "limited_uplinks": 1, "offered_load_bps": 2.8e9}, ""),
        ({"uplink_rate_bps": 1e9, "limited_uplinks": 1, "offered_load_bps": 3e9}, "1 Gbit/s .* host-2, .* 956"),
        (
            {"uplink_rate_bps": 1e9, "offered_load_bps": 1.5e9},
            "1 Gbit/s of .* uplink of host-0",
        ),  # two thirds arrive there
        ({"offered_load_bps": 1e12}, ""),
    ],
)
def test_more_load_than_an_uplink_carries_is_told_and_no_other(asked, told):
    found = layout(Spec(**ONE_CLIENT, **ON_THREE, **asked)).overload()
    assert re.search(told, found) if told else not found
