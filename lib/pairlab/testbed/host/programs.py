"""What programs of this host print of their version."""

import subprocess
from collections.abc import Sequence

from pairlab.testbed.cleanup import child_environment

#: A program that does not say its version within this time has none that we know.
_TIMEOUT_S = 5.0


def first_line(argv: Sequence[str]) -> str:
    """The first line that the command prints, to stdout or else to stderr; empty where it cannot be run."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            env=child_environment.needed(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((done.stdout + done.stderr).strip().splitlines()), "")
