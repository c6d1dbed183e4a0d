"""Measured beside a background and interference: these run from before the release until the end, and no result counts
them. In both backends, on one host and on two."""

import pytest

from pairlab import Spec, measure
from pairlab.measurement import measure as measurement
from pairlab.model.rates import client_bps
from pairlab.testbed.host import foreign_load
from pairlab.testbed.process_launcher import ProcessLauncher
from tests.conftest import mostly_whole, need_all_of
from tests.support import host
from tests.support.attempts import measured, sound, sound_run
from tests.support.disturbances import tools

LINK_BPS = 1e8
#: What a link of that rate carries of TCP's payload: 1,448 of 1,514 B.
PAYLOAD_BPS = LINK_BPS * 1448 / 1514
#: A background and interference beside pairs that send at full rate over links of a known rate.
LOADED = Spec(
    experiment="congestion",
    workload="flowgen",
    pairs=2,
    duration_s=2,
    link_rate_bps=LINK_BPS,
    background_pairs=2,
    interference_workers=2,
    interference_load=0.1,
    max_skew_s=5,
    max_foreign_cpu=1,
)
ACROSS = {"hosts": 2, "placement": "across", "interference_where": "both", "interference_workers": 1}
SPECS = {
    "netns": LOADED,
    "docker": LOADED.replace(backend="docker"),
    # All of a host's endpoints share one link, and a tool that reports in its own way when it is stopped.
    "netns-across": LOADED.replace(
        driver="host", **ACROSS, workload="rr", request_bytes=1000, link_rate_bps=0, background_workload="iperf"
    ),
    "netns-iperf3": LOADED.replace(background_workload="iperf3"),
    # The background uses the hosts' own network, and shares the uplinks with the overlay.
    "netns-on-hosts": LOADED.replace(
        driver="overlay", **ACROSS, link_rate_bps=0, uplink_rate_bps=LINK_BPS, background_driver="host"
    ),
    "docker-on-hosts": LOADED.replace(
        backend="docker",
        driver="overlay",
        **ACROSS,
        link_rate_bps=0,
        uplink_rate_bps=LINK_BPS,
        background_driver="host",
    ),
    "docker-across": LOADED.replace(backend="docker", driver="overlay", **ACROSS, workload="rr", link_rate_bps=0),
}
EACH = mostly_whole(SPECS, but=["netns", "docker", "netns-across", "netns-on-hosts"])


@pytest.fixture(scope="module")
def loaded_run(tmp_path_factory):
    root, found = tmp_path_factory.mktemp("loaded") / "runs", {}

    def loaded_run(name):
        need_all_of(SPECS[name])
        if name not in found:
            before = host.snapshot()
            found[name] = measured(SPECS[name], root=root)
            assert host.settled(before), host.difference(before)
        return found[name]

    return loaded_run


@pytest.mark.whole
@pytest.mark.parametrize("name", EACH)
def test_the_background_sends_from_before_the_release_until_the_others_have_ended(name, loaded_run):
    run = loaded_run(name)
    assert sound(run), run.reasons
    background, intervals = run.background_flows, run.background_intervals
    assert background["role"].to_list() == ["background"] * 2
    assert background["pair"].to_list() == [2, 3]
    assert background["status"].to_list() == ["ok"] * 2
    assert (background["start_s"] < -1.0).all()  # its rate is that of half a second, and of another before
    assert (background["throughput_bps"] > 1e6).all()
    assert run.checks["background_steady"]
    by_pair = intervals.groupby("pair")
    # From when they were connected, which a busy machine can put off: far sooner than the release in any case.
    assert (by_pair["start_s"].min().to_numpy() - background["start_s"]).between(-1e-9, 0.25).all()
    assert (by_pair["end_s"].max() > run.spec.duration_s - 0.05).all()


@pytest.mark.parametrize("name", EACH)
def test_no_result_counts_the_background_and_counters_account_for_it(name, loaded_run):
    run = loaded_run(name)
    assert run.flows["pair"].unique().tolist() == run.intervals["pair"].unique().tolist() or run.intervals.empty
    assert run.flows["pair"].to_list() == [0, 1]
    assert run.total_throughput_bps == run.flows["throughput_bps"].sum()
    assert abs(run.checks["interface_bytes"]) < 0.01
    if SPECS[name].driver == "bridge" and SPECS[name].background_workload == "flowgen":
        assert abs(run.checks["port_bytes"]) < 0.01


@pytest.mark.parametrize(
    "name", mostly_whole([name for name in SPECS if SPECS[name].link_rate_bps], but=["netns", "docker"])
)
def test_each_carries_what_its_link_can_in_the_time_that_counts(name, loaded_run):
    run = loaded_run(name)
    assert client_bps(run.flows).to_list() == pytest.approx([PAYLOAD_BPS] * 2, rel=0.03)
    beside_bps = run.background_flows["throughput_bps"].to_list()
    assert beside_bps == pytest.approx([PAYLOAD_BPS] * 2, rel=0.05)  # no check tells of a moment's stall of theirs
    assert run.background_flows["duration_s"].to_list() == [2.0, 2.0]


@pytest.mark.parametrize(
    "name", mostly_whole([name for name in SPECS if SPECS[name].background_driver], but=["netns-on-hosts"])
)
def test_a_background_on_the_hosts_own_network_shares_their_uplinks_with_the_driver_s(name, loaded_run):
    run = loaded_run(name)
    beside_bps = run.background_flows["throughput_bps"].sum()
    # All of the uplink, but for headers: Ethernet, IP and TCP, and of the overlay 50 B more in each packet.
    assert 0.85 * LINK_BPS < run.total_throughput_bps + beside_bps < PAYLOAD_BPS * 1.02
    assert min(run.total_throughput_bps, beside_bps) > 0.1 * LINK_BPS
    ends = run.background_flows[["client_host", "server_host"]].drop_duplicates().to_numpy().tolist()
    assert ends == [["host-0", "host-1"]]


def test_cpus_that_are_kept_awake_do_not_sleep(runs_dir, clean_host):
    spec = Spec(workload="rr", requests_per_s=100.0, duration_s=1.0, max_skew_s=5, max_foreign_cpu=1)
    need_all_of(spec.replace(cpus_awake=True))
    asleep, awake = (measure(spec.replace(cpus_awake=each)).facts["counters"]["cpu_sleeps"] for each in (False, True))
    assert asleep > 100  # each request wakes two processes
    assert awake < asleep / 10


def test_the_cpu_stressor_of_stress_ng_is_interference_like_any(runs_dir, clean_host):
    spec = Spec(workload="flowgen", udp_share=1.0, udp_rate_bps=1e6, interference_workers=1, max_foreign_cpu=1)
    spec = spec.replace(interference_tool="stress-ng", duration_s=1.0, max_skew_s=5)
    run = sound_run(spec)
    (used,) = (each["cpus_used"] for each in run.facts["interference"])
    assert used > 0.1  # of the time from its start, in which it also starts its own processes


@pytest.mark.parametrize("name", EACH)
def test_interference_uses_the_share_that_was_asked_for(name, loaded_run):
    workers = loaded_run(name).facts["interference"]
    hosts = ["host-0", "host-1"] if SPECS[name].hosts == 2 else ["host-0"] * 2
    assert [each["host"] for each in workers] == hosts
    for each in workers:
        assert 0.04 < each["cpus_used"] < 0.12  # less where others had the CPUs


def test_interference_is_no_foreign_load(runs_dir, clean_host, monkeypatch):
    """Of two samples while it runs, its CPU time is the testbed's."""
    spec = Spec(workload="flowgen", udp_share=1.0, udp_rate_bps=1e6, interference_workers=1, max_foreign_cpu=1)
    real, found = measurement._watch, []

    def watch(bed, *others):
        testbed = foreign_load.OwnProcesses(bed.site.root_pids(), bed.site.process_marks())
        found.append(foreign_load.take_sample(testbed).cpu)
        real(bed, *others)
        found.append(foreign_load.take_sample(testbed).cpu)

    monkeypatch.setattr(measurement, "_watch", watch)
    run = measure(spec.replace(duration_s=1.0))
    (used,) = (each["cpus_used"] for each in run.facts["interference"])
    assert found[-1].testbed_s - found[-2].testbed_s > 0.7 * used  # of 1 s, in which the pair did next to nothing


@pytest.mark.whole
def test_a_background_or_a_worker_that_ends_before_the_others_makes_the_run_invalid(runs_dir, clean_host, monkeypatch):
    real_watch, real_start, started = measurement._watch, ProcessLauncher.start, {}

    def start(*arguments, **options):
        processes = real_start(*arguments, **options)
        started.update({each.endpoint.name: each for each in processes})
        return processes

    def watch(*arguments):
        for victim in tools([started["client-1"], started["worker-0"]]):
            victim.kill()
        real_watch(*arguments)

    monkeypatch.setattr(ProcessLauncher, "start", start)
    monkeypatch.setattr(measurement, "_watch", watch)
    spec = LOADED.replace(pairs=1, duration_s=1.0, link_rate_bps=0.0)
    run = measure(spec)
    assert run.status == "invalid"
    assert "1 background pairs failed, or ended before the others did" in "; ".join(run.reasons)
    assert "1 workers of the interference had ended before the pairs did" in "; ".join(run.reasons)
    assert run.background_flows["status"].to_list() == ["failed", "ok"]
    assert run.background_flows["error"][0] == (
        "its client ended before the pairs that are measured: ended by signal 9"
    )
    assert run.flows["status"].to_list() == ["ok"]
