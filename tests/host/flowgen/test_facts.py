"""flowgen facts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import run

OFFLOADS = {"tx_checksum", "rx_checksum", "scatter_gather", "tso", "gso", "gro"}
SETTINGS = {"tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_timestamps", "tcp_sack", "tcp_ecn"}


def test_facts_describe_a_link_and_the_settings_of_tcp(flowgen):
    done = run(flowgen, "facts", "--link", "lo")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts.keys() == {"event", "link", "mtu_bytes", "qdiscs", "qdisc_options_hash"} | OFFLOADS | SETTINGS
    assert (facts["event"], facts["link"]) == ("facts", "lo")
    assert facts["mtu_bytes"] == int(Path("/sys/class/net/lo/mtu").read_text())
    assert all(facts[key] in (0, 1, None) for key in OFFLOADS)
    for key in SETTINGS:
        setting = Path(f"/proc/sys/net/ipv4/{key}").read_text()
        assert facts[key].split() == setting.split()


def test_facts_of_a_link_that_is_not_there_are_an_error_that_names_it(flowgen):
    done = run(flowgen, "facts", "--link", "nowhere0")
    assert done.returncode == 1
    assert "'nowhere0': No such device" in done.stderr
    assert done.stdout == ""


def test_a_changed_queue_of_a_link_is_another_fact(flowgen):
    """In a namespace of its own: of loopback, which has none, then a bucket, then a smaller one."""
    bucket = "tc qdisc {} dev lo root tbf rate {} burst 64kb latency 10ms"
    show = f"{flowgen} facts --link lo"
    steps = [
        "ip link set lo up",
        show,
        bucket.format("add", "10mbit"),
        show,
        show,
        bucket.format("replace", "5mbit"),
        show,
    ]
    if not all(map(shutil.which, ("ip", "tc", "unshare"))):
        pytest.skip("needs ip, tc and unshare: apt-get install iproute2 util-linux")
    done = run("unshare", "--map-root-user", "--net", "sh", "-c", " && ".join(steps))
    if "Unknown" in done.stderr or "No such file" in done.stderr:
        pytest.skip(f"this kernel shapes no links: {done.stderr.strip()}")
    none, first, again, smaller = map(json.loads, done.stdout.splitlines())
    assert [each["qdiscs"] for each in (none, first, smaller)] == ["noqueue", "tbf", "tbf"]
    assert first == again
    assert smaller["qdisc_options_hash"] != first["qdisc_options_hash"]
