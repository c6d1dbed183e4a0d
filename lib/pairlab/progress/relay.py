"""What a notebook's kernel reports to the process that executes the notebook: phases, and runs that it measured.

Each report is a datagram with a JSON object of one name, as those of a measuring subprocess are (measurement/
in_subprocess): {"phase": [name, done, total]} or {"run": [key, spec in words, path]}. Who reports a phase never waits:
if nobody receives any more, or not fast enough, it is lost.
"""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pairlab.base.caller import asking, caller
from pairlab.testbed.contracts import Progress, silent

_LARGEST = 1 << 16  # bytes of one report
_PHASE_CHARACTERS = 300  # of a name


@dataclass
class Reports:
    """What is received. progress: called with each phase. runs: by the spec's key, the spec in words, and the path."""

    progress: Progress = silent
    runs: dict[str, tuple[str, Path]] = field(default_factory=dict)


def wanted() -> bool:
    """Whether the process that started this one receives reports."""
    return bool(caller().report_to)


def report_phase(phase: str, done: float, total: float) -> None:
    """A Progress for the process that started this one."""
    _send(socket.MSG_DONTWAIT, phase=[phase[:_PHASE_CHARACTERS], done, total])


def report_run(key: str, words: str, path: Path) -> None:
    """Reports a run that was measured, or found in the store, where somebody receives that."""
    if wanted():
        _send(0, run=[key, words, str(path)])


def _send(flags: int, **report: Any) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, contextlib.suppress(OSError):
        line.sendto(json.dumps(report).encode(), flags, caller().report_to)


@contextlib.contextmanager
def receiving(folder: Path, reports: Reports) -> Iterator[None]:
    """In the block, receives what processes that are started in it report, in a thread. folder: a private one."""
    path = str(folder / "reports")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(path)
        receiver = threading.Thread(target=_receive, args=(line, reports), name="reports", daemon=True)
        receiver.start()
        try:
            with asking(report_to=path):
                yield
        finally:
            line.shutdown(socket.SHUT_RD)  # what has arrived is still read
            receiver.join()
            os.unlink(path)


def _receive(line: socket.socket, reports: Reports) -> None:
    while message := line.recv(_LARGEST):
        with contextlib.suppress(ValueError, TypeError):  # not from us
            match json.loads(message):
                case {"phase": [phase, done, total]}:
                    reports.progress(str(phase), float(done), float(total))
                case {"run": [key, words, place]}:
                    reports.runs[key] = str(words), Path(place)
