"""LaTeX on a document of a test's own, with the paper's package."""

import os
import subprocess

from pairlab import paths


def pdflatex(folder, name="main.tex"):
    """What one run did: ended at the first error, and within two minutes."""
    return subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", name],
        cwd=folder,
        env=os.environ | {"TEXINPUTS": f".:{paths.PAPER}:"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=120,
    )
