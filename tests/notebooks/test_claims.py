import os
import subprocess
import sys

import pytest

from pairlab import paths, store
from tests.support.executed import Executed
from tests.support.synthetic import ending

NOTEBOOK = paths.ANALYSES / "30-claims.ipynb"


@pytest.fixture
def only_fct(tmp_path):
    """One experiment, one backend, one driver."""
    for repetition in (0, 1, 2):
        for count in (10, 50):
            store.write(ending([0.1 + 0.001 * pair for pair in range(count)], repetition=repetition), tmp_path / "few")
    return tmp_path / "few"


@pytest.mark.whole
def test_the_notebook_makes_tables_and_values_of_two_backends(campaign, tmp_path):
    """By papermill's command line, from another folder, as anybody may execute it."""
    command = [sys.executable, "-m", "papermill", "-k", "python3", "--no-progress-bar", NOTEBOOK, "done.ipynb"]
    done = subprocess.run(
        [*command, "-p", "runs", campaign],
        env=os.environ | {"PAIRLAB_OUT": str(tmp_path / "out")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.tex")}
    names = ("tables/campaign/claims", "values/campaign/30-claims")
    assert made == {f"paper/{name}.tex" for name in names}


@pytest.mark.whole
def test_the_notebook_works_with_one_experiment_and_names_what_is_missing(only_fct, tmp_path):
    values = Executed("30-claims", only_fct, tmp_path).values("30-claims")
    assert r"\defineresult{claims/total-rises-bridge/netns/missing}{no runs of throughput}" in values
    assert r"\defineresult{claims/fct-p99-grows-bridge/netns-flowgen/needed}{10}" in values
