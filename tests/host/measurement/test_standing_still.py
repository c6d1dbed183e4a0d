"""A run in which somebody stood still is not ok: a client, a server, the background, a worker; nor is a launch beside
busy loops. One in which nobody did, is.
"""

import pytest

from pairlab import Spec, measure
from tests.conftest import mostly_whole, need, need_all_of
from tests.support.disturbances import BUSY, load, measured_under, nothing, stopped, stopped_in_turns

ANY_MACHINE = {"max_foreign_cpu": 1.0, "max_skew_s": 5.0, "interval_s": 0.1}
BULK = Spec(workload="flowgen", pairs=2, duration_s=2.0, **ANY_MACHINE)
#: For `make soak`: what lies between two others, and what is as another one.
FURTHER = {"all clients, for half of it", "one server"}
SILENT = {"silent", "silence_s", "background_silent", "background_silence_s", "interference_silence_s"}


def client(bed):
    return bed.clients[:1]


def clients(bed):
    return bed.clients


def server(bed):
    return bed.servers[:1]


def background(bed):
    return [each for each in bed.beside if "client" in each.endpoint.name]


def worker(bed):
    return [each for each in bed.beside if not each.ended][-1:]


CASES = {
    "all clients, for most of the time": (BULK, clients, 0.1, 1.75),
    "all clients, for half of it": (BULK, clients, 0.5, 1.0),
    "all clients, for a fifth": (BULK, clients, 1.0, 0.4),
    "one client": (BULK, client, 0.5, 0.9),
    "one server": (BULK, server, 0.5, 0.9),
    "a server of datagrams": (BULK.replace(udp_share=1.0, udp_rate_bps=5e7, message_bytes=1000), server, 0.5, 0.9),
    "the server of requests": (BULK.replace(workload="rr", pairs=1, duration_s=3.0), server, 1.0, 0.9),
    "all clients on the host's network": (BULK.replace(driver="host"), clients, 0.5, 1.0),
    "a client that sends much": (BULK.replace(flow_bytes=2_000_000_000, duration_s=60.0), client, 0.3, 1.5),
    "the background": (BULK.replace(background_pairs=1), background, 0.5, 1.0),
    "a busy worker": (BULK.replace(interference_workers=2), worker, 0.5, 1.0),
}


def silences(run):
    """The checks of time without progress, those that were not met apart from the others."""
    return {name for name in SILENT if (run.checks.get(name) or 0.0) > 0}


@pytest.mark.parametrize("name", mostly_whole(CASES, but=[], only=[(name,) for name in set(CASES) - FURTHER]))
def test_a_run_in_which_somebody_stood_still_is_not_ok(name, runs_dir, clean_host):
    spec, who, begins_s, lasts_s = CASES[name]
    need_all_of(spec)
    run, _ = measured_under(spec, stopped(who), begins_s=begins_s, lasts_s=lasts_s)
    assert run.status in ("invalid", "failed"), run.checks
    assert (
        silences(run) or spec.driver == "host"
    )  # there by the tool's intervals, one of which may hold the whole stall


@pytest.mark.parametrize("who", [clients, server])
def test_those_who_are_stopped_for_moments_again_and_again_are_found_by_that(who, runs_dir, clean_host):
    """No silence is long, and what comes through is as steady as it would be without."""
    need("netns")
    run, _ = measured_under(BULK, stopped_in_turns(who, 0.01, 0.04), begins_s=0.0, lasts_s=BULK.duration_s)
    assert run.checks["stopped"] > 0.05
    assert any("was stopped for" in reason for reason in run.reasons), run.reasons


@pytest.mark.whole
@pytest.mark.parametrize(
    "name", ["one client", "a server of datagrams", "the server of requests", "the background", "a busy worker"]
)
def test_where_nobody_did_nothing_is_said_of_it(name, runs_dir, clean_host):
    spec, *_ = CASES[name]
    need_all_of(spec)
    run, _ = measured_under(spec, nothing, begins_s=0.0, lasts_s=0.1)
    assert not any("silent" in reason or "stood still" in reason for reason in run.reasons), run.reasons
    assert max((run.checks.get(check) or 0.0) for check in SILENT) < 0.5
    assert run.checks["stopped"] == 0


@pytest.mark.whole
def test_launches_beside_busy_loops_are_not_ok(runs_dir, clean_host):
    need("netns")
    spec = Spec(workload="flowgen", pairs=2, launches=20)
    quiet = measure(spec, attempts=3)
    with load(BUSY):
        beside = measure(spec.replace(repetition=1))
    assert quiet.status == "ok", quiet.reasons
    assert beside.status == "invalid"
    assert "other processes used" in beside.reasons[0]
