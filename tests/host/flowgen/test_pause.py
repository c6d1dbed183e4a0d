"""flowgen pause."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, run, sleeps, until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pause_exits_cleanly_when_told_to(flowgen, start, number):
    process = start(flowgen, "pause")
    until(lambda: sleeps(process.pid), "pause to wait")
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 0


def test_pause_heeds_sigterm_as_process_1_for_which_the_kernel_discards_unhandled_signals(flowgen, start):
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or run(*namespace, "true").returncode != 0:
        pytest.skip("this host does not let us make a pid namespace (unshare --user --pid)")
    report = 'read pid rest < /proc/self/stat; echo $pid; exec "$0" pause'
    process = start(*namespace, "sh", "-c", report, flowgen, stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    until(lambda: sleeps(pid), "pause to wait")
    os.kill(pid, signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_pause_reaps_what_ends_under_it(flowgen, start):
    script = 'exec 3<&0; cat <&3 >/dev/null & echo $!; exec "$0" pause 3<&-'  # cat ends with our end of the pipe
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = start("sh", "-c", script, flowgen, **pipes)
    orphan = int(process.stdout.readline())
    until(lambda: sleeps(process.pid), "pause to wait")
    process.stdin.close()
    until(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan to be reaped")
    assert process.poll() is None


@pytest.fixture
def lifeline(tmp_path):
    path = tmp_path / "lifeline"
    os.mkfifo(path)
    return path


def test_pause_ends_when_the_last_of_those_that_hold_its_lifeline_has_let_go(flowgen, start, lifeline):
    ends = [os.open(lifeline, os.O_RDWR) for _ in range(2)]
    process = start(flowgen, "pause", "--lifeline", lifeline)
    until(lambda: sleeps(process.pid), "pause to wait")
    os.close(ends.pop())
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    os.close(ends.pop())
    assert process.wait(PATIENCE_S) == 0


def test_pause_reaps_and_heeds_signals_while_its_lifeline_is_held(flowgen, start, lifeline):
    end = os.open(lifeline, os.O_RDWR)
    script = 'sleep 0.1 & echo $!; exec "$0" pause --lifeline "$1"'
    process = start("sh", "-c", script, flowgen, lifeline, stdout=subprocess.PIPE, text=True)
    orphan = int(process.stdout.readline())
    until(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan to be reaped")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    os.close(end)


def test_pause_does_not_begin_when_those_it_was_to_wait_for_are_gone(flowgen, lifeline):
    done = run(flowgen, "pause", "--lifeline", lifeline)
    assert (done.returncode, "has no writer" in done.stderr) == (1, True)
    lifeline.unlink()
    done = run(flowgen, "pause", "--lifeline", lifeline)
    assert (done.returncode, "cannot open the lifeline" in done.stderr) == (1, True)
