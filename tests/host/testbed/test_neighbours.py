"""Endpoints know their neighbours before any traffic; where the kernel has no room for that, the spec is refused."""

import json
import os
import shutil
import subprocess
import sys

import psutil
import pytest

from pairlab import Spec, open_testbed
from pairlab.testbed import requirements
from pairlab.testbed.docker.site import DockerSite
from pairlab.testbed.plans import layout
from tests.conftest import any_backend, every_driver, need, with_links
from tests.support.shared import asking, watched

#: Replaces what a sandbox's agent introduces neighbours with, in an agent that finds this as its sitecustomize.py.
INTRODUCES_NOBODY = """
from pairlab.testbed.netns import neighbours
neighbours.set_partners = lambda *asked, **how: None
"""


@pytest.fixture
def unresolved(monkeypatch, tmp_path):
    """Nobody resolves neighbours: neither a sandbox's agent, nor the launchers in containers."""
    (tmp_path / "sitecustomize.py").write_text(INTRODUCES_NOBODY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(DockerSite, "neighbour_options", lambda site, address: [])


def strangers(ends):
    """Who did not know their partner at the release, of these AtRelease by endpoint."""
    return {name for name, end in ends.items() if ends[partner(name)].address not in end.neighbours}


def partner(name):
    side, pair = name.split("-")
    return f"{'server' if side == 'client' else 'client'}-{pair}"


@pytest.mark.parametrize(("backend", "driver"), every_driver(isolated=True))
def test_both_ends_of_each_pair_know_the_other_before_the_release(backend, driver, shared_run):
    ends = shared_run(backend, driver).at_release
    assert len(ends) == 4
    assert strangers(ends) == set()


@pytest.mark.parametrize("backend", any_backend())
def test_where_neighbours_are_not_resolved_before_the_release_that_is_seen(backend, unresolved, tmp_path):
    need(backend)
    ends = watched(asking("flowgen", backend=backend), tmp_path / "runs").at_release
    assert len(ends) == 4
    assert strangers(ends) == set(ends)


def received_packets(endpoint):
    """How many packets its link has received, and how many of them were no IP packets for this endpoint.

    Those for it include the multicast reports that a bridge sends by itself, soon after it is up (IGMP). One may come
    between the two files, so they are read until two readings agree.
    """
    before, now = None, _counted_packets(endpoint)
    while now != before:
        before, now = now, _counted_packets(endpoint)
    return now


def _counted_packets(endpoint):
    lines = endpoint.run(["cat", "/proc/net/dev", "/proc/net/snmp"]).stdout.splitlines()
    (link,) = [line for line in lines if "eth0:" in line]
    names, values = [line.split() for line in lines if line.startswith("Ip: ")]
    received = int(link.partition(":")[2].split()[1])
    return received, received - int(dict(zip(names, values, strict=True))["InReceives"])


def received_of_a_first_packet(driver):
    """How many packets its receiver gets while a client tries to connect to it, and a bystander that are not for it."""
    with open_testbed(Spec(driver=driver, pairs=2)) as bed:
        sender, receiver, bystander = bed.pairs[0].client, bed.pairs[0].server, bed.pairs[1].server
        before = received_packets(receiver)[0], received_packets(bystander)[1]
        refused = sender.run([bed.site.flowgen, "client", "--connect", f"{receiver.address}:1", "--duration", "0.1"])
        after = received_packets(receiver)[0], received_packets(bystander)[1]
    assert "Connection refused" in refused.stderr
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize("driver", with_links())
def test_a_first_packet_reaches_its_receiver_and_floods_no_other_port(driver):
    need("netns", driver)
    by_receiver, by_bystander = received_of_a_first_packet(driver)
    assert by_receiver > 0
    assert by_bystander == 0


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("bridge"), reason="needs root, and apt-get install iproute2")
def test_a_bridge_has_learned_every_port_before_the_release():
    with open_testbed(Spec(driver="bridge", pairs=30)) as bed:
        (agent,) = psutil.Process(bed.site.sandbox.pid).children()
        inside = ["nsenter", "--target", str(agent.pid), "--net", "bridge", "-json", "fdb", "show"]
        entries = json.loads(subprocess.run(inside, capture_output=True, check=True).stdout)
        learned = {each["ifname"] for each in entries if each["state"] == "" and each.get("master") == "pairlab0"}
        assert learned == {endpoint.name for pair in bed.pairs for endpoint in (pair.client, pair.server)}


def test_where_neighbours_are_not_resolved_a_first_packet_floods_other_ports(unresolved):
    need("netns")
    assert received_of_a_first_packet("bridge")[1] > 0


@pytest.fixture
def room_for(tmp_path, monkeypatch):
    """Sets how many entries the kernel's neighbour table has room for; None where the kernel does not say."""

    def limit(entries):
        place = tmp_path / "gc_thresh3"
        if entries is not None:
            place.write_text(f"{entries}\n")
        monkeypatch.setattr(requirements, "NEIGHBOUR_LIMIT", place)

    return limit


def lacks(pairs, driver="macvlan", backend="docker"):
    plan = layout(Spec(pairs=pairs, driver=driver, backend=backend))
    return plan.backend.missing_for(plan).get(f"{pairs} pairs", [])


def test_more_endpoints_than_the_kernel_can_know_are_refused_with_the_setting_that_helps(room_for):
    room_for(1024)
    assert lacks(504) == []
    (lack,) = lacks(505)
    assert str(lack) == (
        "the kernel's neighbour table has room for 1024 entries; 505 pairs need 1026:"
        " sudo sysctl -w net.ipv4.neigh.default.gc_thresh3=2052, or fewer pairs"
    )


def test_endpoints_without_links_of_their_own_have_no_neighbours(room_for):
    room_for(16)
    assert lacks(100, "host") == []
    assert lacks(1) != []


def test_permanent_entries_need_no_room(room_for):
    room_for(16)
    assert lacks(100, backend="netns") == []
    assert lacks(100, "ovs") == []  # pairlab's links, also into containers


def test_a_kernel_that_does_not_say_refuses_nothing(room_for):
    room_for(None)
    assert lacks(4000) == []
