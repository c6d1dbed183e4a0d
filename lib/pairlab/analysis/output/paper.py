"""Builds paper/main.pdf and report.pdf from the values, tables and figures of one label, none older than its runs."""

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
    """Runs latexmk over paper/report.tex and paper/main.tex with the results of `label`; returns paper/main.pdf.

    The report has every verdict, and stands beside the paper as paper/report.pdf.
    runs: all runs of the label (of the `sweep`, if named), or their folder. Each value file, table and figure that the
    documents read must have been made of just these; without `runs`, this is not checked. LaTeX reads the label from
    paper/build/label.tex, with the digest of the inputs (`inputs_digest`), which becomes MadeOf in the PDFs' document
    information. With PAIRLAB_OUT the results are read from there and the PDFs are written there.

    Raises Unavailable without LaTeX or a part of it, NoRuns without results of that label, OutOfDate naming the files
    made of other runs and their notebooks, and PairlabError with the first error of LaTeX, or its timeout, and the path
    of its log. Then both PDFs are unchanged.
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
    documents = _documents(label)
    if runs is not None:  # before LaTeX, whose error over a new key would hide that the file is old
        used = (name for document in documents for name in _USED.findall(document.read_text(encoding="utf-8")))
        named = (place / "values" / label / f"{name}.tex" for name in used)
        _check_current({file for file in named if file.exists()}, runs)
    defined = rf"\newcommand{{\runslabel}}{{{label}}}\newcommand{{\madeof}}{{{inputs_digest(label)}}}" + "\n"
    write_atomically(place / "build" / "label.tex", defined.encode())
    for document in documents:
        _typeset(document, place)
    if runs is not None:
        _check_current({file for document in documents for file in _read_by_latex(document, place, label)}, runs)
    for document in documents:
        built = write_atomically(
            place / f"{document.stem}.pdf", (place / "build" / f"{document.stem}.pdf").read_bytes()
        )
    return built


def _documents(label: str) -> list[Path]:
    """The report, where there are verdicts to report, and then the paper."""
    judged = (paths.paper() / "tables" / label / "claims.tex").exists()
    return [*([paths.PAPER / "report.tex"] if judged else []), _main()]


def _main() -> Path:
    """The paper: the study's own paper/main.tex, or the one that comes with pairlab."""
    own = paths.STUDY / "paper" / "main.tex"
    return own if paths.STUDY != paths.ROOT and own.exists() else paths.PAPER / "main.tex"


def _typeset(document: Path, place: Path) -> None:
    inputs = f".:{document.parent}:{paths.PAPER}:"
    settings = {"TEXINPUTS": inputs, "max_print_line": "1000"}  # unbroken lines in the log
    command = ["latexmk", "-norc", "-r", str(paths.PAPER / "latexmkrc"), str(document)]
    log = place / "build" / f"{document.stem}.log"
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


def inputs_digest(label: str) -> str:
    """A digest of all inputs of a paper with results of that label, by which an old PDF is recognised.

    A figure counts by its SVG, the only form of it in git.
    """
    place, digest = paths.paper(), hashlib.sha256()
    sources = {f"paper/{document.name}": document for document in _documents(label)}
    sources["paper/pairlab.sty"] = paths.PAPER / "pairlab.sty"
    for folder in (place / "values" / label, place / "tables" / label, paths.figures() / label):
        results = (file for file in folder.glob("*") if file.suffix in (".tex", ".svg"))
        sources |= {f"{folder.parent.name}/{file.name}": file for file in results}
    for name, file in sorted(sources.items()):  # by names that are the same in every checkout
        digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _read_by_latex(document: Path, place: Path, label: str) -> list[Path]:
    """The results of the label that LaTeX read for a document, by its record."""
    folders = [place / "values" / label, place / "tables" / label, place.parent / "figures" / label]
    folders = [folder.resolve() for folder in folders]
    recorded = (place / "build" / f"{document.stem}.fls").read_text(errors="replace").splitlines()
    read = {(place / line[6:]).resolve() for line in recorded if line.startswith("INPUT ")}
    return sorted(file for file in read if file.parent in folders)


def _check_current(files: Iterable[Path], runs: Runs) -> None:
    old = []
    for file in sorted(files):
        stamp = stamp_of(file)
        if stamp is None or stamp.digest != digest_of(runs, stamp.experiments):
            old.append(f"{file} ({_maker(file)})")
    if old:
        raise OutOfDate(
            f"the paper was not built: {len(old)} of its results were made of other runs than there are now. Run the"
            f" notebooks that make them over these runs, or all with `pairlab report`: {', '.join(old)}"
        )


def _maker(file: Path) -> str:
    """The analysis notebook of a result: the name of values is the notebook's, other names begin with its topic."""
    notebooks = sorted(paths.beside("notebooks/analysis", "*.ipynb"), key=lambda path: -len(path.stem))
    for notebook in notebooks:
        if file.stem == notebook.stem or f"{file.stem}-".startswith(f"{paths.notebook_name(notebook)}-"):
            return paths.from_root(notebook)
    return "by a notebook in notebooks/analysis"
