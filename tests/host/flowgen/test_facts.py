"""flowgen facts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.host.flowgen.helpers import run

OFFLOADS = {"tx_checksum", "rx_checksum", "scatter_gather", "tso", "gso", "gro"}
SETTINGS = {"tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_timestamps", "tcp_sack", "tcp_ecn"}


def test_facts_describe_a_link_and_the_settings_of_tcp(flowgen):
    done = run(flowgen, "facts", "--link", "lo")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts.keys() == {"event", "link", "mtu_bytes"} | OFFLOADS | SETTINGS
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
