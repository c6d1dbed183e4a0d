"""What else runs on the host, of this host's own processes."""

import subprocess
import sys

import pytest

BURN = """
import time
while time.process_time() < {seconds}:
    pass
"""
#: A grandchild whose parent has ended: somebody else's, as far as the kernel knows. Prints its pid.
ORPHAN = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.DEVNULL, start_new_session=True).pid)
"""
#: Prints what others, and what this process and its own have spent, each time after that came to its end. In the moment
#: of its end nobody has an orphan's time; then it is its new parent's, or its own yet where that waits for nobody.
LOOKER = """
import subprocess, sys, time
from pairlab.testbed.host import foreign_load as watch
burn, orphan = sys.argv[1:]
def run(*argv):
    pids = subprocess.run([sys.executable, "-c", *argv], check=True, capture_output=True, text=True).stdout.split()
    deadline = time.monotonic() + 5
    while any((watch.PROC / pid).exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    entries = dict(watch._entries(watch.PROC))
    ours = watch._ours(entries, (), watch.PROC)
    return watch._foreign_s(entries, ours), sum(entries[pid].cpu_s for pid in ours)
print(*run("pass"), *run(burn), *run(orphan, burn))
"""


@pytest.mark.ci
def test_on_this_host_an_orphan_is_foreign_and_a_child_of_ours_is_not():
    """Looked at from the process that makes both, as the one under which the tests run is ours here."""
    argv = [sys.executable, "-c", LOOKER, BURN.format(seconds=1.0), ORPHAN]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    numbers = [float(word) for word in done.stdout.split()]
    foreign, ours = numbers[::2], numbers[1::2]
    assert ours[1] - ours[0] > 0.9  # the child burned a second
    assert foreign[2] - foreign[1] > 0.9  # so did the orphan
    assert ours[2] - ours[1] < 0.9
