"""The picture of a testbed says what its facts say."""

import xml.etree.ElementTree as ElementTree

import pytest

from pairlab.base import topology


def end(name, kind="veth", address="10.77.0.1/16"):
    return {
        "name": name,
        "links": [
            {"name": "lo", "kind": "loopback"},
            {"name": "tunl0", "kind": "ipip"},
            {"name": "eth0", "kind": kind, "addresses": [address]},
        ],
    }


def host(index, ends, links, **more):
    uplink = {"name": "uplink0", "kind": "veth", "addresses": [f"10.76.0.{index + 1}/24"]}
    return {"name": f"host-{index}", "links": [*links, uplink], "endpoints": ends, "endpoint_count": len(ends), **more}


BRIDGE = {"name": "pairlab0", "kind": "bridge"}
VXLAN = {"name": "vxlan0", "kind": "vxlan", "settings": {"id": 77}}
OVERLAY = {
    "hosts": [
        host(0, [end("client-0")], [BRIDGE, VXLAN], endpoint_count=25),
        host(1, [end("server-0", address="10.77.0.2/16")], [BRIDGE, VXLAN], endpoint_count=25),
    ],
    "underlay": {"mtu": 1500, "tbf": {"rate_bps": 1e9}},
}


def texts(network):
    return [each.text for each in ElementTree.fromstring(topology.picture(network)).iter() if each.tag == "text"]


def test_a_picture_has_hosts_endpoints_links_and_the_wire():
    told = texts(OVERLAY)
    assert {"host-0  10.76.0.1", "host-1  10.76.0.2", "client-0", "server-0", "10.77.0.2", "+ 24"} <= set(told)
    assert told.count("bridge pairlab0") == told.count("vxlan vxlan0, id 77") == 2
    assert "uplinks of MTU 1,500 B, 1 Gbit/s each, one kernel" in told


def test_a_picture_says_which_uplinks_are_slow_where_not_all_are():
    told = texts({**OVERLAY, "underlay": {**OVERLAY["underlay"], "limited_hosts": ["host-1"]}})
    assert "uplinks of MTU 1,500 B, 1 Gbit/s at host-1, one kernel" in told


def test_a_picture_says_in_words_what_it_shows():
    words = topology.describe(OVERLAY)
    assert words.startswith("host-0: client-0 and 24 more on bridge pairlab0; vxlan vxlan0, id 77. host-1: server-0")
    assert ElementTree.fromstring(topology.picture(OVERLAY)).get("aria-label") == words


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"datapath": "netdev"}, "Open vSwitch, forwards in user space"),
        ({"datapath": "system"}, "Open vSwitch, forwards in the kernel"),
        ({"nft": "table ip pairlab {}"}, "nftables: published ports, masquerade"),
        ({"bgp": "BIRD version 2.0.12", "routes": "10.129.0.0/16"}, "BIRD: routes by BGP"),
    ],
)
def test_what_is_no_link_is_drawn_too(facts, line):
    assert line in texts({"hosts": [host(0, [end("client-0"), end("server-0")], [])], **facts})


def test_one_host_has_no_wire_and_no_name():
    told = texts({"hosts": [host(0, [end("client-0"), end("server-0")], [BRIDGE])]})
    assert "this host" in told
    assert not [each for each in told if "uplinks" in each]


def test_processes_without_a_network_of_their_own_are_drawn_as_such():
    assert texts({"hosts": [host(0, [{"name": "client-0"}, {"name": "server-0"}], [])]}).count("process") == 2


def test_of_many_hosts_four_are_drawn_and_the_rest_is_told():
    many = {"hosts": [host(index, [end(f"client-{index}")], [BRIDGE]) for index in range(9)], "underlay": {"mtu": 1500}}
    told = texts(many)
    assert [each for each in told if each.startswith("host-")] == [
        f"host-{index}  10.76.0.{index + 1}" for index in (0, 1, 2, 8)
    ]
    assert told[-1] == "uplinks of MTU 1,500 B, one kernel; 5 hosts are not drawn"


def test_names_are_no_markup():
    hostile = {"hosts": [host(0, [end("<script>'\"&")], [{"name": "<b>", "kind": "bridge"}])]}
    assert "<script>'\"&" in texts(hostile)


def test_a_run_of_before_has_no_picture():
    assert topology.picture({}) == topology.drawer({}) == ""
