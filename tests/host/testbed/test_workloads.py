"""What every workload tells of its flows, over every driver in every backend, with real traffic."""

import contextlib
import os
import re
import signal
from itertools import product

import pytest

from pairlab import Spec, measure, store
from pairlab.measurement.flow_rows import read_flows
from pairlab.model import cpu_use
from pairlab.model.tables import TABLES
from pairlab.testbed import registry
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.host.perf_events import online_cpus
from pairlab.testbed.plans import draw
from pairlab.testbed.process_launcher import Process
from tests.conftest import any_backend, at_once, combinations, mostly_whole, need, need_all_of
from tests.support.attempts import measured, sound, sound_run
from tests.support.disturbances import measured_under, signalled, tools
from tests.support.shared import FLOW_BYTES, asking


@pytest.mark.parametrize(("backend", "driver", "workload"), combinations())
def test_every_workload_measures_over_every_driver_in_every_backend(backend, driver, workload, shared_run):
    run = shared_run(backend, driver, workload).run
    can = registry.workloads.get(workload).features
    assert sound(run), run.reasons
    assert (run.path.parent.name, run.key) == ("throughput", run.spec.key)
    for name, columns in TABLES.items():
        own = [each.name for each in run.metrics if each.table == name]
        assert list(getattr(run, name).columns) == [*columns, *own]
    flows = run.flows
    assert set(flows["pair"]) == {0, 1}
    assert set(flows["status"]) == {"ok"}, set(flows["error"])
    assert set(flows["protocol"]) == {"tcp"}
    if "sizes" not in can:
        assert list(flows["pair"]) == [0, 1]
        assert (flows["throughput_bps"] > 1e6).all()
        assert flows["duration_s"].between(run.spec.duration_s - 0.05 if "time" in can else 1e-4, 6).all()
        assert flows["start_s"].max() - flows["start_s"].min() == pytest.approx(run.skew_s)
    assert (flows["throughput_bps"] * flows["duration_s"] / 8).to_list() == pytest.approx(
        flows["flow_bytes"].to_list(), rel=0.01
    )
    assert (flows["start_s"] >= 0).all()
    assert (flows["connected_s"] > flows["start_s"]).all() == (
        workload in ("flowgen", "rr", "all-to-all") or workload.startswith("mpi-")
    )
    if "intervals" in can:  # it tells of intervals, and of TCP
        assert (flows["retransmits"] >= 0).all()
        assert (flows["rtt_s"] > 0).all()
        by_pair = run.intervals.groupby("pair")["interval_bytes"].sum()
        assert by_pair.to_list() == pytest.approx(flows["flow_bytes"].to_list(), rel=0.02)
    assert run.facts["held"] == ["exec"]
    assert run.facts["urgency"][0] in ("realtime", "slice", "none")
    assert run.facts["waits_s"] == registry.workloads.get(workload).start_delay_s
    shares = run.cpu[["usr", "sys", "softirq", "irq", "iowait", "idle", "steal"]].sum(axis=1)
    assert shares.to_list() == pytest.approx([1.0] * len(shares))
    if "time" in can:  # one that ends sooner than the kernel counts may have no row
        assert set(run.cpu["cpu"]) == set(online_cpus())
        assert run.cpu["end_s"].max() >= run.spec.duration_s - 0.05
        assert "client-0.out" in run.raw
    assert run.facts["host"]["kernel"] == os.uname().release
    virtual = run.facts["host"]["virtualization"] != "none seen"
    assert ("socket_memory" in run.facts) == ("memory_s" in run.times_s) == virtual
    assert run.facts["network"]["tcp_congestion_control"]
    assert run.facts["network"]["tso"] in (0, 1)
    assert run.facts["versions"]["flowgen"].startswith("flowgen 0")
    tool = {"rr": "flowgen", "traffic": "flowgen", "all-to-all": "flowgen", "mpi-all-to-all": "mpich"}.get(
        workload, workload.rstrip("3").split("-")[0]
    )
    assert tool in run.facts["versions"][workload].lower()
    assert run.harness_cpu_s < 1


@pytest.mark.whole
def test_the_cpu_use_of_a_tool_that_waits_is_that_of_its_traffic(runs_dir, clean_host):
    need("netns", workload="sockperf")
    run = measure(asking("sockperf", interval_s=0.1))
    of_processes_s = run.flows[["client_cpu_s", "server_cpu_s"]].sum(axis=None)
    busy_s = cpu_use.shares(run)["busy"] * os.cpu_count() * run.spec.duration_s
    assert busy_s > 0.7 * of_processes_s > 0


def able(*features):
    """The workloads that have these features."""
    return [name for name in registry.workloads.names() if registry.workloads.get(name).features >= set(features)]


@pytest.mark.parametrize("workload", able("bytes"))
@pytest.mark.parametrize("backend", any_backend())
def test_a_flow_with_an_end_is_timed_from_its_start_to_its_last_byte(backend, workload, runs_dir, clean_host):
    asked = {"elephant_share": 0.34, "elephant_bytes": 3 * FLOW_BYTES, "flow_bytes": FLOW_BYTES, "duration_s": 20}
    run = sound_run(asking(workload, backend=backend, pairs=3, **asked))
    flows = run.flows
    assert sorted(flows["role"]) == ["elephant", "mouse", "mouse"]
    assert (flows["size_bytes"] == flows["role"].map({"mouse": FLOW_BYTES, "elephant": 3 * FLOW_BYTES})).all()
    assert (flows["flow_bytes"] == flows["size_bytes"]).all()
    assert (flows["fct_s"] == flows["completed_s"] - flows["start_s"]).all()
    assert (flows["intended_fct_s"] == flows["completed_s"]).all()
    assert (flows["completed_s"] < 20).all()
    begun_s = flows["connected_s"].fillna(flows["start_s"])
    assert (flows["duration_s"] == flows["completed_s"] - begun_s).all()
    if workload == "flowgen":
        told = flows[["start_s", "connected_s", "first_byte_s", "completed_s"]]
        assert (told.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
        by_pair = run.intervals.groupby("pair")["interval_bytes"].sum()
        assert by_pair.to_list() == flows["flow_bytes"].to_list()


def test_over_the_hosts_own_link_flows_may_end_one_after_another(runs_dir, clean_host):
    """A server of netcat ends with its flow, and what the shared link had carried by then is not yet everything."""
    need("netns", "host", "netcat")
    asked = {"elephant_share": 0.5, "elephant_bytes": 50 * FLOW_BYTES}
    specs = [asking("netcat", driver="host", seed=seed, **asked) for seed in range(20)]
    run = measured(next(spec for spec in specs if draw(spec)[0].role == "mouse"))
    assert list(run.flows["role"]) == ["mouse", "elephant"]
    assert run.checks["interface_bytes"] == 0.0


@pytest.mark.parametrize("workload", mostly_whole(able("bytes"), but=["flowgen"]))
def test_a_flow_that_is_not_complete_in_its_time_has_failed_and_says_so(workload, runs_dir, clean_host):
    """Of a second, at 100 Mbit/s, the mouse needs 0.02 s, and the elephant 86."""
    need("netns", workload=workload)
    asked = {"flow_bytes": FLOW_BYTES // 10, "elephant_bytes": 1 << 30, "elephant_share": 0.5}
    spec = asking(workload, **asked, duration_s=1.0, link_rate_bps=1e8)
    need_all_of(spec)
    run = measured(spec)
    by_role = run.flows.set_index("role")
    assert by_role.loc["elephant", "status"] == "failed"
    assert re.search("not complete (after|within) 1 s", by_role.loc["elephant", "error"])
    assert by_role.loc["elephant", ["fct_s", "completed_s", "throughput_bps"]].isna().all()
    assert by_role.loc["elephant", "size_bytes"] == 1 << 30
    assert by_role.loc["mouse", "status"] == "ok", by_role.loc["mouse", "error"]
    assert sound(run), run.reasons


NETCAT = Spec(workload="netcat", flow_bytes=1, duration_s=1.0)


def test_a_client_that_started_late_and_was_ended_when_its_time_was_over_failed_for_that():
    """Its time is from the release, and it is ended when that is over."""
    end = Endpoint("client-0", "10.77.0.1", None)
    client = Process("client-0.1", end, (), ended=True, start_ns=200_000_000, end_ns=1_000_000_000, signal=15)
    server = Process("server-0.0", end, (), ended=True, start_ns=0, end_ns=2_000_000_000, exit_code=0)
    netcat = registry.workloads.get("netcat")()
    reading = read_flows(NETCAT, draw(NETCAT), netcat, [client], [server], 0)
    assert [row["error"] for row in reading.flows] == ["the flow did not complete within 1 s"]


@pytest.mark.parametrize(
    ("server_ended_ns", "stopped_ns", "error"),
    [
        (490_000_000, None, "its server ended by signal 9"),
        (510_000_000, None, "its server ended by signal 9"),  # heard of late, by a launcher without its turn of the CPU
        (510_000_000, 505_000_000, ""),  # we ended it, as all was done
    ],
)
def test_a_client_of_netcats_has_failed_when_its_server_died_by_itself(server_ended_ns, stopped_ns, error):
    end = Endpoint("client-0", "10.77.0.1", None)
    client = Process("client-0.1", end, (), ended=True, start_ns=0, end_ns=500_000_000, exit_code=0)
    server = Process("server-0.0", end, (), ended=True, start_ns=0, end_ns=server_ended_ns, signal=9)
    server.stopped_ns = stopped_ns
    netcat = registry.workloads.get("netcat")()
    reading = read_flows(NETCAT, draw(NETCAT), netcat, [client], [server], 0)
    assert [row["error"] for row in reading.flows] == [error]


@pytest.mark.parametrize("workload", able("bytes"))
def test_a_flow_whose_server_dies_on_the_way_has_failed(workload, runs_dir, clean_host):
    @contextlib.contextmanager
    def kill(bed):
        signalled(tools(bed.servers[1:]), signal.SIGKILL)
        yield

    # An elephant of 2.4 s, however late the killer has its turn of the CPU.
    asked = {"flow_bytes": FLOW_BYTES, "elephant_bytes": 300_000_000, "elephant_share": 0.5, "link_rate_bps": 1e9}
    spec = asking(workload, **asked, duration_s=20, seed=elephant_is(1))
    need_all_of(spec)
    run, _ = measured_under(spec, kill, begins_s=0, lasts_s=0)
    assert list(run.flows["status"]) == ["ok", "failed"], list(run.flows["error"])
    assert run.flows["fct_s"].isna().to_list() == [False, True]


@pytest.mark.parametrize("workload", able("udp", "message", "flows"))
@pytest.mark.parametrize(
    ("backend", "driver"),
    mostly_whole(
        product(at_once(), ["bridge", "host"]),
        but=[("netns", "bridge")],
        only=[("netns", "host"), ("docker", "bridge")],
    ),
)
def test_udp_beside_tcp_tells_what_was_sent_and_what_came(backend, driver, workload, runs_dir, clean_host):
    asked = {"udp_share": 0.5, "udp_rate_bps": 2e7, "flows_per_pair": 2, "message_bytes": 1000}
    run = sound_run(asking(workload, backend=backend, driver=driver, **asked))
    flows = run.flows.set_index("protocol")
    udp, tcp = flows.loc["udp"], flows.loc["tcp"]
    assert (len(udp), len(tcp)) == (2, 2)
    assert (udp["datagrams_sent"] == udp["datagrams_received"] + udp["datagrams_lost"]).all()
    assert (udp["datagrams_reordered"] <= udp["datagrams_received"]).all()
    assert (udp["flow_bytes"] == udp["datagrams_received"] * 1000).all()
    assert udp["datagrams_sent"].between(250, 2600).all()  # 20 Mbit/s for a second are 2500
    assert (udp["first_byte_s"] > udp["start_s"]).all()
    assert udp[["retransmits", "netns_retransmits", "connected_s", "rtt_s"]].isna().all(axis=None)
    assert tcp[["datagrams_sent", "datagrams_lost"]].isna().all(axis=None)
    assert (tcp["throughput_bps"] > 1e6).all()
    assert run.checks["datagram_bytes"] == (None if driver == "host" else pytest.approx(0, abs=0.01))


@pytest.mark.parametrize("workload", able("directions"))
@pytest.mark.parametrize("driver", ["bridge", pytest.param("host", marks=pytest.mark.whole)])
@pytest.mark.parametrize("backend", any_backend())
def test_flows_down_and_both_ways_are_counted_as_the_kernel_does(backend, driver, workload, runs_dir, clean_host):
    need(backend, driver, workload)
    down, both = (
        measured(asking(workload, backend=backend, driver=driver, direction=direction))
        for direction in ("down", "both")
    )
    for run in (down, both):
        assert sound(run), run.reasons
        seen = driver == "bridge" or backend == "netns"  # else the host's loopback, which others use too
        if not seen or workload == "flowgen":  # what iperf3 had not read at the end, it does not know
            assert run.checks["interface_bytes"] == (pytest.approx(0, abs=0.01) if seen else None)
        assert (run.flows["throughput_bps"] > 1e6).all()
        of_intervals = run.intervals.groupby(["pair", "flow"])["interval_bytes"].sum()
        assert of_intervals.to_list() == pytest.approx(run.flows["flow_bytes"].to_list(), rel=0.02)
    assert list(zip(down.flows["pair"], down.flows["direction"], strict=True)) == [(0, "down"), (1, "down")]
    assert down.direction_bps == {}
    assert list(zip(both.flows["pair"], both.flows["flow"], both.flows["direction"], strict=True)) == [
        (pair, flow, direction) for pair in range(2) for flow, direction in enumerate(("up", "down"))
    ]
    assert sum(both.direction_bps.values()) == pytest.approx(both.total_throughput_bps)
    known = both.flows["netns_retransmits"].notna()
    assert known.all() == (driver == "bridge")


@pytest.mark.parametrize("backend", any_backend())
def test_sockperf_by_udp_counts_as_the_kernel_does(backend, runs_dir, clean_host):
    run = sound_run(asking("sockperf", backend=backend, pairs=2, udp_share=0.5, message_bytes=1000))
    flows = run.flows.set_index("protocol")
    udp = flows.loc["udp"]
    assert udp["datagrams_sent"] == udp["datagrams_received"] + udp["datagrams_lost"]
    assert 0.9 * udp["datagrams_received"] * 1000 < udp["flow_bytes"] <= udp["datagrams_received"] * 1000
    assert flows.loc["tcp", "throughput_bps"] > 1e6
    assert run.checks["datagram_bytes"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("backend", any_backend())
def test_transactions_of_every_connection_are_stored_by_latency(backend, runs_dir, clean_host):
    """TCP beside UDP, at 200 requests a second over two connections; of a second and a half, the first is warm-up."""
    asked = {"udp_share": 0.5, "flows_per_pair": 2, "requests_per_s": 200.0, "warmup_s": 0.5}
    run = sound_run(asking("rr", backend=backend, **asked))
    again = store.read(run.path)
    flows = again.flows.set_index(["pair", "flow"])
    assert (flows["transactions"] + flows["transactions_lost"]).to_list() == [100] * 4
    assert (flows["transactions_failed"] == 0).all()
    assert (flows["flow_bytes"] == flows["transactions"] * 2000).all()
    assert sorted(set(flows["protocol"])) == ["tcp", "udp"]
    by_flow = again.transactions.groupby(["pair", "flow"])
    assert by_flow["count"].sum().to_list() == flows["transactions"].to_list()
    assert all(part["latency_s"].is_monotonic_increasing for _, part in by_flow)
    assert again.transactions["latency_s"].between(1e-6, 2).all()
    assert 0 < again.latency_quantiles_s["p50"] <= again.latency_quantiles_s["p90"]
    assert " transactions/s, latency p50 " in again.outcome


@pytest.mark.parametrize(
    ("driver", "place"),
    [
        ("container", {}),
        ("process", {"hosts": 2, "placement": "across"}),
        ("process", {"hosts": 2, "placement": "spread"}),
    ],
)
def test_links_carry_what_transactions_report_there_and_back(driver, place, runs_dir):
    """Of a pair's own loopback, and of uplinks with clients on the servers' hosts or not."""
    run = sound_run(asking("rr", driver=driver, **place))
    assert run.checks["interface_bytes"] == 0.0


def test_udp_without_a_server_is_a_failed_flow(runs_dir, changed_tool):
    need("netns")
    changed_tool("server", lambda argv, pair, *_: argv if pair.task.protocol == "tcp" else ["false"])
    run = measure(asking("flowgen", udp_share=0.5))
    assert dict(zip(run.flows["protocol"], run.flows["status"], strict=True)) == {"tcp": "ok", "udp": "failed"}
    assert "1 of 2 servers never listened" in run.reasons[0]


@pytest.mark.parametrize("workload", mostly_whole(able("flows", "intervals"), but=["flowgen"]))
@pytest.mark.parametrize("backend", any_backend())
def test_every_flow_of_a_pair_is_a_row_and_what_its_client_retransmits_is_counted_by_the_kernel_too(
    backend, workload, runs_dir, clean_host
):
    # The kernel is asked a tenth of the time before the end, and who asks waits for a CPU as everybody.
    run = sound_run(asking(workload, backend=backend, pairs=3, flows_per_pair=4, duration_s=2))
    flows = run.flows
    assert list(zip(flows["pair"], flows["flow"], strict=True)) == [(p, f) for p in range(3) for f in range(4)]
    assert (flows["throughput_bps"] > 1e6).all()
    assert flows["client_cpu_s"].notna().to_list() == [True, False, False, False] * 3  # it is of all of them together
    by_flow = run.intervals.groupby(["pair", "flow"])["interval_bytes"].sum()
    assert by_flow.to_list() == pytest.approx(flows["flow_bytes"].to_list(), rel=0.02)
    by_pair = flows.groupby("pair")[["retransmits", "netns_retransmits", "diag_retransmits"]].sum(min_count=1)
    assert by_pair.notna().all(axis=None)
    assert flows["netns_retransmits"].notna().to_list() == [True, False, False, False] * 3
    assert (by_pair["netns_retransmits"] >= by_pair["retransmits"]).all()
    assert (by_pair["netns_retransmits"] >= by_pair["diag_retransmits"]).all()


@pytest.mark.whole
def test_of_clients_that_share_a_namespace_none_has_its_counts(shared_run):
    run = shared_run("netns", "host").run
    assert run.flows["netns_retransmits"].isna().all()
    assert run.flows["diag_retransmits"].notna().all()


@pytest.mark.parametrize(
    "workload",
    mostly_whole([name for name in able("message") if registry.workloads.get(name).sends_traffic], but=["flowgen"]),
)
def test_smaller_messages_are_written_in_more_calls(workload, runs_dir, clean_host):
    """Throughput falls by so much that it can be seen on any machine: 512 B in a call, or 64 KiB."""
    need("netns", workload=workload)
    small, large = (measured(asking(workload, message_bytes=size)) for size in (512, 65_000))
    assert [sound(run) for run in (small, large)] == [True, True], [*small.reasons, *large.reasons]
    assert small.total_throughput_bps < 0.7 * large.total_throughput_bps


def elephant_is(pair):
    """A seed by which, of two pairs, this one is the elephant."""
    asked = {"pairs": 2, "flow_bytes": 1, "elephant_bytes": 2, "elephant_share": 0.5}
    return next(seed for seed in range(100) if draw(Spec(**asked, seed=seed))[pair].role == "elephant")
