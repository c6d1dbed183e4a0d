import os
import subprocess
import sys

import pytest

from pairlab import paths

NOTEBOOK = paths.ANALYSES / "30-claims.ipynb"


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
