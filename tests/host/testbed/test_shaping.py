"""Links of a known rate and a known loss: what is set, on whose link, and what is refused before anything is built."""

import errno
import json
import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.errors import BadSpec
from pairlab.testbed import registry
from pairlab.testbed.endpoints import Link
from pairlab.testbed.netns import shaping
from pairlab.testbed.plans import layout
from pairlab.testbed.requirements import Program
from tests.conftest import any_backend, every_driver, need, need_all_of
from tests.support import host
from tests.support.attempts import sound
from tests.support.shared import asking

#: The largest packet that Linux hands over in one piece, as tbf counts it: each segment of it with all its headers.
LARGEST_PACKET_BYTES = 65536 + 46 * 66
FRAME_BYTES, MSS, HEADERS = 1514, 1448, 66


def shaped(backend, driver="bridge", **values):
    """A spec with shaped links; skips where this machine cannot shape them."""
    need(backend, driver)
    spec = Spec(backend=backend, driver=driver, workload="flowgen", max_skew_s=1.0, max_foreign_cpu=1.0, **values)
    need_all_of(spec)
    return spec


# --- whose link is shaped, and how


def test_clients_have_the_rate_and_servers_the_loss():
    assert layout(Spec(pairs=2, link_rate_bps=1e8)).links == dict.fromkeys(("client-0", "client-1"), Link(rate_bps=1e8))
    assert layout(Spec(link_loss=0.01)).links == {"server-0": Link(loss=0.01)}


def test_a_shaped_cell_says_so():
    told = str(Spec(link_rate_bps=2.5e8, link_loss=0.015))
    assert ", links of 250 Mbit/s, 1.5 % loss, " in told


@pytest.mark.parametrize("rate_bps", [1e5, 1e8, 1e9, 5e9, 34e9])
def test_a_bucket_holds_the_largest_packet_and_a_late_timers_time_but_little_of_a_run(rate_bps):
    told = shaping.bucket(rate_bps)
    assert told["burst_bytes"] > LARGEST_PACKET_BYTES
    assert told["burst_bytes"] >= rate_bps / 8 * 0.002
    assert told["limit_bytes"] - told["burst_bytes"] >= 1 << 20
    if rate_bps >= 1e8:
        assert told["burst_bytes"] < 0.01 * rate_bps / 8  # 1 % of a second, so 0.5 % of two


@pytest.mark.parametrize("rate_bps", [1e5, 1e8, 1e9, 5e9, 34e9])
def test_where_flows_are_timed_a_link_carries_little_more_than_a_frame_at_once(rate_bps):
    told = shaping.bucket(rate_bps, FRAME_BYTES)
    assert FRAME_BYTES < told["at_once_bytes"] <= max(80 * 1024, FRAME_BYTES + rate_bps / 8 * 1e-4)
    assert rate_bps < told["peak_bps"] <= 1.011 * rate_bps
    assert told["peak_bps"] / 8 < 2**32  # which the kernel's 32 bits hold


def rate_refused(**asked):
    """The most that the refusal says can be had."""
    with pytest.raises(
        BadSpec, match=r"would carry [\d.]+ % at once, as the kernel's timers are late: give"
    ) as refused:
        layout(Spec(**asked))
    return float(str(refused.value).partition("give ")[2].split()[0].replace(",", ""))


@pytest.mark.parametrize(
    "asked",
    [
        {"workload": "flowgen", "flow_bytes": 400_000, "link_rate_bps": 1e9},
        {"workload": "flowgen", "flow_bytes": 5_000_000, "link_rate_bps": 34e9},
        {"workload": "netcat", "flow_bytes": 2000, "link_rate_bps": 1e8},
        {"workload": "rr", "request_bytes": 20_000, "link_rate_bps": 1e8},
        {"workload": "rr", "response_bytes": 20_000, "hosts": 2, "placement": "across", "uplink_rate_bps": 1e8},
    ],
    ids=str,
)
def test_a_rate_at_which_what_is_timed_is_too_small_is_refused_with_the_rate_that_can_be_had(asked):
    name = next(name for name in asked if name.endswith("_rate_bps"))
    most_bps = rate_refused(**asked)
    assert most_bps < asked[name]
    plan = layout(Spec(**asked | {name: most_bps}))
    assert all(each.paced for each in plan.links.values() or [host.uplink for host in plan.hosts])
    assert rate_refused(**asked | {name: 1.1 * most_bps}) == most_bps


@pytest.mark.parametrize(
    "asked",
    [
        {"workload": "flowgen", "flow_bytes": 50_000, "link_rate_bps": 1e5},  # a frame is 3 % of it, and cannot be less
        {"workload": "rr", "request_bytes": 100, "link_rate_bps": 1e9},  # in one frame
        {"workload": "traffic", "flow_sizes": "prv2-1", "requests": 10, "offered_load_bps": 1e6, "link_rate_bps": 5e9},
    ],
    ids=str,
)
def test_a_frame_is_never_too_much_nor_what_drawn_sizes_have_on_the_mean(asked):
    assert all(link.paced for link in layout(Spec(**asked)).links.values())


def test_where_nothing_is_timed_large_packets_stay_whole():
    assert not any(link.paced for link in layout(Spec(workload="iperf3", link_rate_bps=1e8, warmup_s=1)).links.values())


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"link_rate_bps": -1.0}, "link_rate_bps: input should be greater than or equal to 0"),
        ({"link_rate_bps": float("nan")}, "link_rate_bps: input should be a finite number, not nan"),
        ({"link_loss": 1.0}, "link_loss: input should be less than 1"),
        ({"link_loss": -0.1}, "link_loss: input should be greater"),
        *(({"link_rate_bps": rate}, r"link_rate_bps: must be from 100000 to 3\.4e") for rate in (1.0, 9.9e4, 1e12)),
        ({"driver": "host", "link_rate_bps": 1e8}, "driver 'host' gives endpoints no links of their own"),
        ({"driver": "host", "link_loss": 0.01}, "driver 'host' gives endpoints no links of their own"),
        ({"driver": "host", "mtu_bytes": 9000}, "mtu_bytes: driver 'host' gives endpoints no links of their own"),
    ],
)
def test_links_that_cannot_be_so_are_refused(asked, told):
    with pytest.raises(BadSpec, match=told):
        layout(Spec(**{"workload": "flowgen", **asked}))


# --- what a host may lack


def test_a_kernel_without_the_filter_is_told_of(monkeypatch):
    def unknown_kind(*_):
        raise OSError(errno.ENOENT, "Specified qdisc kind is unknown")

    monkeypatch.setattr(shaping.rtnetlink, "ask", unknown_kind)
    (lack,) = shaping.missing(Link(rate_bps=1e8))
    assert "sudo modprobe sch_tbf" in str(lack)


def test_a_host_without_iptables_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setattr(shaping, "IPTABLES", Program("no-such-iptables", "iptables"))
    (lack,) = shaping.missing(Link(loss=0.1))
    assert str(lack) == "no-such-iptables is not installed: sudo apt-get install iptables"


def test_an_iptables_without_the_statistic_match_is_told_of_in_its_own_words(monkeypatch, tmp_path):
    lame = tmp_path / "iptables"
    lame.write_text("#!/bin/sh\necho \"Couldn't load match 'statistic'\" >&2\nexit 2\n")
    lame.chmod(0o755)
    monkeypatch.setattr(shaping, "IPTABLES", Program(str(lame), "iptables"))
    (lack,) = shaping.missing(Link(loss=0.1))
    assert "Couldn't load match 'statistic'" in lack.what
    assert "sudo modprobe -a xt_statistic" in lack.remedy


def test_who_is_not_root_is_told_that_dockers_links_take_it(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lossy, plain = (layout(Spec(backend="docker", driver="bridge", link_loss=loss)) for loss in (0.1, 0.0))
    (lack,) = lossy.backend.missing_for(lossy)["shaped links"]
    assert "needs root" in lack.what
    assert plain.backend.missing_for(plain)["shaped links"] == []


# --- in both backends, with real links


def filters(endpoint):
    told = endpoint.run(["tc", "-json", "qdisc", "show", "dev", "eth0"])
    assert told.returncode == 0, told.stderr
    return [each for each in json.loads(told.stdout) if each["kind"] == "tbf"]


@pytest.mark.parametrize(("backend", "driver"), every_driver(isolated=True))
def test_every_clients_link_and_no_servers_has_the_filter_and_the_record_says_which(backend, driver, clean_host):
    if not shutil.which("tc"):
        pytest.skip("seeing filters needs tc: apt-get install iproute2")
    with open_testbed(shaped(backend, driver, pairs=2, link_rate_bps=2e8, link_loss=0.01)) as bed:
        for pair in bed.pairs:
            (found,) = filters(pair.client)
            assert found["options"]["rate"] == 25_000_000
            assert filters(pair.server) == []
        told = bed.site.facts()["shaping"]
    assert told["iptables"] == ["-A INPUT -i eth0 -m statistic --mode random --probability 0.0100000000 -j DROP"]
    (tbf,) = told["tbf"]
    assert tbf["rate_bps"] == 2e8
    assert tbf["burst_bytes"] == pytest.approx(shaping.bucket(2e8)["burst_bytes"], rel=1e-3)  # the kernel's ticks
    assert tbf["limit_bytes"] == shaping.bucket(2e8)["limit_bytes"]


def line_s(payload_bytes, rate_bps):
    """How long a line of that rate takes for it, but for one frame and what is due while a timer is late."""
    wire_bytes = payload_bytes * (MSS + HEADERS) / MSS
    filter_ = shaping.bucket(rate_bps, FRAME_BYTES)
    return (wire_bytes - filter_["at_once_bytes"]) * 8 / filter_["peak_bps"]


@pytest.mark.parametrize(
    ("backend", "flow_bytes", "rate_bps"),
    [("netns", 30_000, 1e5), ("netns", 400_000, 5e8), ("netns", 5_000_000, 1e10), ("docker", 2_000_000, 1e9)],
)
def test_no_flow_is_faster_than_its_link(backend, flow_bytes, rate_bps, runs_dir, clean_host):
    run = measure(shaped(backend, pairs=2, flow_bytes=flow_bytes, link_rate_bps=rate_bps, duration_s=10.0))
    assert list(run.flows["status"]) == ["ok", "ok"]
    assert run.flows["fct_s"].min() >= line_s(flow_bytes, rate_bps)
    (in_force,) = run.facts["network"]["shaping"]["tbf"]
    assert in_force["at_once_bytes"] <= shaping.at_once_bytes(rate_bps, FRAME_BYTES) + 1  # the kernel's ticks


def test_no_transaction_is_faster_than_the_uplinks_between_its_hosts(runs_dir, clean_host):
    need("netns")
    asked = {"hosts": 2, "placement": "across", "uplink_rate_bps": 1e8, "duration_s": 1.0, "interval_s": 0.5}
    spec = Spec(
        workload="rr", request_bytes=60_000, response_bytes=60_000, max_foreign_cpu=1.0, max_skew_s=1.0, **asked
    )
    need_all_of(spec)
    run = measure(spec)
    assert run.transactions["latency_s"].min() >= 2 * line_s(60_000, 1e8)


@pytest.mark.whole
def test_an_uplink_carries_no_more_than_its_rate(runs_dir):
    across = {"driver": "overlay", "hosts": 2, "placement": "across", "pairs": 2, "uplink_rate_bps": 1e9}
    spec = asking("flowgen", **across, duration_s=2, warmup_s=0.5, interval_s=0.5)
    need_all_of(spec)
    run = measure(spec, attempts=3)
    assert sound(run), run.reasons
    total_bps = run.flows["throughput_bps"].sum()
    # of 1514 bytes on the link inside, 1450 + 64 outside: 1398 of payload, with timestamps
    assert total_bps == pytest.approx(1e9 * 1398 / 1514, rel=0.03)
    assert run.facts["network"]["underlay"]["tbf"]["rate_bps"] == pytest.approx(1e9, rel=0.001)


# --- the MTU


@pytest.mark.parametrize(("backend", "driver"), every_driver(isolated=True))
def test_datagrams_of_the_mtu_pass_unbroken_and_links_have_it_at_both_ends(backend, driver, shared_datagrams):
    run = shared_datagrams(backend, driver).run  # a switch drops what is too large for its links
    assert sound(run), run.reasons
    assert (run.spec.mtu_bytes, run.spec.message_bytes) == (9000, 8972)
    assert run.facts["network"]["mtu_bytes"] == 9000
    assert (run.flows["datagrams_received"] > 0.9 * run.flows["datagrams_sent"]).all()
    assert (run.flows["datagrams_sent"] > 0).all()


def test_links_with_another_mtu_than_asked_make_a_run_invalid(runs_dir, monkeypatch, clean_host):
    need("netns")
    real = registry.backends.get("netns").open

    def forgetful(self, layout, *others):
        endpoints = tuple(replace(each, mtu_bytes=0) for each in layout.endpoints)
        return real(self, replace(layout, endpoints=endpoints), *others)

    monkeypatch.setattr(registry.backends.get("netns"), "open", forgetful)
    run = measure(shaped("netns", mtu_bytes=9000, duration_s=0.5))
    assert "2 links had another MTU than 9000 B, the first: client-0's had 1500 B" in run.reasons


@pytest.mark.whole  # within 1 %, of every tool: tests/faults/test_truth.py
@pytest.mark.parametrize("backend", any_backend())
def test_a_flow_gets_what_headers_leave_of_its_link(backend, runs_dir, clean_host):
    run = measure(shaped(backend, link_rate_bps=5e7, duration_s=3.0, warmup_s=0.5))
    assert list(run.flows["status"]) == ["ok"], list(run.flows["error"])
    assert run.flows["throughput_bps"][0] == pytest.approx(5e7 * 1448 / 1514, rel=0.05)  # exactly: tests/faults
    assert run.facts["network"]["shaping"]["tbf"][0]["rate_bps"] == 5e7


def rules():
    """The host's own firewall rules, but for counters and dates."""
    asks = [shaping.IPTABLES.path(), "-w", "10", "-S"]  # the daemon may be at them
    told = subprocess.run(asks, capture_output=True, text=True, check=False)
    return sorted(line for line in told.stdout.splitlines() if "DOCKER" not in line and "br-" not in line)


@pytest.mark.whole
@pytest.mark.parametrize("backend", any_backend())
def test_losses_are_retransmitted_and_the_hosts_own_rules_are_left_alone(backend, runs_dir, clean_host):
    # They come in pieces of 64 KiB at most, so in 192 or more: in one of 600 million runs none is lost.
    spec = shaped(backend, link_rate_bps=5e7, link_loss=0.1, flow_bytes=12_500_000, duration_s=60.0)
    before = rules()
    with open_testbed(spec):
        assert rules() == before
    run = measure(spec)
    assert list(run.flows["status"]) == ["ok"], list(run.flows["error"])
    assert run.flows["netns_retransmits"][0] > 0
    assert rules() == before
    assert not host.difference(clean_host)
