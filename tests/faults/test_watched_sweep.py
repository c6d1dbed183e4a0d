"""The sweep board beside a sweep that another process really measures, kills and restarts included.

Promise: the board shows the sweep as it is, and stands in nobody's way.
"""

import subprocess
import sys
import time

import pytest

from pairlab.batch.watcher import Watcher
from pairlab.errors import NoRuns
from tests.conftest import need

#: Its cells last so long that, when the end of the first is seen three seconds late, the sweep still runs.
SWEEP = """
name: beside
repetitions: 3
experiments:
  throughput: {driver: bridge, pairs: 1, workload: flowgen, duration_s: 2, interval_s: 0.5, max_skew_s: 30,
               max_foreign_cpu: 1.0}
"""
#: How long each step may take on a host that others use.
SOON_S = 240.0


@pytest.fixture
def sweeping(runs_dir, tmp_path):
    """Starts `pairlab sweep` as its user does; what still runs in the end is killed."""
    file = tmp_path / "beside.yaml"
    file.write_text(SWEEP)
    command = [sys.executable, "-c", "from pairlab import cli; cli.main()", "sweep", str(file)]
    begun = []

    def sweeping():
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return begun[-1]

    yield sweeping
    for process in begun:
        process.kill()
        process.communicate()


def until(watcher, there):
    """The board as soon as it is so."""
    deadline, board = time.monotonic() + SOON_S, None
    while time.monotonic() < deadline:
        try:
            board = watcher.board()
        except NoRuns:  # its process is still starting
            board = None
        if board and there(board):
            return board
        time.sleep(0.1)
    raise AssertionError(f"not so within {SOON_S} s: {board}")


def test_beside_a_sweep_that_is_killed_and_started_again_the_board_tells_how_it_is(sweeping):
    need("netns")
    watcher = Watcher("beside")
    first = sweeping()
    board = until(watcher, lambda board: board.count.left < 3)
    assert (board.state, board.start.pid) == ("running", first.pid)
    first.kill()
    first.wait()
    board = watcher.board()
    assert board.state in ("not running", "complete")
    ended = 3 - board.count.left
    assert ended >= 1

    second = sweeping()
    board = until(watcher, lambda board: board.start.pid == second.pid)
    assert 3 - board.count.left >= ended  # nothing that was measured is lost
    board = until(watcher, lambda board: board.complete)
    assert second.wait(SOON_S) == (0 if board.good else 1), second.stdout.read()
    assert (board.count.left, board.damaged) == (0, ())
    assert [result.cell.split("repetition ")[1][0] for result in board.newest] == ["2", "1", "0"]
