"""What the paper needs of LaTeX, and which of Debian's packages have it: named here for all messages."""

import shutil
import subprocess
from pathlib import Path

PACKAGES = (
    "latexmk",
    "texlive-latex-recommended",
    "texlive-pictures",
    "texlive-publishers",
    "texlive-science",
)
REMEDY = f"sudo apt-get install {' '.join(PACKAGES)}"

_PROGRAMS = ("latexmk", "pdflatex", "kpsewhich")
_FILES = ("IEEEtran.cls", "siunitx.sty", "booktabs.sty", "pgf.sty")


def missing() -> list[str]:
    """The programs that are missing here; where there are all, the files of LaTeX's that are."""
    if programs := [name for name in _PROGRAMS if not shutil.which(name)]:
        return programs
    done = subprocess.run(["kpsewhich", *_FILES], capture_output=True, text=True, check=False)
    found = {Path(line).name for line in done.stdout.splitlines()}
    return [name for name in _FILES if name not in found]
