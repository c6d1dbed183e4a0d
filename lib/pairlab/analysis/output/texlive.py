"""What the paper needs of LaTeX, and which of Debian's packages have it: named here for all messages."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pairlab.errors import PairlabError

PACKAGES = (
    "latexmk",
    "texlive-latex-recommended",
    "texlive-pictures",
    "texlive-publishers",
    "texlive-science",
)
REMEDY = f"sudo apt-get install {' '.join(PACKAGES)}"

#: LaTeX that waits or loops would else never end; the paper takes a twentieth of this.
WITHIN_S = 600.0

_PROGRAMS = ("latexmk", "pdflatex", "kpsewhich")
_FILES = ("IEEEtran.cls", "siunitx.sty", "booktabs.sty", "pgf.sty")


def missing() -> list[str]:
    """The programs that are missing here; where there are all, the files of LaTeX's that are."""
    if programs := [name for name in _PROGRAMS if not shutil.which(name)]:
        return programs
    found = {Path(line).name for line in run(["kpsewhich", *_FILES])[1].splitlines()}
    return [name for name in _FILES if name not in found]


def run(
    command: Sequence[str], *, folder: Path | None = None, settings: dict[str, str] | None = None
) -> tuple[int, str]:
    """The exit status of a program of LaTeX's and what it printed.

    folder: where it runs; the current one if None. settings: environment variables besides. Raises PairlabError where
    it takes longer than WITHIN_S; then it is ended, with what it started.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | (settings or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that it can be ended with its children
    ) as process:
        try:
            printed = process.communicate(timeout=WITHIN_S)[0]
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PairlabError(f"{command[0]} did not end within {WITHIN_S:g} s") from None
            raise
    return process.returncode, printed
