"""Python processes that are there at once: forked from one that has imported pairlab, as notebooks' kernels are.

To start Python and import pairlab takes longer than most of what is killed in them; nothing else is done beforehand.
"""

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.reduction import DupFd

#: Imported before the first fork: what a script that measures imports.
IMPORTED = ("pairlab.measurement.measure", "pairlab.testbed.docker.backend", "pairlab.testbed.netns.backend", __name__)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(IMPORTED))


def start_parent() -> None:
    """Starts the process that the others are forked from; it stays until the tests end."""
    forkserver.ensure_running()


class Forked:
    """A script in a process of its own, in a session of its own, which heeds Ctrl-C; much as subprocess.Popen.

    stdout: a text file. Use as a context manager: leaving it waits for its end, and closes it.
    """

    def __init__(self, script: str, *arguments: object):
        reading, writing = os.pipe()
        self._stderr = os.memfd_create("stderr")
        words = [str(each) for each in arguments]
        self._process = _context.Process(
            target=_run, args=(script, words, dict(os.environ), _Descriptor(writing), _Descriptor(self._stderr))
        )
        self._process.start()
        self._returncode: int | None = None
        os.close(writing)
        self.pid = self._process.pid
        self.stdout = open(reading)  # noqa: SIM115  (closed by `close`)

    @property
    def returncode(self) -> int | None:
        """As of subprocess.Popen: negative where a signal ended it; None: it runs, or nobody has waited for its end."""
        return self._returncode

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired."""
        if (status := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired("a forked script", timeout or 0)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self._returncode is None:
            self._process.join(timeout)
            self._returncode = self._process.exitcode
        return self._returncode

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed, when it has ended. Raises subprocess.TimeoutExpired."""
        self.wait(timeout)  # it prints less than a pipe holds
        return self.stdout.read(), self.complaint()

    def complaint(self) -> str:
        """What it has written to stderr so far."""
        return os.pread(self._stderr, os.fstat(self._stderr).st_size, 0).decode(errors="replace")

    def close(self) -> None:
        """For when it has ended."""
        self.stdout.close()
        os.close(self._stderr)
        self._process.close()

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.close()


class _Descriptor:
    """A descriptor that a process is given as it is forked, which has it as a number."""

    def __init__(self, number: int):
        self._number = number

    def __reduce__(self) -> tuple:
        return _received, (DupFd(self._number),)


def _received(given) -> int:
    return given.detach()


def _run(script: str, words: list[str], environment: Mapping[str, str], stdout: int, stderr: int) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, own in ((1, stdout), (2, stderr)):
        os.dup2(own, number)
        os.close(own)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), write_through=True) for number in (1, 2)
    )
    sys.argv = ["-c", *words]
    os.environ.clear()
    os.environ.update(environment)
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
