"""Bad input: whole experiments, in folders of each hostile name: no shell reads it, and they work."""

import os
import subprocess
import sys

import pytest

from pairlab import paths, store
from tests.conftest import mostly_whole, need
from tests.support import hostile

# One run takes seconds, so most names are in one.
NAMES = {"all": hostile.ALL, "option": hostile.NAMES["option"], "not UTF-8": hostile.NAMES["not UTF-8"]}


@pytest.mark.whole
@pytest.mark.parametrize("title", mostly_whole(NAMES, but=["all"]))
def test_an_experiment_runs_from_a_checkout_into_runs_that_both_have_hostile_names(title, tmp_path, monkeypatch):
    need("netns")
    canary = hostile.Canary(tmp_path, monkeypatch)
    root = tmp_path / f"checkout {NAMES[title]}"
    root.mkdir()
    for part in ("lib", "notebooks", "sweeps"):
        (root / part).symlink_to(paths.ROOT / part)
    runs = tmp_path / f"runs {NAMES[title]}"
    asked = {"workload": "flowgen", "driver": "host", "pairs": 1, "duration_s": 0.2, "interval_s": 0.1}
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from pairlab.cli import main; main()", "run", "throughput"),
            *(word for name, value in asked.items() for word in ("-p", name, str(value))),
        ],
        env={
            **os.environ,
            "PAIRLAB_STUDY": str(root),
            "PAIRLAB_RUNS": str(runs),
            "PYTHONPATH": str(paths.ROOT / "lib"),
        },
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert not canary.sang
    if title == "not UTF-8":  # in which no Parquet file can be
        assert "its name is not UTF-8" in done.stderr
        return
    (place,) = store.directories(runs)
    assert store.read(place).status != "failed"
    assert (place / "notebook.ipynb").exists()
