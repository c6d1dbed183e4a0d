"""Reports of a notebook's kernel to the process that executes the notebook: phases, and measured runs.

A report is a datagram with a JSON object of one key, like a measuring subprocess's (measurement/in_subprocess):
{"phase": [name, done, total]} or {"run": [key, spec in words, path]}. Reporting a phase never blocks: a report without
a receiver, or with a slow one, is lost.
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

from pairlab.base.caller import caller, caller_with
from pairlab.testbed.contracts import Progress, no_progress

_LARGEST = 1 << 16  # bytes of one report
_PHASE_CHARACTERS = 300  # of a name


@dataclass
class Reports:
    """Received reports. progress: called with each phase. runs: the spec in words and the path, by the spec's key."""

    progress: Progress = no_progress
    runs: dict[str, tuple[str, Path]] = field(default_factory=dict)


def wanted() -> bool:
    """Whether the parent process receives reports."""
    return bool(caller().report_to)


def report_phase(phase: str, done: float, total: float) -> None:
    """A Progress that reports to the parent process."""
    _send(socket.MSG_DONTWAIT, phase=[phase[:_PHASE_CHARACTERS], done, total])


def report_run(key: str, words: str, path: Path) -> None:
    """Reports a run, measured or from the store, if there is a receiver."""
    if wanted():
        _send(0, run=[key, words, str(path)])


def _send(flags: int, **report: Any) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, contextlib.suppress(OSError):
        line.sendto(json.dumps(report).encode(), flags, caller().report_to)


@contextlib.contextmanager
def receiving(folder: Path, reports: Reports) -> Iterator[None]:
    """Receives reports of processes that are started in the block, in a thread. folder: a private one."""
    path = str(folder / "reports")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(path)
        receiver = threading.Thread(target=_receive, args=(line, reports), name="reports", daemon=True)
        receiver.start()
        try:
            with caller_with(report_to=path):
                yield
        finally:
            line.shutdown(socket.SHUT_RD)  # the thread still reads the reports that have arrived
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
