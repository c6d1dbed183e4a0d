"""A watchdog: a process that cleans up when this one has ended, however it ended."""

import contextlib
import os
import subprocess
from collections.abc import Iterator

from pairlab.testbed.cleanup import child_environment


@contextlib.contextmanager
def guarded(script: str, *arguments: str) -> Iterator[None]:
    """Runs that shell script, with these arguments, when this process is dead, or else when the block is left.

    In both cases our end of its pipe is closed. The block normally does itself what the script would do, so that it
    finds nothing left. Raises OSError where no process can be started.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; {script}", "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,  # ours may be a pipe whose reader waits for its end
        stderr=subprocess.DEVNULL,
        env={**child_environment.needed(), "PATH": os.defpath},
        cwd="/",
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()
