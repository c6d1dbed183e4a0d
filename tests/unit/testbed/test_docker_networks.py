"""What Docker is asked for, for each driver whose network it provides."""

import types
from pathlib import Path

import pytest

from pairlab import Spec
from pairlab.testbed.docker import hosts
from pairlab.testbed.docker.engine import Engine, create_network
from pairlab.testbed.plans import layout


class Asked:
    """A daemon's client that keeps what networks are asked of it."""

    def __init__(self):
        self.api = self
        self.networks = []

    def create_network(self, name, **arguments):
        self.networks.append({"name": name, **arguments})

    def init_swarm(self, **_):
        pass

    def inspect_swarm(self):
        return {"JoinTokens": {"Worker": "token"}}

    def join_swarm(self, *_, **__):
        return True


def asked(driver, **spec):
    """The networks that the daemons of all hosts are asked for."""
    plan = layout(Spec(backend="docker", driver=driver, pairs=2, **spec))
    clients = [Asked() for _ in plan.hosts]
    engines = [Engine(client, "x", Path()) for client in clients]
    found = hosts._network(engines, plan)
    return found, [network for client in clients for network in client.networks]


@pytest.mark.parametrize(("driver", "mode"), [("ipvlan-l2", "l2"), ("ipvlan-l3", "l3")])
def test_ipvlan_is_dockers_own_in_that_mode_on_the_parent_made_for_it(driver, mode):
    client = Asked()
    kind = layout(Spec(backend="docker", driver=driver)).driver
    assert create_network(Engine(client, "x", Path()), kind, "plx", 0) == "pairlab-x"
    (network,) = client.networks
    assert (network["driver"], network["options"]) == ("ipvlan", {"ipvlan_mode": mode, "parent": "plx"})
    assert network["ipam"] is None  # on the user's daemon, Docker chooses a subnet that is free


def test_ipvlan_on_one_of_several_hosts_is_on_its_uplink():
    (name, fixed), found = asked("ipvlan-l2", hosts=2)
    assert (name, fixed) == ("pairlab-x", True)
    assert [each["options"]["parent"] for each in found] == ["uplink0", "uplink0"]
    assert [each["ipam"]["Config"][0]["Subnet"] for each in found] == ["10.77.0.0/16"] * 2


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("overlay", {"com.docker.network.driver.mtu": "1500"}),
        ("overlay-encrypted", {"com.docker.network.driver.mtu": "1500", "encrypted": ""}),
    ],
)
def test_an_overlay_has_room_for_more_pairs_than_dockers_default_subnet(driver, options):
    (_, fixed), (network,) = asked(driver, hosts=2, placement="across")  # asked of a swarm's manager only
    assert (network["driver"], network["options"], fixed) == ("overlay", options, False)
    (pool,) = network["ipam"]["Config"]
    assert pool["Subnet"] == "10.77.0.0/16"
    assert (network["attachable"], network["scope"]) == (True, "swarm")


def test_an_encrypted_overlay_leaves_room_for_ipsec_besides_the_tunnel():
    spec = Spec(backend="docker", driver="overlay-encrypted", hosts=2, placement="across")
    assert {each.mtu_bytes for each in layout(spec).endpoints} == {1424}


def test_published_ports_are_on_a_bridge_with_the_planned_subnet_on_each_host():
    (_, fixed), found = asked("nat", hosts=2, placement="across")
    assert fixed
    assert [each["options"]["com.docker.network.bridge.name"] for each in found] == ["pairlab0", "pairlab0"]
    pools = [each["ipam"]["Config"][0] for each in found]
    assert [(each["Subnet"], each["Gateway"]) for each in pools] == [
        ("10.128.0.0/16", "10.128.0.1"),
        ("10.129.0.0/16", "10.129.0.1"),
    ]


@pytest.mark.parametrize(("driver", "proxy"), [("nat", "false"), ("nat-proxy", "true"), ("overlay", "false")])
def test_daemons_have_a_userland_proxy_only_where_the_driver_is_about_it(driver, proxy):
    kind = layout(Spec(backend="docker", driver=driver)).driver
    words = hosts._dockerd(Path("/run/of-host"), "group", kind)
    assert f"--userland-proxy={proxy}" in words
    assert not [word for word in words if word.startswith("--iptables")]  # which is on unless it is turned off


def test_a_servers_port_is_published_for_tcp_and_udp_and_no_clients_is():
    made = {}
    client = types.SimpleNamespace(api=types.SimpleNamespace())
    client.api.create_endpoint_config = lambda **arguments: arguments
    client.api.create_networking_config = lambda configured: configured
    client.api.create_host_config = lambda **arguments: arguments
    client.api.create_container = lambda image, argv, **arguments: (
        made.update({arguments["name"]: arguments}) or {"Id": "made"}
    )
    client.api.start = lambda container: None
    plan = layout(Spec(backend="docker", driver="nat", pairs=2))
    engine = Engine(client, "x", Path("/dev"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pairlab.testbed.docker.engine.note", lambda directory, container: None)
        for endpoint in plan.endpoints[2:]:
            engine.start(endpoint, "pairlab-x", endpoint.address)
    server, from_client = made["pairlab-x-server-1"], made["pairlab-x-client-1"]
    assert server["ports"] == [(5202, "tcp"), (5202, "udp")]
    bound = ("0.0.0.0", 5202)
    assert server["host_config"]["port_bindings"] == {"5202/tcp": bound, "5202/udp": bound}
    assert server["networking_config"] == {"pairlab-x": {"ipv4_address": "10.128.0.5"}}
    assert (from_client["ports"], from_client["host_config"]["port_bindings"]) == ([], {})
