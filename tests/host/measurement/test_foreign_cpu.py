"""CPU time of others, in the ways in which it could go unseen: each makes the run invalid, by the check that sees it.

Every load would take all cores. A measurement beside it is of a machine that others use, too.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import threading

import pytest

from pairlab import Spec, measure
from tests.conftest import need
from tests.support.disturbances import BUSY, UNNOTICED, load

MEASURE = """
import sys
from pathlib import Path
from pairlab import Spec, measure
spec = Spec(workload="flowgen", pairs=2, duration_s=2.0, max_skew_s=5, max_foreign_cpu=0.02)
run = measure(spec, root=Path(sys.argv[1]))
print(run.status, *(run.checks[name] for name in ("foreign_cpu", "hidden_cpu")), *run.reasons, sep="|")
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("script", "check", "words"),
    [(BUSY, "foreign_cpu", "other processes used"), (UNNOTICED, "hidden_cpu", "something that cannot be seen")],
    ids=["children of the process that measures", "processes nobody waits for"],
)
def test_load_that_no_living_stranger_accounts_for_is_found(script, check, words, runs_dir, record_property):
    need("netns")
    with load(script):
        run = measure(Spec(workload="flowgen", pairs=2, duration_s=2.0, max_skew_s=5, max_foreign_cpu=0.02))
    assert run.status == "invalid"
    assert any(words in reason for reason in run.reasons), run.reasons
    record_property(f"{check} found beside one busy process for each CPU, share", run.checks[check])


def test_threads_of_the_process_that_measures_count_too(runs_dir):
    need("netns")
    done, block = threading.Event(), bytes(1 << 20)

    def work():
        while not done.is_set():
            hashlib.sha256(block)  # without the interpreter's lock: threads that hold it make this run take 15 s

    threads = [threading.Thread(target=work) for _ in range(2)]
    try:
        for each in threads:
            each.start()
        asked = Spec(workload="flowgen", duration_s=2.0, max_skew_s=5, max_foreign_cpu=0.2 / os.cpu_count())
        run = measure(asked)
    finally:
        done.set()
        for each in threads:
            each.join()
    assert run.status == "invalid"
    assert any("the process that measures used" in reason for reason in run.reasons), run.reasons


def test_load_outside_of_pairlabs_pid_namespace_is_found(runs_dir):
    need("netns")
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root and unshare, to start pairlab in a PID namespace")
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", MEASURE]
    with load(BUSY):
        done = subprocess.run([*inside, str(runs_dir)], capture_output=True, text=True, check=True)
    status, _, hidden, *reasons = done.stdout.strip().split("|")
    assert status == "invalid"
    assert float(hidden) > 0.02
    assert any("something that cannot be seen from here used" in reason for reason in reasons), reasons
