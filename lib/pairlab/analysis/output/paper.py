"""Builds paper/main.pdf from the values, tables and figures of one label, none older than the runs it shows."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from pairlab import paths
from pairlab.analysis.output import texlive
from pairlab.analysis.output.provenance import stamp_of, write_atomically
from pairlab.errors import NoRuns, OutOfDate, PairlabError, Unavailable
from pairlab.store.dataset import Runs, digest_of, load_runs

_USED = re.compile(r"^\s*\\use(?:found)?results\{([^}]+)\}", re.MULTILINE)
_ERROR = re.compile(r"^(?:! |\S+\.(?:tex|sty|pgf):\d+: ).*$", re.MULTILINE)


def build(label: str = "reference", *, runs: Runs | str | Path | None = None, sweep: str = "") -> Path:
    """Runs latexmk over paper/main.tex with the results of `label`, and returns the finished paper/main.pdf.

    runs: what the paper is to be of: all runs of the label (of the `sweep`, if named), or their folder. Each value
    file, table and figure that the paper reads must have been made of just these; without `runs`, that is not looked
    at. LaTeX learns the label from paper/build/label.tex, and what the paper is made of (`inputs_digest`), which is
    then MadeOf in the PDF's document information. With PAIRLAB_OUT the results are read from there and the PDF goes
    there.

    Raises Unavailable without LaTeX or a part of it, NoRuns without results of that label, OutOfDate naming the files
    made of other runs and the notebooks that make them, and PairlabError with the first error of LaTeX, or the time
    that it had, and the path of its log. Then paper/main.pdf stays as it was.
    """
    if runs is not None and not isinstance(runs, Runs):
        runs = load_runs(runs, sweep=sweep)
    if lacking := texlive.missing():
        needs = f"the paper needs {', '.join(lacking)}, which LaTeX here lacks: {texlive.REMEDY}"
        raise Unavailable(f"{needs} (figures as PDF and PNG do not need it)")
    place = paths.paper()
    if not any((place / "values" / label).glob("*.tex")):
        raise NoRuns(
            f"no results labelled {label!r} in {place / 'values'}: run the notebooks in"
            " notebooks/analysis over the runs first; the label is the sweep's name, else the runs folder's"
        )
    if runs is not None:  # before LaTeX, whose error over a key that is new would hide that the file is old
        main = (paths.PAPER / "main.tex").read_text(encoding="utf-8")
        named = (place / "values" / label / f"{name}.tex" for name in _USED.findall(main))
        _check_current([file for file in named if file.exists()], runs)
    known = rf"\newcommand{{\runslabel}}{{{label}}}\newcommand{{\madeof}}{{{inputs_digest(label)}}}" + "\n"
    write_atomically(place / "build" / "label.tex", known.encode())
    settings = {"TEXINPUTS": f".:{paths.PAPER}:", "max_print_line": "1000"}  # unbroken lines in the log
    command = ["latexmk", "-norc", "-r", str(paths.PAPER / "latexmkrc"), str(paths.PAPER / "main.tex")]
    log = place / "build" / "main.log"
    try:
        status, printed = texlive.run(command, folder=place, settings=settings)
    except PairlabError as error:
        raise PairlabError(f"the paper was not built: {error}; what it was doing: {log}") from None
    if status:
        printed = log.read_text(errors="replace") if log.exists() else printed
        first = _ERROR.search(printed)
        raise PairlabError(
            f"the paper was not built: {first[0] if first else 'latexmk failed before LaTeX began'} (all of it: {log})"
        )
    if runs is not None:
        _check_current(_read_by_latex(place, label), runs)
    return write_atomically(place / "main.pdf", (place / "build" / "main.pdf").read_bytes())


def inputs_digest(label: str) -> str:
    """A digest of all that a paper with results of that label can be made of: by it, a PDF tells whether it is old."""
    place, found = paths.paper(), hashlib.sha256()
    sources = {f"paper/{name}": paths.PAPER / name for name in ("main.tex", "pairlab.sty")}
    for folder in (place / "values" / label, place / "tables" / label, paths.figures() / label):
        made = (file for file in folder.glob("*") if file.suffix in (".tex", ".pgf"))
        sources |= {f"{folder.parent.name}/{file.name}": file for file in made}
    for name, file in sorted(sources.items()):  # by names that are the same in every checkout
        found.update(f"{name}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _read_by_latex(place: Path, label: str) -> list[Path]:
    """The results of the label that the paper was really made of, as LaTeX recorded them."""
    folders = [place / "values" / label, place / "tables" / label, place.parent / "figures" / label]
    folders = [folder.resolve() for folder in folders]
    recorded = (place / "build" / "main.fls").read_text(errors="replace").splitlines()
    read = {(place / line[6:]).resolve() for line in recorded if line.startswith("INPUT ")}
    return sorted(file for file in read if file.parent in folders)


def _check_current(files: Iterable[Path], runs: Runs) -> None:
    old = []
    for file in files:
        stamp = stamp_of(file)
        if stamp is None or stamp.digest != digest_of(runs, stamp.experiments):
            old.append(f"{file} ({_maker(file)})")
    if old:
        raise OutOfDate(
            f"the paper was not built: {len(old)} of its results were made of other runs than there are now. Run the"
            f" notebooks that make them over these runs, or all with `pairlab report`: {', '.join(old)}"
        )


def _maker(file: Path) -> str:
    """The analysis notebook that makes a result: its number is in the name of values, its topic begins other names."""
    notebooks = sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb"), key=lambda path: -len(path.stem))
    for notebook in notebooks:
        if file.stem == notebook.stem or f"{file.stem}-".startswith(f"{notebook.stem[3:]}-"):
            return paths.from_root(notebook)
    return f"by a notebook in {paths.from_root(paths.ANALYSES)}"
