"""Several hosts, each a network namespace, in Docker with a daemon of its own: over every driver that spans them."""

import json
import os

import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.errors import Unavailable
from pairlab.testbed import registry
from pairlab.testbed.cleanup import process_table
from pairlab.testbed.contracts import no_progress
from tests.conftest import backend_and_driver, mostly_whole, need, need_all_of
from tests.support import host, wire
from tests.support.attempts import sound

pytestmark = pytest.mark.usefixtures("clean_host")

SPANNING = backend_and_driver(hosts=3)
#: client-0 on host-0 and server-0 on host-1; client-1 on host-2 and server-1 on host-0; host-1 and host-2 for the last.
ACROSS = Spec(hosts=3, placement="spread", pairs=3, workload="flowgen", duration_s=1, interval_s=0.5)
#: A measurement in a test must not hang on what else the machine does.
ACROSS = ACROSS.replace(max_foreign_cpu=1, max_skew_s=5)


AT_HAND = [("docker", "overlay"), *(each for each in SPANNING if each[0] == "netns")]
EACH = [
    pytest.param(each.values, marks=each.marks, id="-".join(each.values))
    for each in mostly_whole(SPANNING, but=AT_HAND)
]


@pytest.fixture(scope="module", params=EACH)
def spec(request):
    backend, driver = request.param
    spec = ACROSS.replace(backend=backend, driver=driver)
    need_all_of(spec)
    return spec


@pytest.fixture(scope="module")
def opened(spec):
    before = host.snapshot()
    with open_testbed(spec) as bed:
        yield bed
    assert host.settled(before), host.difference(before)


def namespace_of(end):
    return end.run(["readlink", "/proc/self/ns/net"]).stdout


def exchange(bed, pair, *options):
    """What the server received of its client, and the client's total."""
    received, done = send(bed, pair, pair.target, *options)
    assert done.returncode == 0, done.stderr
    return received["flow_bytes"], json.loads(done.stdout.splitlines()[-1])


def send(bed, pair, target, *options):
    """What the server reports of what its client sends to that address; nothing where none arrives. And the client."""
    launcher, flowgen = bed.launcher, bed.site.flowgen
    listening = [flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]
    servers = launcher.start([(pair.server, listening)], options=[["--listen", str(pair.port)]])
    launcher.wait_ready(servers, 60)
    done = pair.client.run([flowgen, "client", "--connect", f"{target}:{pair.port}", *options])
    launcher.stop(servers)
    launcher.results(servers)
    lines = [json.loads(line) for line in servers[0].stdout.splitlines()]
    return next((line for line in lines if line["event"] == "received"), None), done


@pytest.mark.skipif(os.geteuid() != 0, reason="the wire's counters are read from outside, which needs root")
def test_what_goes_to_a_server_crosses_the_uplink_of_its_host_and_of_no_third(opened):
    before = wire.sent_to_hosts(opened)
    received, _ = exchange(opened, opened.pairs[0], "--bytes", "10000000", "--limit", "60")
    after = wire.sent_to_hosts(opened)
    crossed = {name: after[name] - before[name] for name in after}
    assert crossed["host-1"] > received
    assert crossed["host-2"] < 0.01 * received


#: What carries a flow between hosts, by driver; over the others it is TCP itself.
TUNNELS = {"overlay-encrypted": "esp", "ipip": "ipip"} | dict.fromkeys(
    ("overlay", "ovs", "flannel-vxlan", "flannel-udp", "weave"), "udp"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="packets on the wire are counted from outside, which needs root")
def test_between_hosts_a_flow_is_in_the_tunnel_that_its_driver_has_and_nothing_of_it_beside(opened, spec):
    with wire.bytes_by_protocol(opened, "host-0") as sent:
        received, total = exchange(opened, opened.pairs[0], "--bytes", "1000000", "--limit", "60")
    by = TUNNELS.get(spec.driver, "tcp")
    assert (received, total["complete"]) == (1_000_000, True)
    assert sent.pop(by) > received
    assert sum(sent.values()) < 0.05 * received, (by, sent)  # the daemons of Docker's hosts talk, too


def test_a_host_is_a_namespace_of_its_own(opened, spec):
    ends = [end for pair in opened.pairs for end in (pair.client, pair.server)]
    seen = [namespace_of(end) for end in ends]
    places = [each.host for each in opened.plan.endpoints]
    assert len(set(seen)) == (6 if registry.drivers.get(spec.driver).isolated else 3)
    if not registry.drivers.get(spec.driver).isolated:
        assert len(set(zip(seen, places, strict=True))) == 3


def test_what_was_built_on_each_host_is_recorded(opened, spec):
    facts = opened.site.facts()
    assert facts["underlay"] == {"wire": "bridge", "uplink": "veth", "mtu": 1500}
    assert [each["name"] for each in facts["hosts"]] == ["host-0", "host-1", "host-2"]
    for number, each in enumerate(facts["hosts"], 1):
        (uplink,) = (link for link in each["links"] if link["name"] == "uplink0")
        assert (uplink["mtu_bytes"], uplink["addresses"]) == (1500, [f"10.76.0.{number}/24"])
    driver = registry.drivers.get(spec.driver)
    assert driver.version() == facts.get(spec.driver, "")
    if driver.publishes:  # of the second host, as its own servers are published there
        about, address = facts["hosts"][1]["driver"], opened.plan.endpoints[1].address
        if spec.backend == "netns":
            assert f"5201 : {address}" in about["nft"]
        else:
            assert f"-p tcp -m tcp --dport 5201 -j DNAT --to-destination {address}:5201" in about["iptables"]
            assert about["userland_proxy"] == (spec.driver == "nat-proxy")
    if spec.driver == "ovs":
        assert facts["datapath"] == "system"


#: Of Docker's networks, one of each kind of link between hosts: a tunnel, a published port with a proxy, no tunnel.
MEASURED = mostly_whole(SPANNING, but=AT_HAND, only=[("docker", "nat-proxy"), ("docker", "macvlan")])


@pytest.mark.whole
@pytest.mark.parametrize(("backend", "driver"), MEASURED)
def test_a_measurement_over_it_counts_and_its_bytes_are_held_against_the_kernels(backend, driver, runs_dir):
    spec = ACROSS.replace(backend=backend, driver=driver)
    need_all_of(spec)
    run = measure(spec, progress=no_progress, attempts=3)
    assert sound(run), run.reasons
    assert set(run.flows["status"]) == {"ok"}
    assert abs(run.checks["interface_bytes"]) <= 0.01
    by_docker = spec.backend == "docker" and registry.drivers.get(spec.driver).docker is not None
    assert spec.driver in ("process", "host", "macvlan") or by_docker or abs(run.checks["port_bytes"]) <= 0.01


def test_flows_with_an_end_are_complete_over_published_ports_of_one_host_too(runs_dir):
    need("netns", "nat")
    spec = Spec(driver="nat", pairs=2, workload="flowgen", flow_bytes=1_000_000, max_foreign_cpu=1, max_skew_s=5)
    run = measure(spec, progress=no_progress, attempts=3)
    assert set(run.flows["status"]) == {"ok"}, run.flows["error"].to_list()


@pytest.mark.whole
def test_flows_with_an_end_over_switches_on_each_host_are_held_against_the_kernels_counts(runs_dir):
    spec = ACROSS.replace(driver="ovs", flow_bytes=5_000_000, duration_s=20)
    need_all_of(spec)
    run = measure(spec, progress=no_progress, attempts=3)
    assert sound(run), run.reasons
    assert run.flows["flow_bytes"].to_list() == [5_000_000] * 3
    assert abs(run.checks["interface_bytes"]) <= 0.01
    assert abs(run.checks["port_bytes"]) <= 0.01


def proxies(bed):
    """The ports, and protocols, that a docker-proxy of this testbed relays."""
    sandbox = bed.site.root_pids()[0]
    parents = {each.pid: each.parent for each in process_table.read_processes().values()}

    def below(pid):
        return pid == sandbox or (pid in parents and below(parents[pid]))

    words = [each.words for each in process_table.read_processes().values() if below(each.pid)]
    found = [each for each in words if each and os.path.basename(each[0]) == "docker-proxy"]
    return sorted((each[each.index("-host-port") + 1], each[each.index("-proto") + 1]) for each in found)


@pytest.mark.parametrize("driver", ["nat", "nat-proxy"])
def test_docker_relays_to_a_server_beside_its_client_only_with_its_userland_proxy(driver):
    need("docker", driver)
    with open_testbed(Spec(backend="docker", driver=driver, pairs=2)) as bed:
        pair = bed.pairs[1]
        received, _ = send(bed, pair, pair.target, "--bytes", "100000", "--limit", "60")
        relayed = proxies(bed)
    assert (pair.target, received["flow_bytes"]) == ("10.128.0.1", 100_000)
    if driver == "nat-proxy":  # the proxy connects by itself, from the host's address
        assert received["peer"].startswith("10.128.0.1:")
        assert relayed == [("5201", "tcp"), ("5201", "udp"), ("5202", "tcp"), ("5202", "udp")]
    else:
        assert received["peer"].startswith(f"{pair.client.address}:")
        assert relayed == []


@pytest.mark.parametrize(
    ("backend", "driver"), mostly_whole([each for each in SPANNING if "nat" in each[1]], but=[("netns", "nat")])
)
def test_a_server_on_another_host_is_reached_at_its_published_port_and_not_at_its_own_address(backend, driver):
    need(backend, driver)
    spec = Spec(backend=backend, driver=driver, hosts=2, placement="across")
    with open_testbed(spec) as bed:
        (pair,) = bed.pairs
        ends = ["--bytes", "100000", "--limit", "60"]
        received, _ = send(bed, pair, pair.target, *ends)
        missed, done = send(bed, pair, pair.server.address, *ends)
    assert pair.target == "10.76.0.2"
    assert received["flow_bytes"] == 100_000
    assert received["peer"].startswith("10.76.0.1:")  # masquerade, with the userland proxy too: it relays nothing here
    assert missed is None
    assert "unreachable" in done.stdout + done.stderr


def test_beside_docker_processes_have_no_container_and_are_on_their_own_host(clean_host):
    need("docker", "process")
    with open_testbed(Spec(backend="docker", driver="process", pairs=2)) as bed:
        facts = bed.site.facts()
        client = bed.pairs[0].client
        filtered = client.run(["iptables-save", "--table", "nat"]).stdout
        cgroup = client.run(["cat", "/proc/self/cgroup"]).stdout
    assert (facts["containers"], "image" in facts) == (0, False)
    assert facts["docker"] == registry.backends.get("docker")().version()
    assert "-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER" in filtered  # so the kernel tracks connections
    assert "docker" not in cgroup


def test_an_uplinks_delay_is_in_each_round_trip_and_its_rate_is_kept_within(runs_dir):
    asked = {"uplink_delay_s": 0.1, "uplink_jitter_s": 0.01, "uplink_rate_bps": 2e7}
    spec = ACROSS.replace(driver="overlay", hosts=2, placement="across", pairs=2, duration_s=3, warmup_s=1, **asked)
    need_all_of(spec)
    run = measure(spec, progress=no_progress, attempts=3)
    assert set(run.flows["status"]) == {"ok"}, run.flows["error"].to_list()
    assert run.flows["min_rtt_s"].between(0.18, 0.3).all()  # both hosts delay what they send, each once
    assert 0 < run.flows["throughput_bps"].sum() < 2.1e7
    underlay = run.facts["network"]["underlay"]
    assert (underlay["netem"]["delay_s"], underlay["netem"]["jitter_s"]) == (0.1, 0.01)
    assert underlay["tbf"]["rate_bps"] == pytest.approx(2e7, rel=0.001)


@pytest.mark.whole
def test_jumbo_frames_fit_where_the_uplinks_carry_them(runs_dir):
    spec = ACROSS.replace(driver="overlay", hosts=2, placement="across", uplink_mtu_bytes=9050, mtu_bytes=9000)
    need_all_of(spec)
    run = measure(spec, progress=no_progress, attempts=3)
    assert sound(run), run.reasons
    assert run.facts["network"]["mtu_bytes"] == 9000


def test_the_congestion_control_that_is_asked_for_is_in_force_over_routes_by_a_gateway(runs_dir):
    spec = ACROSS.replace(driver="nat", hosts=2, placement="across", congestion_control="reno")
    need_all_of(spec)
    run = measure(spec, progress=no_progress, attempts=3)
    assert run.facts["congestion_control"]["in_force"] == "reno"


@pytest.mark.parametrize("driver", ["bgp", "ipip"])
def test_routes_between_hosts_are_refused_within_one(driver):
    with pytest.raises(Unavailable, match=rf"driver '{driver}' is a bridge and nothing else: give hosts"):
        measure(Spec(driver=driver, pairs=2), progress=no_progress)


def test_containers_of_a_pair_share_a_namespace_that_no_other_pair_has():
    with open_testbed(Spec(driver="container", pairs=2)) as bed:
        seen = [(namespace_of(pair.client), namespace_of(pair.server)) for pair in bed.pairs]
    assert all(client == server for client, server in seen)
    assert seen[0] != seen[1]


@pytest.mark.whole
def test_datagrams_between_containers_of_a_pair_are_held_against_the_loopbacks_counters(runs_dir):
    spec = Spec(driver="container", workload="flowgen", udp_share=1.0, udp_rate_bps=1e7, message_bytes=100)
    run = measure(spec.replace(duration_s=1, max_foreign_cpu=1, max_skew_s=5), progress=no_progress, attempts=3)
    assert sound(run), run.reasons
    assert abs(run.checks["datagram_bytes"]) <= 0.01


def test_without_a_network_there_is_a_loopback_and_nothing_else():
    with open_testbed(Spec(driver="none", pairs=1)) as bed:
        table = bed.pairs[0].client.run(["cat", "/proc/net/dev"]).stdout
    assert [line.split(":")[0].strip() for line in table.splitlines()[2:]] == ["lo"]
