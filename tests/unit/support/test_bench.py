"""The bench: what each part is called with for --smallest fits it, which otherwise only a run of it would show."""

import inspect
import os
import subprocess
import sys

import pytest

from bench import table as bench_table
from bench import testbed as bench_testbed
from bench.__main__ import PARTS
from pairlab.testbed.plans import Plan
from pairlab.testbed.requirements import Program


@pytest.mark.parametrize(("part", "least"), PARTS.values(), ids=PARTS)
def test_each_part_takes_what_it_is_given_in_its_smallest_form(part, least):
    inspect.signature(part).bind(**least)


#: The parts beside peers, what they are in the smallest form, and the programs of these peers.
BESIDE = {
    "mininet": {"mnexec": "mininet", "brctl": "bridge-utils", "ifconfig": "net-tools"},
    "mininet_hosts": {"mnexec": "mininet", "brctl": "bridge-utils", "ifconfig": "net-tools"},
    "by_hand": {"ip": "iproute2", "ss": "iproute2"},
    "docker_hosts": {"docker": "docker-cli"},
    "docker": {"docker": "docker-cli"},
    "launch": {"docker": "docker-cli", "ping": "iputils-ping"},
    "nothing_lost": {"iperf": "iperf"},
    "traffic": {"ip": "iproute2", "unshare": "util-linux"},
    "histogram": {"cc": "gcc"},
}


@pytest.fixture
def told(monkeypatch):
    """What the table of the bench says of what was left out, on a machine that has everything but these programs."""
    rows = []
    monkeypatch.setattr(bench_table.table, "add_row", lambda *cells: rows.append(cells))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Plan, "missing", lambda plan: {})

    def told(part, *programs):
        monkeypatch.setattr(Program, "path", lambda each: None if each.name in programs else f"/usr/bin/{each.name}")
        function, least = PARTS[part]
        function(**least)
        assert rows
        assert {cells[1] for cells in rows} == {"left out"}
        return " ".join(cells[2] for cells in rows)

    return told


@pytest.mark.parametrize(
    ("part", "program", "package"), [(p, *each) for p, of in BESIDE.items() for each in of.items()]
)
def test_a_part_whose_peer_lacks_a_program_is_left_out_in_words(told, part, program, package):
    words = told(part, program)
    assert f"{program} is not installed: " in words
    assert package in words


def test_a_peer_that_fails_is_left_out_with_its_last_words(told, monkeypatch):
    monkeypatch.setattr(bench_testbed, "up_and_down", lambda spec: (1.0, 1.0))
    monkeypatch.setattr(bench_testbed, "missing_mininet", lambda: "")
    monkeypatch.setattr(bench_testbed, "MININET", "import sys; sys.exit('Cannot find required executable brctl.')")
    monkeypatch.setattr(
        bench_testbed,
        "mininet",
        lambda *sizes: subprocess.run(
            [sys.executable, "-c", bench_testbed.MININET], check=True, capture_output=True, text=True
        ),
    )
    assert told("mininet") == "Mininet failed: Cannot find required executable brctl."
