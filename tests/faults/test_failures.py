"""Failures are results: what breaks in a measurement is in its record, and a sweep goes on, or stops as configured.

Real namespaces and traffic, and one process among them killed.
"""

import psutil
import pytest
import yaml

from pairlab import Spec, load_runs, measure, store
from pairlab.batch import runner
from pairlab.measurement import measure as measurement
from tests.conftest import need
from tests.support.disturbances import tools

PAIRS = 50


def test_one_client_of_fifty_that_dies_is_a_failed_flow_in_a_run_that_says_so(
    runs_dir, clean_host, monkeypatch, record_property
):
    need("netns", workload="flowgen")
    real_ready, real_watch = measurement.get_ready, measurement._watch
    found, killed = [], []

    def get_ready(*arguments):
        """Finds one client before any sends: to look at all processes takes long beside 50 flows."""
        servers, clients, gate = real_ready(*arguments)
        found.extend(tools([clients[PAIRS // 2]]))
        return servers, clients, gate

    def watch(*arguments):
        """Kills it as soon as it sends."""
        (victim,) = found
        while victim.status() == psutil.STATUS_TRACING_STOP:
            pass  # its launcher is about to release it
        victim.kill()
        killed.append(victim.pid)
        real_watch(*arguments)

    monkeypatch.setattr(measurement, "get_ready", get_ready)
    monkeypatch.setattr(measurement, "_watch", watch)
    spec = Spec(pairs=PAIRS, workload="flowgen", duration_s=2, max_skew_s=2)
    run = measure(spec)
    assert killed
    failed = run.flows[run.flows["status"] != "ok"]
    assert len(run.flows) == PAIRS
    assert len(failed) == run.failed_flows == 1, list(failed["error"])
    assert "SIGKILL" in failed["error"].iloc[0] or "signal 9" in failed["error"].iloc[0]
    assert failed["throughput_bps"].isna().all()
    assert (run.flows.loc[run.flows["status"] == "ok", "throughput_bps"] > 0).all()
    assert f"1 of {PAIRS} flows failed" in str(run)
    stored = load_runs().runs[0]
    assert (stored.status, stored.reasons, stored.failed_flows) == (run.status, run.reasons, 1)
    record_property("failed flows, of one client of 50 killed", run.failed_flows)
    record_property("status of that run", run.status)


@pytest.mark.parametrize("on_failure", ["continue", "stop"])
def test_a_sandbox_that_dies_is_a_failed_cell_and_the_sweep_goes_on_or_stops_as_configured(
    runs_dir, clean_host, tmp_path, monkeypatch, on_failure
):
    need("netns", workload="flowgen")
    file = tmp_path / "three.yaml"
    grid = {"workload": "flowgen", "pairs": [1, 2, 3], "duration_s": 0.5, "max_skew_s": 2}
    file.write_text(yaml.safe_dump({"name": "three", "on_failure": on_failure, "experiments": {"throughput": grid}}))
    plan = runner.load(file)
    first, *others = runner.cells(plan)
    real = measurement._watch

    def watch(bed, *rest):
        if bed.spec == first:
            sandbox = [each for each in psutil.Process().children() if "pairlab.testbed.netns.agent" in each.cmdline()]
            sandbox[0].kill()
        real(bed, *rest)

    monkeypatch.setattr(measurement, "_watch", watch)
    tally = runner.run(plan, execute=measure)
    assert store.find(first).status == "failed"
    assert tally.not_done[0] == f"{first}: {store.find(first).reasons[0]}"
    assert tally.stopped is (on_failure == "stop")
    went_on = [spec for spec in others if store.find(spec)]
    assert went_on == ([] if tally.stopped else others)

    monkeypatch.setattr(measurement, "_watch", real)
    runner.run(plan, execute=measure, retry=True)
    assert {store.find(spec).status for spec in (first, *others)} <= {"ok", "invalid"}  # a busy host makes invalid ones
