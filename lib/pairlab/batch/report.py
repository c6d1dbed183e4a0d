"""report: the analysis notebooks whose data exist, over a set of runs, and the paper from their results."""

import ast
import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairlab import paths
from pairlab.analysis import question
from pairlab.analysis.comparison.findings import findings
from pairlab.analysis.output import formatting, latex, paper, provenance
from pairlab.analysis.output.measures import by_system
from pairlab.analysis.questions.throughput import TOTAL
from pairlab.base.atomic import make_directory
from pairlab.base.environment import setting
from pairlab.base.parameters_cell import syntax_trees
from pairlab.batch import kernels
from pairlab.batch.execute import execute
from pairlab.errors import BadInput, NoRuns, PairlabError, Unavailable
from pairlab.store.dataset import Runs, load_runs
from pairlab.testbed.contracts import Progress, no_progress

#: The analysis whose verdicts the paper is about.
CLAIMS = "claims"


@dataclass(frozen=True)
class Report:
    """The products of a report.

    figures, values, tables: folders of figures, and of numbers and tables for LaTeX. paper: the PDF, or None, with the
    reason in no_paper. account: the runs read and left out. findings: in sentences. summary: a short table. skipped:
    the analyses without data. failed: the analyses that stopped, and the paper, with reasons.
    """

    figures: Path
    values: Path
    tables: Path
    paper: Path | None
    no_paper: str
    account: str
    findings: str
    summary: str
    skipped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def analyses() -> dict[str, Path]:
    """The analysis notebooks by name, in notebooks/analysis: pairlab's own NN-name.ipynb, and the study's."""
    return {paths.notebook_name(path): path for path in paths.beside("notebooks/analysis", "*.ipynb")}


def experiments_of(notebook: Path) -> tuple[str, ...]:
    """The experiments that the code of an analysis notebook selects; empty: all.

    If the notebook has the name of one of them, only that one.
    """
    named: list[str] = []
    for node in itertools.chain.from_iterable(map(ast.walk, syntax_trees(notebook))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "ask" and node.args:
            topic = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            named += question.questions()[topic].experiments if topic in question.questions() else ()
        if isinstance(node, ast.keyword) and node.arg == "experiment":
            values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            constants = [value.value for value in values if isinstance(value, ast.Constant)]
            named += [value for value in constants if isinstance(value, str)]
    own = paths.notebook_name(notebook)
    return (own,) if own in named else tuple(dict.fromkeys(named))


@kernels.kept()
def make(
    runs: str | Path | None = None,
    sweep: str = "",
    *,
    notebooks: Sequence[Path] = (),
    need_paper: bool = False,
    progress: Progress = no_progress,
    tell: Callable[[str], None] = lambda text: None,
) -> Report:
    """Runs the analyses whose data exist over the runs below `runs`, then builds the paper.

    runs: a folder, as load_runs takes it. sweep: only its runs, or those of `sweep/backend`. notebooks: these analyses
    instead, anywhere on disk; their figures go beside them, and no paper is built. need_paper: raise the obstacle to
    the paper, such as a missing LaTeX, instead of reporting it. progress: called at the start of each step. tell:
    called at once with the runs read and the findings. Executed notebooks are stored beside their figures. A notebook
    that stops is listed in `failed`, and the others go on. Raises NoRuns, MixedHosts, and the error of a single
    notebook.
    """
    for notebook in notebooks:
        if not notebook.is_file():
            raise BadInput(f"no notebook {notebook.absolute()}: give the path of an analysis notebook (.ipynb)")
    dataset = load_runs(runs, sweep=sweep)
    folder = paths.from_root(dataset.root or paths.runs())
    origin = provenance.origin_of(dataset, dataset.root, sweep)
    account, sentences = provenance.what_was_read(dataset), findings(dataset)
    tell(f"{account}\n\n{sentences}".rstrip())
    chosen = list(notebooks)
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    with _output_beside(notebooks[0]) if notebooks else contextlib.nullcontext():
        place, tables, values = (
            folder / origin.label for folder in (paths.figures(), paths.paper() / "tables", paths.paper() / "values")
        )
    if not notebooks:
        measured = {run.spec.experiment for run in dataset if run.status == "ok"}
        for name, notebook in analyses().items():
            topics = experiments_of(notebook)
            if not topics or measured & set(topics):
                chosen.append(notebook)
            else:
                skipped[name] = f"there are no runs of {' or '.join(map(repr, topics))}"
                _write_gap(notebook, skipped[name], origin)
    steps = len(chosen) + (not notebooks)  # the paper
    for done, notebook in enumerate(chosen):
        progress(f"analysing: {_name_of(notebook)}", done, steps)
        with _output_beside(notebook) if notebooks else contextlib.nullcontext():
            executed = paths.figures() / origin.label / notebook.name
            make_directory(executed.parent)
            try:
                execute(notebook, executed, {"runs": folder, "sweep": sweep})
            except PairlabError as error:
                if len(notebooks) == 1:
                    raise
                # NoRuns: no stored run answers the notebook's question
                why = " ".join([str(error), *(() if isinstance(error, NoRuns) else getattr(error, "__notes__", ()))])
                (skipped if isinstance(error, NoRuns) else failed)[_name_of(notebook)] = why
                if not notebooks:
                    _write_gap(notebook, str(error), origin)
    pdf, why = (None, "it is built from the analyses in notebooks/analysis") if notebooks else (None, "")
    if not notebooks:
        progress("building the paper", steps - 1, steps)
        try:
            pdf, why = _paper(origin.label, dataset, need_paper, (skipped | failed).get(CLAIMS, ""))
        except PairlabError as error:
            if need_paper:
                raise
            why = failed["the paper"] = str(error)
        if pdf and paths.paper() == paths.STUDY / "paper":
            shutil.copyfile(pdf, place / "paper.pdf")
    return Report(
        figures=place,
        values=values,
        tables=tables,
        paper=pdf,
        no_paper=why,
        account=account,
        findings=sentences,
        summary=_summary(str(dataset.root), sweep),
        skipped=tuple(f"{name}: {reason}" for name, reason in skipped.items()),
        failed=tuple(f"{name}: {reason}" for name, reason in failed.items()),
    )


def _paper(label: str, runs: Runs, need_paper: bool, no_claims: str) -> tuple[Path | None, str]:
    """The paper, or the reason for having none. no_claims: why no claim was judged. Raises LaTeX's error."""
    try:
        if no_claims:
            raise NoRuns(f"it tells of the papers' claims, and {no_claims}")
        return paper.build(label, runs=runs), ""
    except (NoRuns, Unavailable) as error:
        if need_paper:
            raise
        return None, str(error)


def _write_gap(notebook: Path, reason: str, origin: provenance.Origin) -> None:
    """Writes the reason in place of the notebook's numbers, for the paper to print."""
    values = latex.Values(paths.notebook_name(notebook))
    values.text("missing", reason)
    values.write(notebook.stem, origin)


def _output_beside(notebook: Path) -> contextlib.AbstractContextManager[None]:
    """Makes analyses write to the notebook's folder, unless PAIRLAB_OUT names another one."""
    return setting(PAIRLAB_OUT=os.environ.get("PAIRLAB_OUT") or str(notebook.absolute().parent))


def _name_of(notebook: Path) -> str:
    return next((name for name, path in analyses().items() if path == notebook), notebook.stem)


def _summary(runs: str, sweep: str) -> str:
    """The total throughput of plain runs, as text: a table for each system; empty without such runs."""
    answer = question.ask("throughput", runs, sweep)
    tables, parts = by_system(answer.table("throughput")), []
    for system, part in formatting.systems(answer["total"]).items():
        total = tables[system][TOTAL.title]
        parts.append(f"{system}: total throughput in Gbit/s, {formatting.remarks(part)}\n{total.to_string()}")
    return "\n\n".join(parts)
