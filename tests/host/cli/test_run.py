"""`pairlab run` on a terminal, with a real measurement."""

import re
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.support.screen import on_a_terminal


@pytest.mark.whole
def test_on_a_terminal_the_phases_of_what_the_notebook_measures_are_seen(runs_dir, clean_host):
    need("netns")
    words = ["pairs=2", "duration_s=1.0", "workload=flowgen", "max_foreign_cpu=1.0", "max_skew_s=5.0"]
    parameters = [part for word in words for part in ("-p", *word.split("="))]
    pairlab = str(Path(sys.executable).with_name("pairlab"))
    shown = on_a_terminal([pairlab, "run", "throughput", *parameters])
    assert any("starting the notebook" in line for line in shown.drawn)
    assert any(re.search(r"━.* measuring [01](\.\d)?/1 s", line) for line in shown.drawn)
    first, *_, last = shown.left
    assert first.startswith("throughput: flowgen over bridge, 2 pairs, 1 s, repetition 0 (netns): ")
    assert last.startswith(f"stored in {runs_dir}"[:60])
