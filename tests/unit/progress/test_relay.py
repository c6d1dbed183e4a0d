"""Progress told from one process to another."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pairlab.base.caller import VARIABLE, caller, caller_with
from pairlab.progress import automatic, relay
from pairlab.progress.relay import Reports, report_phase, report_run

TELLS = """
from pairlab.progress import automatic
with automatic() as progress:
    for done in range(3):
        progress("bringing up", done, 2)
    progress("measuring (s)", 0.5, 2.0)
"""


@pytest.fixture
def place():
    """In /tmp, as the product's: pytest's own may be too long for the path of a Unix socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_another_process_is_heard_to_its_last_word(place):
    heard = []
    with relay.receiving(place, Reports(lambda *told: heard.append(told))):
        done = subprocess.run([sys.executable, "-c", TELLS], capture_output=True, text=True, check=True)
    assert heard == [("bringing up", 0, 2), ("bringing up", 1, 2), ("bringing up", 2, 2), ("measuring (s)", 0.5, 2)]
    assert (done.stdout, done.stderr) == ("", "")  # it tells us, and nobody else
    assert list(place.iterdir()) == []
    assert not relay.wanted()


def test_a_run_is_reported_with_its_path_and_who_is_not_asked_reports_nothing(place):
    reports = Reports()
    report_run("a key", "nobody listens", Path("/runs/a"))
    with relay.receiving(place, reports):
        report_run("b key", "\N{GRINNING FACE}" * 1000, Path("/runs/b"))
    assert reports.runs == {"b key": ("\N{GRINNING FACE}" * 1000, Path("/runs/b"))}


def test_a_teller_is_not_held_up_by_a_listener_that_is_gone_or_slow(place):
    go_on, heard = threading.Event(), []
    with caller_with(report_to=str(place / "nobody")):
        with automatic() as progress:
            progress("bringing up", 0, 2)
        report_run("a key", "nobody listens", place)
        with relay.receiving(place, Reports(lambda *told: (go_on.wait(), heard.append(told)))):
            for done in range(10_000):
                report_phase("bringing up", done, 10_000)
            go_on.set()
        assert 0 < len(heard) < 10_000
        assert caller().report_to == str(place / "nobody")
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("phase", ["x" * 100_000, "\N{GRINNING FACE}" * 1000, "\udcff" * 1000])
def test_a_phase_with_any_name_is_heard_as_far_as_it_goes(place, phase):
    heard = []
    with relay.receiving(place, Reports(lambda *told: heard.append(told))):
        report_phase(phase, 1, 2)
    ((name, done, total),) = heard
    assert phase.startswith(name)
    assert (len(name), done, total) == (300, 1, 2)


def test_what_others_write_to_the_socket_is_passed_over(place):
    heard = []
    with relay.receiving(place, Reports(lambda *told: heard.append(told))):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for message in (b"{", b"[1]", b'"x"', b'{"phase": ["a", "b", "c"]}', b'{"run": [[], 1, 2]}', b"\xff"):
                stranger.sendto(message, caller().report_to)
        report_phase("taking down", 0, 0)
    assert heard == [("taking down", 0, 0)]
