"""What is said while bars are shown."""

import sys

import pytest

from tests.support.screen import on_a_terminal

SAYS = """
import time
from pairlab.cli.terminal import out, say, steps
with steps(2, "cells", 10.0) as shown:
    for done in range(2):
        shown.phase("measuring (s)", 0.5, 1.0)
        time.sleep(0.6)
        say("waiting for process 7")
        out.print("a result")
        shown.reached(done + 1, 2)
"""


def test_words_beside_the_results_stand_above_the_bars_as_results_do(tmp_path):
    shown = on_a_terminal([sys.executable, "-c", SAYS])
    assert shown.status == 0
    assert shown.left == 2 * ["pairlab: waiting for process 7", "a result"]


@pytest.mark.whole
def test_words_beside_the_results_go_where_errors_go(tmp_path):
    said = tmp_path / "said"
    shown = on_a_terminal(["sh", "-c", 'exec "$0" -c "$1" 2> "$2"', sys.executable, SAYS, str(said)])
    assert shown.left == 2 * ["a result"]
    assert said.read_text() == 2 * "pairlab: waiting for process 7\n"
