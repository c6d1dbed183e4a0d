"""What pairlab tells Weave Net's weaver, and reads of its report, which is one of a real weaver."""

import ipaddress
import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from pairlab import Spec
from pairlab.testbed import plans
from pairlab_overlays import weave

REPORT = (Path(__file__).parent / "captured" / "weave-2.8.1-report.json").read_text()  # of the second of three hosts
#: The others, and what their weavers are called.
OTHERS = ["10.76.0.1", "10.76.0.3"]
NAMES = ["02:42:0a:4c:00:01", "02:42:0a:4c:00:03"]
ACROSS = Spec(driver="weave", hosts=2, placement="across")


def with_router(**changed):
    """The report with these parts of its router."""
    report = json.loads(REPORT)
    assert report["Router"].keys() >= changed.keys()
    report["Router"] |= changed
    return weave.read_report(json.dumps(report))


def started(spec, index):
    """The driver that was created on that host, and the command and variables of its weaver."""
    hosts = plans.layout(spec).hosts
    others = [each for each in hosts if each.index != index]
    made = {"pairlab0": 7}  # by weaver
    lan = SimpleNamespace(host=hosts[index], others=others, directory="/run/x", start=Mock(), set_up=made.get)
    driver = weave.Weave()
    driver.create(lan)
    return driver, lan.start.call_args.args[0], lan.start.call_args.kwargs["environment"]


def test_connections_are_read_from_weavers_report():
    connections = weave.read_report(REPORT).connections
    assert {each.address for each in connections} == set(OTHERS)
    assert {(each.state, each.mode, each.mtu_bytes) for each in connections} == {("established", "sleeve", 1438)}


def test_a_connection_that_failed_has_no_mode_and_no_mtu():
    failed = {"Address": "10.76.0.1:6783", "Outbound": True, "State": "failed", "Info": "refused", "Attrs": None}
    assert with_router(Connections=[failed]).connections == [weave.Connection("10.76.0.1", "failed", "", 0)]


def test_a_weaver_that_has_just_started_has_neither_connections_nor_routes():
    report = with_router(Connections=None, UnicastRoutes=None, BroadcastRoutes=None)  # as Go writes none
    assert report == weave.Report([], [])
    assert weave.not_reached(report, OTHERS, 1438) == OTHERS


def test_a_host_is_reached_over_a_connection_with_the_mtu_and_routes_for_all_frames():
    assert weave.not_reached(weave.read_report(REPORT), OTHERS, 1438) == []


@pytest.mark.parametrize(
    "second",
    [
        [],
        [weave.Connection("10.76.0.3", "pending", "", 0)],
        [weave.Connection("10.76.0.3", "established", "sleeve", 65535)],  # it has not found out the MTU yet
        [weave.Connection("10.76.0.3", "established", "sleeve", 1400)],  # packets of containers would not fit
    ],
)
def test_a_host_is_not_reached_before_its_connection_carries_packets_of_the_mtu(second):
    first = weave.Connection("10.76.0.1", "established", "sleeve", 1438)
    report = weave.Report([first, *second], weave.read_report(REPORT).routed)
    assert weave.not_reached(report, OTHERS, 1438) == ["10.76.0.3"]


@pytest.mark.parametrize(
    "routes",
    [
        {"UnicastRoutes": [{"Dest": name, "Via": NAMES[0]} for name in NAMES]},  # by way of the first
        {"BroadcastRoutes": [{"Source": "02:42:0a:4c:00:02", "Via": NAMES[:1]}]},
        {"BroadcastRoutes": [{"Source": NAMES[0], "Via": NAMES}, {"Source": "02:42:0a:4c:00:02", "Via": NAMES[:1]}]},
    ],
)
def test_a_host_is_not_reached_while_weaver_drops_its_frames_or_sends_them_by_another(routes):
    assert weave.not_reached(with_router(**routes), OTHERS, 1438) == ["10.76.0.3"]


def test_weaver_is_told_its_peers_and_nothing_of_addresses_names_and_containers():
    driver, argv, environment = started(Spec(driver="weave", hosts=3, pairs=3, placement="spread"), 2)
    assert driver.bridge == 7
    assert argv[-3:] == ["--db-prefix=/run/x/weave", "10.76.0.1", "10.76.0.2"]  # hosts that are up before it
    assert {"--no-dns", "--no-discovery", "--ipalloc-range=", "--docker-api=", "--host=10.76.0.3"} <= set(argv)
    assert {"--name=02:42:0a:4c:00:03", "--weave-bridge=pairlab0", "--no-fastdp"} <= set(argv)
    assert environment == {"CHECKPOINT_DISABLE": "1", "WEAVE_PASSWORD": ""}


def test_weaver_tells_of_itself_only_to_its_own_host():
    _, argv, _ = started(ACROSS, 0)
    (address,) = (each.removeprefix("--status-addr=") for each in argv if each.startswith("--status-addr="))
    assert ipaddress.ip_address(address.partition(":")[0]).is_loopback
    assert not [each for each in argv if each.startswith("--http-addr")]


@pytest.mark.parametrize(("uplink_mtu_bytes", "left"), [(0, 1438), (9000, 8938)])
def test_containers_have_the_mtu_that_weaver_is_told(uplink_mtu_bytes, left):
    spec = ACROSS.replace(uplink_mtu_bytes=uplink_mtu_bytes)
    _, argv, _ = started(spec, 1)
    assert f"--mtu={left}" in argv
    assert {each.mtu_bytes for each in plans.layout(spec).endpoints} == {left}


def test_without_weaver_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    lack = weave.WEAVER.missing()
    assert lack.what == "weaver is not installed"
    assert "docs/networks/weave.md" in lack.remedy
