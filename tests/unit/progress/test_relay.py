"""Progress told from one process to another."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pairlab.progress import automatic, relay
from pairlab.testbed.contracts import silent

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
    with relay.receiving(place, lambda *told: heard.append(told)):
        done = subprocess.run([sys.executable, "-c", TELLS], capture_output=True, text=True, check=True)
    assert heard == [("bringing up", 0, 2), ("bringing up", 1, 2), ("bringing up", 2, 2), ("measuring (s)", 0.5, 2)]
    assert (done.stdout, done.stderr) == ("", "")  # it tells us, and nobody else
    assert list(place.iterdir()) == []
    assert not relay.wanted()


def test_who_does_not_want_to_hear_opens_nothing(place):
    with relay.receiving(place, silent):
        assert not relay.wanted()
        assert list(place.iterdir()) == []


def test_a_teller_is_not_held_up_by_a_listener_that_is_gone_or_slow(place, monkeypatch):
    monkeypatch.setenv(relay.VARIABLE, str(place / "nobody"))
    with automatic() as progress:
        progress("bringing up", 0, 2)
    go_on, heard = threading.Event(), []
    with relay.receiving(place, lambda *told: (go_on.wait(), heard.append(told))):
        with relay.sender() as progress:
            for done in range(10_000):
                progress("bringing up", done, 10_000)
        go_on.set()
    assert 0 < len(heard) < 10_000
    assert os.environ[relay.VARIABLE] == str(place / "nobody")


@pytest.mark.parametrize("phase", ["x" * 100_000, "\N{GRINNING FACE}" * 1000, "\udcff" * 1000])
def test_a_phase_with_any_name_is_heard_as_far_as_it_goes(place, phase):
    heard = []
    with relay.receiving(place, lambda *told: heard.append(told)), relay.sender() as progress:
        progress(phase, 1, 2)
    ((name, done, total),) = heard
    assert phase.startswith(name)
    assert (len(name), done, total) == (300, 1, 2)


def test_what_others_write_to_the_socket_is_passed_over(place):
    heard = []
    with relay.receiving(place, lambda *told: heard.append(told)), relay.sender() as progress:
        import socket

        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for message in (b"{", b"[1]", b'"x"', b'["a", "b", "c"]', b"\xff"):
                stranger.sendto(message, os.environ[relay.VARIABLE])
        progress("taking down", 0, 0)
    assert heard == [("taking down", 0, 0)]
