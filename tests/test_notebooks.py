"""The experiments' notebooks run as they stand, where this machine can do what their parameters ask for."""

import os
import subprocess
import sys

from pairlab import paths
from pairlab.collection import load_runs
from tests.conftest import need


def test_every_experiment_runs_as_it_stands_and_stores_its_run(runs_dir, clean_host):
    need("netns")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval-lax", str(paths.EXPERIMENTS)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, cwd=paths.ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert load_runs().index["experiment"].nunique() == len(list(paths.EXPERIMENTS.glob("*.ipynb")))
