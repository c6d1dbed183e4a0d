"""A test that fails while the machine stands still is run again; one that fails otherwise is not."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pairlab import paths
from tests import evidence
from tests.stillness import STILL_S, Heart

#: Fails whenever the file is not there, and makes it: run again, it passes. `halted`: what beats is stopped meanwhile.
TRIED = """
import os, signal, sys, time
from pathlib import Path
import psutil
from tests.stillness import STILL_S

def test_tried(record_property):
    record_property("tries", 1)
    (heart,) = psutil.Process().children()
    if {halted}:
        heart.send_signal(signal.SIGSTOP)
        time.sleep(2 * STILL_S)
        heart.send_signal(signal.SIGCONT)
    tried = Path(__file__).with_name("tried")
    if {always} or not tried.exists():
        tried.touch()
        raise AssertionError("too late")
"""


@pytest.fixture
def heart():
    with Heart() as heart:
        yield heart


def stopped(heart, for_s):
    os.kill(heart.pid, signal.SIGSTOP)
    begun = time.monotonic()
    time.sleep(for_s)
    os.kill(heart.pid, signal.SIGCONT)
    return begun, time.monotonic()


def test_a_halt_is_seen_with_its_time(heart):
    begun, ended = stopped(heart, 2 * STILL_S)
    halts = heart.halts(since=begun)
    assert any(low <= begun + STILL_S and ended - STILL_S <= high for low, high in halts)
    assert not heart.halts(since=time.monotonic())


def test_it_ends_with_whoever_reads_it():
    script = "import sys; from tests.stillness import Heart; print(Heart().__enter__().pid, flush=True); input()"
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=paths.ROOT) as reader:
        heart = psutil.Process(int(reader.stdout.readline()))
        reader.kill()
    heart.wait(timeout=30)


@pytest.mark.parametrize(
    ("halted", "always", "options", "told", "outcomes"),
    [
        (False, False, [], "1 failed", ["failed"]),
        (True, False, [], "1 passed, 1 rerun", ["failed", "passed"]),
        (True, True, [], "1 failed, 1 rerun", ["failed", "failed"]),
        (False, False, ["--reruns", "1", "--max-suite-reruns", "1"], "1 passed, 1 rerun", ["failed", "passed"]),
        (False, False, ["--reruns", "1", "--max-suite-reruns", "0"], "1 failed", ["failed"]),
    ],
)
def test_a_test_is_run_again_once_and_only_for_a_halt_or_as_told(halted, always, options, told, outcomes, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from tests.stillness import Again\ndef pytest_configure(config): config.pluginmanager.register(Again())\n"
    )
    (tmp_path / "test_tried.py").write_text(TRIED.format(halted=halted, always=always))
    kept = ["--junit-xml", str(tmp_path / "kept.xml"), "-o", "junit_family=xunit1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rR", *options, *kept, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(paths.ROOT)},
        capture_output=True,
        text=True,
    )
    assert re.search(rf"= {told} in ", done.stdout.splitlines()[-1]), done.stdout
    assert ("The machine stood still" in done.stdout) or not halted
    tries = list(evidence.of_junit(tmp_path / "kept.xml"))
    assert [each.outcome for each in tries] == outcomes
    assert [each.figures for each in tries] == [{"tries": [1]}] * len(outcomes)
