"""Failures are results: a cell whose sandbox is killed has failed, and the sweep goes on, or stops as configured."""

import psutil
import pytest
import yaml

from pairlab import measure, store
from pairlab.batch import runner
from pairlab.measurement import measure as measurement
from tests.conftest import need


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
