"""What links sent, over time: when clients began, and the total, on counters of which the truth is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.host import link_recorder
from pairlab.testbed.host.link_recorder import LinkRecorder
from pairlab.testbed.host.link_telemetry import LinkTelemetry
from pairlab.testbed.process_launcher import Process

EVERY_NS = 100_000_000


def telemetry(monkeypatch, *sent_bytes):
    """Of as many clients, with what their links had sent at each sample; the first is at the release."""
    clients = [Process("x", Endpoint("x", "10.0.0.1", None), ()) for _ in sent_bytes]
    recorder = LinkRecorder(clients, "eth0", 0.1)
    for number, now in enumerate(zip(*sent_bytes, strict=True)):
        monkeypatch.setattr(link_recorder.time, "monotonic_ns", lambda number=number: number * EVERY_NS)
        for counter, value in zip(recorder._counters, now, strict=True):
            monkeypatch.setattr(counter, "sent", lambda value=value: None if value is None else (value, value // 1000))
        recorder.sample()
    return LinkTelemetry(clients, SimpleNamespace(link_recorder=lambda *_: recorder), 2.0)


def test_a_client_is_silent_until_the_last_sample_at_which_it_had_sent_no_more_than_a_handshake(monkeypatch):
    at_once = [500, *np.arange(1, 21) * 10**6]
    late = [500] + [900] * 7 + list(np.arange(1, 14) * 10**6)
    assert telemetry(monkeypatch, at_once, late).silent_until_s(0) == [0.0, pytest.approx(0.7)]


def test_of_a_link_that_is_not_seen_or_never_sent_nothing_is_known(monkeypatch):
    found = telemetry(monkeypatch, [None] * 5, [7] * 5, range(0, 5 * 10**6, 10**6))
    assert found.silent_until_s(0) == [None, None, 0.0]
    assert found.total_bps(0, 0.0, 1.0) == []


def test_the_total_is_of_all_links_between_samples_within_the_time(monkeypatch):
    one, other = np.arange(11) * 10**6, np.arange(11) * 3 * 10**6
    found = telemetry(monkeypatch, one, other)
    assert found.total_bps(0, 0.15, 0.65) == pytest.approx([3.2e8] * 4)
    assert len(found.total_bps(0, 0.0, 9.0)) == 10
