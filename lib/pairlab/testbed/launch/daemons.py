"""Daemons of a sandbox: started in the network namespace that is entered, and said to be ready by themselves."""

import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError

#: Programs that daemons run are in sbin, too, which a user's PATH often lacks.
_SBIN = ":/usr/local/sbin:/usr/sbin:/sbin"
#: As much of a daemon's log as says why it ended.
_LAST_BYTES = 2000
#: How often its output is looked at while words in it are awaited.
_LOOK_EVERY_S = 0.05


def in_memory(directory: Path) -> None:
    """Puts a file system in memory there, for the sandbox only, with which it ends."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(directory)], check=True)


class Daemon:
    """One that was started. name: what it is called in messages. environment: variables that it has besides ours.

    directory: of its log and its temporary files; it is where it runs, as some write files where they are.
    """

    def __init__(self, name: str, argv: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None):
        self.name = name
        self._log = directory / "log"
        self._ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._ready.bind(str(directory / "ready"))
        variables = {
            **os.environ,
            **(environment or {}),
            "PATH": os.environ.get("PATH", os.defpath) + _SBIN,
            "NOTIFY_SOCKET": str(directory / "ready"),
            "TMPDIR": str(directory),  # a containerd that is killed for not answering writes its stacks there
        }
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._started = subprocess.Popen(
                argv,
                executable=os.path.abspath(argv[0]),
                env=variables,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        finally:
            os.close(log)
        self._process = os.pidfd_open(self._started.pid)

    def await_ready(self, deadline_s: float, caller: int | None) -> None:
        """Waits until it says that it is ready (sd_notify(3)). Raises TestbedError where it ends, or has not by then.

        deadline_s: of time.monotonic(). caller: a descriptor that can be read when nobody waits for this any more.
        """
        while True:
            left_s = deadline_s - time.monotonic()
            watched: list[Any] = [self._ready, self._process, *([] if caller is None else [caller])]
            found, _, _ = select.select(watched, [], [], max(0.0, left_s))
            if caller in found:
                raise TestbedError("nobody waits for the daemons any more")
            if self._ready in found and b"READY=1" in self._ready.recv(4096):
                return
            if self._process in found:
                raise TestbedError(self._ended())
            if left_s <= 0:
                raise TestbedError(f"{self.name} was not ready in time. Its last words: {self._last_words()}")

    def await_output(self, words: str, within_s: float) -> None:
        """Waits until it has printed these words. Raises TestbedError where it ends, or has not by then."""
        deadline_s = time.monotonic() + within_s
        while words not in self._log.read_text(errors="replace"):
            self.check()
            if time.monotonic() > deadline_s:
                raise TestbedError(
                    f"{self.name} did not say {words!r} within {within_s:g} s. Its last words: {self._last_words()}"
                )
            time.sleep(_LOOK_EVERY_S)

    def check(self) -> None:
        """Raises TestbedError where it has ended."""
        if select.select([self._process], [], [], 0)[0]:
            raise TestbedError(self._ended())

    def _ended(self) -> str:
        return f"{self.name} has ended. Its last words: {self._last_words()}"

    def _last_words(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:]) or "none"
