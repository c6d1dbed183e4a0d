"""What is counted and profiled while traffic flows, with real traffic."""

import os
import time

import pytest

from pairlab import Spec, load_runs, measure
from pairlab.analysis import layers, selection
from pairlab.errors import AnalysisError, Unavailable
from pairlab.measurement import measure as measurement
from pairlab.testbed import registry
from pairlab.testbed.host import kernel_counters as counters
from tests.conftest import any_backend, need, need_all_of
from tests.support.attempts import measured, sound


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """One run with a profile, as read from the store, and the counts of the host just before and just after it."""
    spec = Spec(workload="flowgen", pairs=2, duration_s=2.0, profile=True, max_skew_s=5, max_foreign_cpu=1)
    need_all_of(spec)
    root = tmp_path_factory.mktemp("runs")
    before = counters.read()
    run = measured(spec, root=root)
    return run, counters.growth(before, counters.read())


@pytest.mark.whole
@pytest.mark.parametrize("backend", any_backend())
def test_every_run_counts_what_the_kernel_did_for_its_traffic(backend, shared_run):
    run = shared_run(backend, "bridge").run
    counted = run.facts["counters"]
    assert run.intervals["end_s"].max() < counted["over_s"] < run.times_s["traffic_s"]
    for name in ("interrupts", "context_switches", "softirqs_net_rx", "softnet_processed"):
        assert counted[name] > 0, name
    assert min(value for name, value in counted.items() if name != "lacks") >= 0
    of_processor = {"cycles", "instructions", "cache_references", "cache_misses"}
    assert of_processor & set(counted) or counted["lacks"]
    columns = [f"{side}_{kind}_switches" for side in ("client", "server") for kind in ("voluntary", "involuntary")]
    switches = run.flows[columns]
    assert (switches >= 0).all(axis=None)
    assert (switches[["client_voluntary_switches", "server_voluntary_switches"]] > 0).all(axis=None)
    # The whole host switches more often than the testbed's processes alone.
    assert counted["context_switches"] > 0.5 * switches.sum().sum()


def test_what_a_run_counts_lies_within_what_was_counted_around_it(profiled):
    run, around = profiled
    for name, count in run.facts["counters"].items():
        if name in around:
            assert 0 <= count <= around[name], name
    packets = run.facts["counters"]["softnet_processed"]
    assert packets > run.flows["flow_bytes"].sum() / 2**17  # no packet is larger than 64 KiB, and each has an answer


def test_a_client_that_sleeps_has_switched_as_often(runs_dir, monkeypatch):
    need("netns")
    workload = registry.workloads.get("flowgen")
    naps = "for _ in $(seq 60); do sleep 0.001; done; exit 7"
    monkeypatch.setattr(workload, "client", lambda *_: ["sh", "-c", naps])
    run = measure(Spec(workload="flowgen", duration_s=0.5, max_skew_s=5))
    assert run.status == "failed"
    assert run.flows["client_voluntary_switches"].item() >= 2 * 60  # the shell's own, and those of each sleep


def test_a_profile_shows_the_layers_that_the_packets_went_through(profiled):
    run, _ = profiled
    assert sound(run), run.reasons
    facts = run.facts["profile"]
    assert facts["samples"] == run.profile["samples"].sum()
    per_cpu = facts["frequency_hz"] * run.facts["counters"]["over_s"]
    assert facts["samples"] == pytest.approx(per_cpu * os.cpu_count(), rel=0.3)
    assert facts["lost"] == 0
    shares = layers.shares(zip(run.profile["stack"], run.profile["samples"], strict=True))
    assert sum(shares.values()) == pytest.approx(1)
    for layer in ("copy", "TCP", "IP", "bridge"):
        assert shares[layer] > 0, layer
    assert shares["copy"] > 0.05
    assert shares["TCP"] > 0.02
    assert shares["macvlan"] == shares["OVS"] == 0
    programs = {stack.partition(";")[0] for stack in run.profile["stack"]}
    assert "flowgen" in programs
    assert "profiled" in str(run.spec)


def test_a_profile_is_small_on_disk_and_most_runs_have_none(profiled, shared_run):
    run, _ = profiled
    assert (run.path / "profile.parquet").stat().st_size < 200_000
    plain = shared_run("netns", "bridge").run
    assert not (plain.path / "profile.parquet").exists()
    assert plain.profile.empty


def test_profiled_runs_do_not_mix_with_others(profiled, shared_run):
    run, _ = profiled
    assert not selection.as_in_papers(run.spec)
    with pytest.raises(AnalysisError, match="differ in profile"):
        selection.check_alike([run, shared_run("netns", "bridge").run])


def test_an_interrupted_profile_leaves_nothing_open(runs_dir, monkeypatch, clean_host):
    spec = Spec(workload="flowgen", duration_s=5.0, profile=True, max_skew_s=5)
    need_all_of(spec)

    def interrupted(*_):
        assert events() > 0
        raise KeyboardInterrupt

    monkeypatch.setattr(measurement, "_watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(spec)
    assert events() == 0


def events():
    """How many perf events this process has open, or mapped."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue  # of the listing itself
    with open("/proc/self/maps") as maps:
        return sum("perf_event" in each for each in [*links, *maps])


def test_what_a_host_refuses_is_told_before_anything_is_built(runs_dir, monkeypatch):
    need("netns")

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pairlab.testbed.host.perf_events.open_event", refused)
    begun = time.monotonic()
    with pytest.raises(Unavailable, match=r"profile: samples of all CPUs may not be read here .*: run pairlab as root"):
        measure(Spec(workload="flowgen", duration_s=20.0, profile=True))
    assert time.monotonic() - begun < 10
    (run,) = load_runs(runs_dir)
    assert run.status == "skipped"
