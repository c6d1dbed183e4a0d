"""Experiments run as they stand, where this machine can do what they ask for."""

import pytest

from pairlab.base.caller import caller_with
from pairlab.batch import experiments, kernels
from pairlab.measurement.verdict import worth_retrying
from tests.conftest import mostly_whole, need_all_of
from tests.support.attempts import ATTEMPTS

#: What lets a run count on a machine that may be busy, of experiments that have it; and the shortest of windows.
BUSY = {"max_foreign_cpu": 1.0, "max_skew_s": 5.0}
SHORT_S = 1.0


@pytest.fixture(scope="module", autouse=True)
def _kernels():
    """Kernels are forked from one parent, as in a sweep; it is there before the first test looks at the host."""
    with kernels.kept() as parent:
        parent._start()
        yield


@pytest.mark.parametrize("name", mostly_whole(experiments.notebooks(), but=["fct"]))
def test_an_experiment_runs_as_it_stands_and_stores_its_run(name, runs_dir, clean_host):
    need_all_of(experiments.spec_of(name, {}))
    with caller_with(attempts=ATTEMPTS):
        known = experiments.defaults(name)
        asked = {each: value for each, value in BUSY.items() if each in known}
        if known.get("duration_s") == 2.0:
            asked["duration_s"] = SHORT_S
        run = experiments.run(name, asked)
    # On a virtual machine, throughput may change its level for minutes: found, and no fault of the notebook.
    assert run.status == "ok" or worth_retrying(run), run.reasons
    assert run.spec.experiment == name
    assert runs_dir in run.path.parents
    assert (run.path / "notebook.ipynb").exists()
