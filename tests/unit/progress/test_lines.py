"""Progress where nobody looks at it live."""

import subprocess
import sys

from pairlab.progress import automatic


def test_in_a_log_stands_one_line_for_each_phase(capsys):
    with automatic() as progress:
        for done in range(51):
            progress("bringing up", done, 50)
        progress("measuring (s)", 0, 10)
        progress("measuring (s)", 0.5, 10)
        progress("taking down", 0, 0)
    assert capsys.readouterr() == ("", "pairlab: bringing up (50)\npairlab: measuring (10 s)\npairlab: taking down\n")


def test_a_program_whose_errors_are_closed_works_all_the_same():
    script = "from pairlab.progress import automatic\nwith automatic() as progress: progress('measuring', 0, 0)"
    assert subprocess.run(["sh", "-c", f'exec "$0" -c "{script}" 2>&-', sys.executable], check=False).returncode == 0
