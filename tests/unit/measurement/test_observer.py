"""What observes a measurement: started and stopped as a whole, for as long as traffic flows."""

import os
import threading
from types import SimpleNamespace

import pytest

from pairlab.measurement.observer import Observer
from pairlab.model.spec import Spec
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.host import perf_events
from pairlab.testbed.process_launcher import Process


def bed(spec):
    """Up as far as an observer asks; this process plays a client whose link is seen."""
    site = SimpleNamespace(
        interface="lo",
        root_pids=list,
        process_marks=list,
        port_counts=dict,
        cpu_counts=list,
        begin_load=lambda lasts_s: None,
        end_load=list,
        link_recorder=lambda *_: None,
    )
    return SimpleNamespace(
        spec=spec, site=site, plan=SimpleNamespace(driver=SimpleNamespace(isolated=True), workload=None)
    )


def client():
    return Process("client-0", Endpoint("client-0", "10.77.0.1", lambda *_: None), (), ready=True, pid=os.getpid())


def samplers():
    return {each.name for each in threading.enumerate()} & {"cpu-telemetry", "link-telemetry"}


def test_what_was_started_is_stopped_when_the_last_does_not_start(monkeypatch):
    real, seen = perf_events.open_event, []

    def open_event(kind, *others):
        if kind == perf_events.SOFTWARE:
            seen.append(samplers())
            raise PermissionError(13, "Permission denied")
        return real(kind, *others)

    monkeypatch.setattr(perf_events, "open_event", open_event)
    observer = Observer(bed(Spec(profile=True)), [client()], [])
    before = os.listdir("/proc/self/fd")
    with pytest.raises(PermissionError, match="Permission denied"), observer:
        pytest.fail("it was entered")
    assert seen == [{"cpu-telemetry", "link-telemetry"}]  # all others had started by then
    assert samplers() == set()
    assert os.listdir("/proc/self/fd") == before
    assert observer.facts()["counters"]["over_s"] > 0  # as of counters that were stopped


def test_the_profile_has_room_for_clients_that_start_apart(monkeypatch):
    monkeypatch.setattr(perf_events, "online_cpus", lambda: [0, 1])
    apart = Spec(pairs=2, duration_s=151, start_spacing_s=149, profile=True)
    assert Observer(bed(apart), [], []).facts()["profile"]["frequency_hz"] == 163  # as in a run of 300 s
