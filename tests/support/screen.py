"""A terminal for programs under test: what they drew on it, and what stood there in the end."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Colours and the like, which change no text: CSI sequences (ECMA-48) but for those that move the cursor or erase.
_LOOKS = re.compile(r"\x1b\[[0-9;?]*[a-ln-zB-IL-Z]|\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Shown:
    """drawn: every line, in all its states; left: the lines that stand there in the end; status: the program's."""

    status: int
    drawn: tuple[str, ...]
    left: list[str]


def on_a_terminal(
    command: Sequence[str],
    *,
    columns: int = 120,
    environment: Mapping[str, str] | None = None,
    within_s: float = 240,
    when: Mapping[str, Callable[[subprocess.Popen], None]] | None = None,
) -> Shown:
    """Runs the command with all three streams on a terminal of its own, where it heeds Ctrl-C. Raises TimeoutExpired.

    when: what to do, once, as soon as certain words were drawn.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
    waiting = dict(when or {})
    environment = {**os.environ, "TERM": "xterm", **(environment or {})}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    deadline = time.monotonic() + within_s
    with subprocess.Popen(
        command,
        stdin=its,
        stdout=its,
        stderr=its,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # see host.started
    ) as running:
        os.close(its)
        try:
            text = _all_of(ours, deadline, lambda text: _do(text, waiting, running))
            running.wait(max(0, deadline - time.monotonic()))
        finally:
            running.kill()
            os.close(ours)
    return Shown(running.returncode, tuple(re.split(r"[\r\n]+", _LOOKS.sub("", text))), _left(text))


def _all_of(terminal: int, deadline: float, tell: Callable[[str], None]) -> str:
    """What is drawn until nobody has the terminal open any more, or to the deadline."""
    drawn = b""
    with contextlib.suppress(OSError):  # EIO: nobody has
        while _is_there(terminal, deadline) and (part := os.read(terminal, 65536)):
            drawn += part
            tell(drawn.decode(errors="replace"))
    return drawn.decode(errors="replace")


def _is_there(terminal: int, deadline: float) -> bool:
    return bool(select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0])


def _do(text: str, waiting: dict[str, Callable[[subprocess.Popen], None]], running: subprocess.Popen) -> None:
    for words in [words for words in waiting if words in text]:
        waiting.pop(words)(running)


def _left(text: str) -> list[str]:
    """The screen in the end, as far as pairlab's programs use one: new lines, carriage returns, up, erase a line."""
    lines, row, column = [""], 0, 0
    for move, up, erase, plain in re.findall(r"([\r\n])|\x1b\[(\d*)A|(\x1b\[2K)|([^\r\n\x1b]+)", _LOOKS.sub("", text)):
        if move == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif move == "\r":
            column = 0
        elif erase:
            lines[row] = ""
        elif plain:
            lines[row] = lines[row][:column].ljust(column) + plain + lines[row][column + len(plain) :]
            column += len(plain)
        else:
            row = max(0, row - int(up or 1))
    return [line.rstrip() for line in lines if line.strip()]
