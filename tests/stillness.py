"""A machine that stood still: a test that fails in such a time is run once again, and the summary says so.

A virtual machine may be halted for seconds. Whatever a test gives a time fails then, and so does a run that has to be
valid; neither is a finding. What is slow for any other reason is none of this: the halts are seen by a process that
wakes twenty times a second on each CPU and, where it may (CAP_SYS_NICE), before all that others run.
"""

import contextlib
import functools
import os
import subprocess
import sys
import threading
import time

import pytest

BEAT_S = 0.05
#: Of a process that is served first, this long without a beat is no load of ours.
STILL_S = 0.3


class Heart:
    """Use as a context manager: in the block, a process watches the machine."""

    def __init__(self):
        self._halts = []
        self._read = b""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,  # its end is the process's
            stdout=subprocess.PIPE,
            env={},  # nothing in there says that it is the tests', which look for what they leave
            start_new_session=True,  # Ctrl-C is for the tests
        )
        assert self._process.stdout.readline() == b"beats\n"
        os.set_blocking(self._process.stdout.fileno(), False)
        return self

    def __exit__(self, *_):
        self._process.communicate()

    @property
    def pid(self):
        return self._process.pid

    def halts(self, since=0.0):
        """Those that were not over by then, as (begun, ended), in seconds of the monotonic clock."""
        time.sleep(2 * BEAT_S)  # the one that just ended is told with the next beat
        with contextlib.suppress(BlockingIOError):
            self._read += os.read(self._process.stdout.fileno(), 1 << 20)
        *whole, self._read = self._read.split(b"\n")
        self._halts += [tuple(map(float, line.split())) for line in whole]
        return [(begun, ended) for begun, ended in self._halts if ended > since]


class Again:
    """The plugin of pytest. What runs a test again is pytest-rerunfailures, as our condition tells it."""

    def __init__(self):
        self._begun = {}

    def pytest_sessionstart(self, session):
        held = contextlib.ExitStack()
        session.config.add_cleanup(held.close)
        self._heart = held.enter_context(Heart())

    def pytest_collection_modifyitems(self, config, items):
        if config.option.usepdb or config.option.reruns:  # then all that fail are run again, or none
            return
        for item in items:
            if isinstance(item, pytest.Function):
                condition = functools.partial(self._stood_still_in, item.nodeid)
                item.add_marker(pytest.mark.flaky(reruns=1, condition=condition))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._begun[item.nodeid] = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        item.user_properties.clear()  # what it measured when it failed, and is now run again

    def _stood_still_in(self, test, _error=None):
        return bool(self._heart.halts(self._begun[test]))

    def pytest_terminal_summary(self, terminalreporter):
        halts = self._heart.halts()
        if halts:
            longest_s = max(ended - begun for begun, ended in halts)
            terminalreporter.write_line(f"The machine stood still {len(halts)} times, for {longest_s:.1f} s at most.")


def main():
    """Writes the beginning and the end of each halt of each CPU, until there is nobody who reads."""
    for cpu in os.sched_getaffinity(0):
        threading.Thread(target=beat, args=(cpu,), daemon=True).start()
    os.write(1, b"beats\n")
    os.read(0, 1)
    os._exit(0)


def beat(cpu):
    """On that CPU alone: a host may halt one and run the other."""
    os.sched_setaffinity(0, {cpu})
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    last = time.monotonic()
    while True:
        time.sleep(BEAT_S)
        now = time.monotonic()
        if now - last > STILL_S:
            os.write(1, f"{last} {now}\n".encode())
        last = now


if __name__ == "__main__":
    main()
