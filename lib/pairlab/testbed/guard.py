"""A guard: a process that tidies up when we are gone, however we went."""

import contextlib
import os
import subprocess
from collections.abc import Iterator

from pairlab.testbed import environment


@contextlib.contextmanager
def guarded(script: str, *arguments: str) -> Iterator[None]:
    """Runs that shell script, with these arguments, when we are dead, or at the latest when the block is left.

    Then the kernel closes our end of its pipe. On a way out without accident the block does itself what the script
    would, so that it finds nothing left to do. Raises OSError where no process can be started.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; {script}", "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,  # ours may be a pipe, whose reader waits for its end
        stderr=subprocess.DEVNULL,
        env={**environment.needed(), "PATH": os.defpath},
        cwd="/",
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()
