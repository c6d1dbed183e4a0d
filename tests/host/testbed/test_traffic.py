"""Traffic from a distribution: one client, servers on hosts of their own, and what the run says of each flow."""

import re
from pathlib import Path

import psutil
import pytest

from pairlab import Spec, measure, store
from pairlab.measurement import measure as measurement
from pairlab.model import fct, rates, summaries
from pairlab.testbed import plans
from tests.conftest import any_backend, need, need_all_of
from tests.support.attempts import measured, sound

ASKED = {
    "workload": "traffic",
    "flow_sizes": "prv2-1",
    "flows_per_pair": 64,
    "duration_s": 20.0,
    "pairs": 3,
    "max_skew_s": 5.0,
    "max_foreign_cpu": 1.0,
}


@pytest.fixture(scope="module", params=any_backend())
def simulated(request, tmp_path_factory):
    """Three servers: on the client's host, on a fast wire, and behind an uplink of 1 Gbit/s."""
    place = {"hosts": 3, "placement": "one-to-all", "uplink_rate_bps": 1e9, "limited_uplinks": 1}
    spec = Spec(**ASKED, **place, backend=request.param, driver="overlay", offered_load_bps=1e8, requests=1000)
    need_all_of(spec)
    return measured(spec, root=tmp_path_factory.mktemp("runs"))


@pytest.mark.whole
def test_one_client_asks_servers_on_all_hosts_and_each_flow_is_a_row(simulated):
    assert sound(simulated), simulated.reasons
    flows = store.read(simulated.path).flows
    assert len(flows) == 1000
    assert set(flows["client_host"]) == {"host-0"}
    assert dict(zip(flows["pair"], flows["server_host"], strict=True)) == {0: "host-0", 1: "host-1", 2: "host-2"}
    assert list(flows["request"]) == list(range(1000))
    moments = flows[["intended_start_s", "start_s", "first_byte_s", "completed_s"]]
    assert (moments.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    assert (flows["fct_s"] == flows["duration_s"]).all()
    assert (flows["intended_fct_s"] >= flows["fct_s"]).all()
    assert flows["client_cpu_s"].notna().sum() == 1
    assert flows["server_cpu_s"].notna().sum() == 3
    hosts = simulated.facts["network"]["hosts"]
    assert [[end["name"] for end in host["endpoints"]] for host in hosts] == [
        ["client-0", "server-0"],
        ["server-1"],
        ["server-2"],
    ]


@pytest.mark.whole
def test_only_the_last_hosts_uplink_is_slow(simulated):
    assert simulated.facts["network"]["underlay"]["limited_hosts"] == ["host-2"]
    large = simulated.flows[simulated.flows["size_bytes"] > 2e6]
    fastest_bps = (large["size_bytes"] * 8 / large["fct_s"]).groupby(large["pair"]).max()
    assert fastest_bps[2] < 1e9
    assert fastest_bps[2] < fastest_bps[[0, 1]].min()


def test_the_load_is_that_which_was_offered_and_links_carry_what_flows_report(simulated):
    # What was due in that time; a machine that stalls at its end has carried it a little later.
    due_s = simulated.flows["intended_start_s"].max() - simulated.flows["intended_start_s"].min()
    assert simulated.flows["size_bytes"].sum() * 8 / due_s == pytest.approx(1e8, rel=0.02)
    assert -0.1 < simulated.checks["load"] < 0.02
    assert simulated.checks["unbegun"] == 0.0
    assert simulated.checks["interface_bytes"] == pytest.approx(0, abs=0.01)
    assert rates.client_bps(simulated.flows).sum() == pytest.approx(1e8, rel=0.1)
    assert simulated.total_throughput_bps == pytest.approx(1e8, rel=0.1)
    assert "median FCT" in simulated.outcome
    assert summaries.default_measure([simulated]) == "fct_median_s"


@pytest.mark.whole
def test_a_load_above_an_uplink_is_told_before_and_makes_the_run_invalid(runs_dir):
    place = {"hosts": 2, "placement": "one-to-many", "uplink_rate_bps": 5e7}
    spec = Spec(**{**ASKED, "pairs": 1}, **place, driver="process", offered_load_bps=1e8, requests=300)
    need_all_of(spec)
    told = []
    run = measure(spec, progress=lambda phase, done, total: told.append(phase))
    expected = "100 Mbit/s of the offered load cross the uplink of host-0, which carries 47.8 Mbit/s of payload"
    assert told[0].startswith(expected), told[0]
    assert run.status == "invalid"
    assert "less than offered_load_bps: hosts or network are saturated" in run.reasons[0]


def test_requests_that_may_fall_behind_are_all_made_over_a_slow_uplink_and_the_run_counts(runs_dir):
    place = {"hosts": 2, "placement": "one-to-many", "uplink_rate_bps": 5e7}
    spec = Spec(**{**ASKED, "pairs": 1}, **place, driver="process", offered_load_bps=1e9, requests=600)
    spec = spec.replace(may_fall_behind=True)
    need_all_of(spec)
    told = []
    run = measured(spec, progress=lambda phase, done, total: told.append(phase))
    assert told[0].endswith("expect requests to fall behind")
    assert sound(run), run.reasons
    assert len(run.flows) == 600
    assert (run.flows["status"] == "ok").all()
    assert (run.checks["unbegun"], run.checks["incomplete"]) == (0.0, 0.0)
    due_s = run.flows["intended_start_s"].max() - run.flows["intended_start_s"].min()
    assert fct.all_s(run.flows) > 10 * due_s
    assert run.total_throughput_bps < 5e7
    assert run.checks["load"] == pytest.approx(run.total_throughput_bps / 1e9 - 1, abs=0.01)


def arrived_bytes(pid):
    """What came in over the link of that process's network namespace (proc(5))."""
    return int(re.search(r"eth0: *(\d+)", Path(f"/proc/{pid}/net/dev").read_text())[1])


@pytest.mark.whole
def test_flows_of_a_killed_server_failed_the_rest_counts_and_the_run_says_so(runs_dir, monkeypatch):
    need("netns", workload="traffic")
    real = measurement._watch

    def watch(bed, clients, *others):
        (server,) = (
            each for each in bed.launcher._processes.values() if each.slot.startswith("server-1.") and each.ready
        )
        (program,) = psutil.Process(server.pid).children()
        # Until flows are under way: a client that is still connecting ends without a report, for all of its servers.
        while arrived_bytes(clients[0].pid) < 1e6 and not clients[0].ended:
            bed.launcher.wait_ended(clients, 0.01)
        program.kill()
        real(bed, clients, *others)

    monkeypatch.setattr(measurement, "_watch", watch)
    run = measure(Spec(**ASKED, offered_load_bps=1e8, requests=1000))
    by_pair = run.flows.groupby("pair")["status"].value_counts().unstack(fill_value=0)
    assert by_pair.loc[1, "failed"] > 0
    assert list(by_pair.loc[[0, 2], "failed"]) == [0, 0]
    assert by_pair.to_numpy().sum() == 1000
    failed = run.flows[run.flows["status"] == "failed"]
    assert failed[["completed_s", "fct_s", "throughput_bps"]].isna().all(axis=None)
    assert set(failed["error"]) <= {
        f"flowgen: {why}" for why in ("Connection reset by peer", "Broken pipe", "Transport endpoint is not connected")
    }
    assert run.status == "invalid"
    assert any("1 clients or servers were killed" in reason for reason in run.reasons)


def test_requests_that_had_not_begun_in_time_are_told(runs_dir):
    need("netns", workload="traffic")
    asked = {**ASKED, "pairs": 1, "duration_s": 0.6, "flow_sizes": "fixed", "flows_per_pair": 1}
    run = measure(Spec(**asked, requests=10_000_000))
    assert run.status == "invalid"
    assert "of the requests had not begun within duration_s" in run.reasons[0]
    assert 0 < len(run.flows) < 10_000_000
    first_s, *_, last_but_one_s, _ = sorted(run.flows["intended_start_s"])  # one follows another
    assert last_but_one_s - first_s < 0.6


def test_only_one_client_is_built():
    plan = plans.layout(Spec(**ASKED, hosts=3, placement="one-to-all", driver="overlay"))
    assert [each.name for each in plan.endpoints] == ["client-0", "server-0", "server-1", "server-2"]
    assert plan.hosts_of_pairs == [("host-0", f"host-{server}") for server in range(3)]
