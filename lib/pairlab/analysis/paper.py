"""Builds paper/main.pdf from the values, tables and figures of one label."""

import os
import re
import subprocess
from pathlib import Path

from pairlab import paths
from pairlab.analysis import texlive
from pairlab.analysis.origin import write_atomically
from pairlab.errors import NoRuns, PairlabError, Unavailable

_ERROR = re.compile(r"^(?:! |\S+\.(?:tex|sty|pgf):\d+: ).*$", re.MULTILINE)


def build(label: str = "reference") -> Path:
    """Runs latexmk over paper/main.tex with the results of `label`, and returns the finished paper/main.pdf.

    LaTeX learns the label from paper/build/label.tex. With PAIRLAB_OUT the results are read from there and
    the PDF goes there. Raises Unavailable without LaTeX or a part of it, NoRuns without results of that label, and
    PairlabError with the first error of LaTeX and the path of its log.
    """
    if lacking := texlive.missing():
        told = f"the paper needs {', '.join(lacking)}, which LaTeX here lacks: {texlive.REMEDY}"
        raise Unavailable(f"{told} (figures as PDF and PNG do not need it)")
    place = paths.paper()
    if not any((place / "values" / label).glob("*.tex")):
        raise NoRuns(
            f"no results labelled {label!r} in {paths.shown(place / 'values')}: run the notebooks in"
            " notebooks/analysis over the runs first; the label is the sweep's name, else the runs folder's"
        )
    write_atomically(place / "build" / "label.tex", rf"\newcommand{{\runslabel}}{{{label}}}".encode() + b"\n")
    settings = {"TEXINPUTS": f".:{paths.PAPER}:", "max_print_line": "1000"}  # unbroken lines in the log
    command = ["latexmk", "-norc", "-r", str(paths.PAPER / "latexmkrc"), str(paths.PAPER / "main.tex")]
    done = subprocess.run(
        command,
        cwd=place,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    log = place / "build" / "main.log"
    if done.returncode:
        told = log.read_text(errors="replace") if log.exists() else done.stdout + done.stderr
        first = _ERROR.search(told)
        raise PairlabError(
            f"the paper was not built: {first[0] if first else 'latexmk failed before LaTeX began'}"
            f" (all of it: {paths.shown(log)})"
        )
    return write_atomically(place / "main.pdf", (place / "build" / "main.pdf").read_bytes())
