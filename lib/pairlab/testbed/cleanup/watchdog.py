"""A watchdog: a process that cleans up when this one has ended, however it ended."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from pairlab.testbed.cleanup import child_environment
from pairlab.testbed.cleanup.forks import closed_in_forks

#: Makes a directory, or tells why it cannot, and becomes the shell that has the name as its argument. That one must go
#: on where nobody is left to read the name.
_MAKE_DIRECTORY = """
trap "" PIPE
made=$(mktemp -d "$1" 2>&1) || { echo "$made"; exit 1; }
exec /bin/sh -c 'echo "$1"; read -r _; '"$2" sh "$made"
"""


@contextlib.contextmanager
def guarded(script: str, *arguments: str) -> Iterator[None]:
    """Runs that shell script, with these arguments, when this process is dead, or else when the block is left.

    In both cases our end of its pipe is closed. The block normally does itself what the script would do, so that it
    finds nothing left. Raises OSError where no process can be started.
    """
    words = ["/bin/sh", "-c", f"read -r _; {script}", "sh", *arguments]
    with _started(words, stdout=subprocess.DEVNULL):  # ours may be a pipe whose reader waits for its end
        yield


@contextlib.contextmanager
def guarded_directory(script: str, prefix: str) -> Iterator[Path]:
    """A new directory that only this user may enter, and that script run as `guarded` does, its argument the directory.

    prefix: of its path. The watchdog makes it, so that we may be killed at any moment; and nobody knows its name before
    it exists. Raises OSError where it cannot be made.
    """
    words = ["/bin/sh", "-c", _MAKE_DIRECTORY, "sh", f"{prefix}XXXXXXXX", script]
    with _started(words, stdout=subprocess.PIPE) as process:
        assert process.stdout
        with process.stdout as output:
            told = os.fsdecode(output.readline()).rstrip("\n")
        if not told.startswith(prefix):
            raise OSError(told or "the watchdog that makes it was killed")
        yield Path(told)


@contextlib.contextmanager
def _started(words: Sequence[str], stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        words,
        bufsize=0,  # a buffer has a lock, which a thread may hold when another one forks
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**child_environment.needed(), "PATH": os.defpath},
        cwd="/",
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    assert process.stdin
    closed_in_forks(process.stdin)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
