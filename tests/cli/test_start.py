"""How fast the command line is there."""

import subprocess
import sys

#: Each takes longer to import than all that `pairlab --help` does.
HEAVY = {"pandas", "numpy", "matplotlib", "papermill", "docker", "pydantic", "pyroute2", "IPython"}


def test_the_command_line_starts_without_what_only_its_commands_need():
    told = subprocess.run(
        [sys.executable, "-c", "import sys, pairlab.cli; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert HEAVY.isdisjoint(told.stdout.split())
