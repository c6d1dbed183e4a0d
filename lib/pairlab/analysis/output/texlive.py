"""The parts of LaTeX that the paper needs, and their Debian packages, for all messages."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pairlab.errors import PairlabError

PACKAGES = ("latexmk", "texlive-latex-recommended", "texlive-pictures", "texlive-publishers", "texlive-science")
REMEDY = f"sudo apt-get install {' '.join(PACKAGES)}"

#: The timeout of LaTeX, which may wait or loop; the paper takes a twentieth of this.
WITHIN_S = 600.0

_PROGRAMS = ("latexmk", "pdflatex", "kpsewhich")
_FILES = ("IEEEtran.cls", "siunitx.sty", "booktabs.sty", "pgf.sty")


def missing() -> list[str]:
    """The missing programs; if there are none, the missing files of LaTeX."""
    if programs := [name for name in _PROGRAMS if not shutil.which(name)]:
        return programs
    present = {Path(line).name for line in run(["kpsewhich", *_FILES])[1].splitlines()}
    return [name for name in _FILES if name not in present]


def run(
    command: Sequence[str], *, folder: Path | None = None, settings: dict[str, str] | None = None
) -> tuple[int, str]:
    """The exit status and output of a program of LaTeX.

    folder: the working directory; None: the current one. settings: further environment variables. Raises PairlabError
    if it takes longer than WITHIN_S; its process group is killed then.
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
        start_new_session=True,  # so that it can be killed with its children
    ) as process:
        try:
            printed = process.communicate(timeout=WITHIN_S)[0]
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PairlabError(f"{command[0]} did not end within {WITHIN_S:g} s") from None
            raise
    return process.returncode, printed
