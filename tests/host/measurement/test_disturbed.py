"""What befalls a measurement on its way: a client that begins late, a stall, other settings, killed processes.

Each makes the run invalid, by name; but a flow that the network ended is a result.
"""

import contextlib
import shutil
import signal
import sys
import threading

import psutil
import pytest

from pairlab import Spec, measure
from pairlab.testbed.workloads.iperf import Iperf
from tests.conftest import need
from tests.support.attempts import ATTEMPTS, sound
from tests.support.disturbances import OFFLOADS, inside, measured_under, signalled, tools


def spec_of(**values):
    given = {"workload": "flowgen", "pairs": 2, "duration_s": 2.0, "max_skew_s": 0.5, "max_foreign_cpu": 1}
    return Spec(**{**given, **values})


@pytest.mark.parametrize("driver", ["bridge", "host"])
def test_a_client_that_begins_late_is_found_though_its_tool_says_nothing(driver, runs_dir, begins_late):
    """iperf reports how long connecting took, and not that it was held up before: here by a script around it."""
    need("netns", workload="iperf")
    begins_late(1, workload="iperf")
    for _ in range(ATTEMPTS):
        run = measure(spec_of(workload="iperf", driver=driver), fresh=True)
        assert run.status == "invalid"
        assert run.reasons[0].startswith("a connection took "), run.reasons
        assert run.checks["connect_s"] >= 0.99  # and not only one that the machine held up
        (other,) = Iperf().parse(run.raw["client-0.out"], run.raw.get("server-0.out", ""))
        if other.connect_s < 0.5:  # else a lost SYN made the other client a second late, too
            assert run.checks["overlap"] < 0.5
            return
    pytest.skip(f"in each of {ATTEMPTS} attempts, this machine made the other client late, too")


@pytest.mark.parametrize("driver", ["bridge", "host"])
def test_udp_that_is_received_after_the_end_makes_the_run_invalid(driver, runs_dir):
    """Servers are stopped from 0.7 s on, and for 0.3 s after all was sent."""
    need("netns")

    @contextlib.contextmanager
    def stop(bed):
        servers = tools(bed.servers)
        signalled(servers, signal.SIGSTOP)
        going_on = threading.Timer(0.6, signalled, (servers, signal.SIGCONT))
        going_on.start()
        yield
        going_on.join()

    asked = spec_of(driver=driver, duration_s=1.0, udp_share=1.0, udp_rate_bps=1e7)
    run, _ = measured_under(asked, stop, begins_s=0.7, lasts_s=9)
    assert run.status == "invalid"
    assert run.checks["overrun"] > 0.2
    assert any("the last UDP datagrams were received" in why for why in run.reasons), run.reasons


def test_offloads_that_are_turned_off_on_the_way_are_found(runs_dir):
    need("netns")

    @contextlib.contextmanager
    def off(bed):
        for each in bed.clients:
            inside(each, sys.executable, "-c", OFFLOADS, "0")
        yield

    run, _ = measured_under(spec_of(), off, begins_s=0.5, lasts_s=5.0)
    assert run.status == "invalid"
    assert any("network settings of 2 endpoints were changed" in why for why in run.reasons), run.reasons
    assert run.facts["network_changed"]["client-0"]["tso"] == [1, 0]
    assert run.facts["network"]["tso"] == 1


def test_a_link_that_was_shaped_on_the_way_is_found_though_it_is_as_before_in_the_end(runs_dir):
    need("netns")
    if not shutil.which("tc"):
        pytest.skip("needs tc on PATH: apt-get install iproute2")

    @contextlib.contextmanager
    def shaped(bed):
        for words in (["add", "dev", "eth0", "root", "pfifo", "limit", "900"], ["del", "dev", "eth0", "root"]):
            inside(bed.clients[0], "tc", "qdisc", *words)
        yield

    run, _ = measured_under(spec_of(), shaped, begins_s=0.5, lasts_s=5.0)
    assert run.status == "invalid"
    assert any("network settings of 1 endpoints were changed" in why for why in run.reasons), run.reasons
    assert run.facts["network_changed"]["client-0"]["changes_of_the_link"][1] >= 2


@pytest.mark.parametrize(
    ("workload", "side", "number"),
    [
        ("flowgen", "client", signal.SIGKILL),
        ("flowgen", "server", signal.SIGKILL),
        ("iperf3", "client", signal.SIGTERM),  # it catches that, and says so
        ("iperf3", "server", signal.SIGTERM),  # likewise
    ],
)
def test_a_killed_process_makes_the_run_invalid(workload, side, number, runs_dir):
    need("netns", workload=workload)

    @contextlib.contextmanager
    def kill(bed):
        signalled(tools([(bed.clients if side == "client" else bed.servers)[1]]), number)
        yield

    run, _ = measured_under(spec_of(workload=workload, pairs=3, duration_s=1.0), kill, begins_s=0.5, lasts_s=0)
    assert run.status == "invalid"
    assert any("1 clients or servers were killed" in why for why in run.reasons), run.reasons
    assert run.failed_flows == 1
    assert run.checks["active_share"] < 0.95


@pytest.mark.whole
def test_a_flow_that_the_network_ended_is_a_result_and_carried_nothing(runs_dir):
    """The bridge drops what one of three servers is sent, and TCP gives up after two retransmissions (tcp(7))."""
    need("netns")
    if not shutil.which("tc"):
        pytest.skip("needs ip and tc on PATH: apt-get install iproute2")

    @contextlib.contextmanager
    def gone(bed):
        inside(bed.clients[1], "sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_retries2")
        port = inside(bed.servers[1], "ip", "-oneline", "link", "show", "eth0").partition("@if")[2].partition(":")[0]
        sandbox = psutil.Process(bed.servers[1].pid).parent()
        name = f"$(ip -oneline link | sed -n 's/^{port}: \\([^@]*\\)@.*/\\1/p')"
        script = f"tc qdisc replace dev {name} root tbf rate 1kbit burst 10 limit 10"  # no packet is as short
        inside(sandbox, "sh", "-c", script)
        yield

    run, _ = measured_under(spec_of(pairs=3, duration_s=3.0, link_rate_bps=1e8), gone, begins_s=0.5, lasts_s=9)
    assert sound(run), run.reasons
    assert list(run.flows["status"]) == ["ok", "failed", "ok"]
    assert run.total_throughput_bps == pytest.approx(2e8, rel=0.1)
    assert [run.checks[name] for name in ("shift", "settled")] == [None] * 2
    assert "steadiness unknown" in run.outcome
