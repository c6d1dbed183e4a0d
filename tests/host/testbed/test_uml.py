"""Hosts with kernels of their own, by user-mode Linux: what they are is what they are called, and clocks agree."""

from pathlib import Path

import pytest
from scipy import stats

from pairlab import Spec, measure, open_testbed
from pairlab.errors import Unavailable
from pairlab.testbed.uml import kernel
from tests.conftest import need_all_of
from tests.support.attempts import measured

ONE = Spec(backend="uml", workload="flowgen", pairs=2, duration_s=1.0, max_foreign_cpu=1)
TWO = ONE.replace(hosts=2, placement="across", driver="overlay")

FLOW_BYTES = 2_000_000

pytestmark = pytest.mark.usefixtures("clean_host")


def boot_of(end):
    return end.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout


def test_each_host_has_a_kernel_of_its_own_and_the_record_says_so(runs_dir):
    need_all_of(TWO)
    with open_testbed(TWO) as bed:
        here = Path("/proc/sys/kernel/random/boot_id").read_text()
        ends = [end for pair in bed.pairs for end in (pair.client, pair.server)]
        assert len({here, *map(boot_of, ends)}) == 3
        assert {end.run(["uname", "-r"]).stdout.strip() for end in ends} == {kernel.release()}
        # Else a kernel makes them of the memory that it finds, and no two boots could be compared.
        memory = [end.run(["cat", *(f"/proc/sys/net/ipv4/tcp_{way}mem" for way in "rw")]).stdout for end in ends]
        assert {each.replace("\t", " ") for each in memory} == {"4096 131072 6291456\n4096 16384 4194304\n"}
        facts = bed.site.facts()
    assert [each["kernel"] for each in facts["kernels"]] == 2 * [kernel.release()]
    assert facts["underlay"]["uplink"] == kernel.wire()
    assert facts["boot_s"] > 0


def test_flows_cross_from_kernel_to_kernel_and_their_moments_are_by_one_clock(runs_dir):
    """Both ends report: what a server saw before its client began would be a wrong offset."""
    need_all_of(TWO)
    run = measured(TWO.replace(flow_bytes=FLOW_BYTES, duration_s=60.0, uplink_rate_bps=1e8))
    flows = run.flows
    assert list(flows["status"]) == ["ok", "ok"], list(flows["error"])
    assert {each["kind"] for each in run.facts["hosts"]} == {"uml"}
    assert (flows["start_s"].between(-1e-3, 1)).all(), flows["start_s"]
    assert (flows["connected_s"] > flows["start_s"]).all()
    least_s = 2 * FLOW_BYTES * 8 / 1e8  # both flows over the uplink
    assert flows["first_byte_s"].max() < flows["fct_s"].max()
    assert flows["fct_s"].max() > 0.9 * least_s
    assert 0 < run.checks["clock_error_s"] < 5e-3
    assert all(each["clock_error_s"] < 5e-3 for each in run.facts["network"]["kernels"])
    assert run.checks["silence_s"] is not None  # the links were seen, each by its own kernel
    assert all(each["usr"] + each["sys"] > 0 and each["idle"] > 0 for each in run.facts["kernels_cpu_s"])
    assert run.environment.engine == f"uml user-mode Linux {kernel.release()}"


def test_while_it_measures_one_sees_how_busy_each_host_is(runs_dir):
    need_all_of(TWO)
    samples = []
    run = measure(TWO, watch=samples.append)
    assert [each["name"] for each in run.facts["network"]["kernels"]] == list(samples[-1].hosts_busy)
    assert all(0 < share <= 1 for share in samples[-1].hosts_busy.values())


@pytest.mark.whole  # its switch waits until its kernel is 10 s old
def test_open_vswitch_forwards_in_the_kernels_there_and_tunnels_between_them(runs_dir):
    spec = TWO.replace(driver="ovs")
    run = measured(spec)  # whether it counts is up to this machine
    assert run.facts["network"]["datapath"] == "system"
    assert (run.flows["status"] == "ok").all()
    assert (run.flows["throughput_bps"] > 0).all()


@pytest.mark.whole  # kernels of machines may lack these links, this one has them
@pytest.mark.parametrize("driver", ["ipvlan-l2", "ipvlan-l3", "ovs"])
def test_on_one_host_each_client_reaches_its_own_server_over_what_its_kernel_has(driver, runs_dir):
    spec = ONE.replace(driver=driver, flow_bytes=1_000_000, duration_s=60.0)
    need_all_of(spec)
    run = measured(spec)
    assert list(run.flows["status"]) == ["ok", "ok"], list(run.flows["error"])
    assert list(run.flows["flow_bytes"]) == [1_000_000] * 2
    assert run.checks["interface_bytes"] == pytest.approx(0, abs=0.01)


@pytest.mark.whole
def test_routes_with_tunnels_of_ipip_lead_from_host_to_host(runs_dir):
    spec = TWO.replace(driver="ipip", flow_bytes=1_000_000, duration_s=60.0)
    need_all_of(spec)
    run = measured(spec)
    assert list(run.flows["status"]) == ["ok", "ok"], list(run.flows["error"])
    assert run.facts["network"]["mtu_bytes"] == 1480  # 20 bytes are the outer header's (RFC 2003)


@pytest.mark.whole
def test_an_uplinks_delay_is_in_each_round_trip(runs_dir):
    spec = TWO.replace(uplink_delay_s=0.1, uplink_jitter_s=0.01, uplink_rate_bps=2e7, duration_s=3.0, warmup_s=1.0)
    need_all_of(spec)
    run = measured(spec)
    assert set(run.flows["status"]) == {"ok"}, list(run.flows["error"])
    assert run.flows["min_rtt_s"].between(0.18, 0.3).all()  # both hosts delay what they send, each once
    assert run.facts["network"]["underlay"]["netem"]["delay_s"] == 0.1


@pytest.mark.whole
def test_an_uplink_loses_the_planted_share_of_datagrams(runs_dir):
    spec = TWO.replace(uplink_loss=0.05, udp_share=1.0, udp_rate_bps=1e7, message_bytes=1000, duration_s=3.0)
    need_all_of(spec)
    run = measured(spec)
    sent, lost = run.flows["datagrams_sent"].sum(), run.flows["datagrams_lost"].sum()
    least, most = stats.binom.interval(0.9999, sent, 0.05)
    assert sent > 1000
    assert least <= lost <= 1.5 * most  # on a busy machine some are lost at the servers' sockets, too
    assert run.facts["network"]["underlay"]["netem"]["loss"] == 0.05


def test_a_host_has_as_many_pairs_as_others_have(runs_dir):
    spec = ONE.replace(driver="bridge", pairs=20, flow_bytes=100_000, duration_s=60.0)
    need_all_of(spec)
    run = measured(spec)
    assert list(run.flows["status"]) == 20 * ["ok"], list(run.flows["error"])


def test_a_tool_that_keeps_files_writes_to_its_own_hosts_folder_whatever_the_machines_is(
    runs_dir, tmp_path, monkeypatch
):
    """As a sweep's notebooks have folders of their own for temporary files."""
    spec = ONE.replace(driver="bridge", workload="iperf3", pairs=1)
    need_all_of(spec)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = measured(spec)
    assert list(run.flows["status"]) == ["ok"], list(run.flows["error"])


@pytest.mark.whole
def test_interference_is_in_the_kernels_of_the_hosts(runs_dir):
    spec = TWO.replace(interference_workers=1, interference_where="both", interference_load=0.2, duration_s=2.0)
    need_all_of(spec)
    run = measured(spec)
    assert run.checks["interference_running"], run.reasons
    workers = run.facts["interference"]
    assert [each["host"] for each in workers] == ["host-0", "host-1"]
    assert all(0.05 < each["cpus_used"] < 0.5 for each in workers), workers


@pytest.mark.whole
def test_launches_are_in_the_kernel_of_their_partner(runs_dir):
    spec = Spec(backend="uml", workload="flowgen", pairs=2, experiment="launch-time", launches=2, duration_s=10.0)
    need_all_of(spec)
    found = measured(spec).launches
    assert list(found["status"]) == 4 * ["ok"], found["error"].to_list()
    assert (found["first_ping_s"] >= found["link_up_s"]).all()


def test_what_its_kernel_lacks_is_told_before_anything_is_built(runs_dir):
    need_all_of(ONE)
    with pytest.raises(Unavailable, match=r"driver 'netkit': the kernel of user-mode Linux has no netkit links"):
        measure(ONE.replace(driver="netkit"))
    with pytest.raises(
        Unavailable, match="limits of CPU use: hosts of user-mode Linux have none: take backend 'netns'"
    ):
        measure(ONE.replace(cpu_quota=0.5))
