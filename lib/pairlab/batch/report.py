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
from pairlab.analysis import throughput_cells
from pairlab.analysis.comparison.findings import findings
from pairlab.analysis.output import formatting, latex, paper, provenance
from pairlab.analysis.output.measures import by_system
from pairlab.analysis.questions import throughput
from pairlab.analysis.selection import plain, select
from pairlab.base.environment import setting
from pairlab.base.parameters_cell import syntax_trees
from pairlab.batch import kernels
from pairlab.batch.execute import execute
from pairlab.errors import BadInput, NoRuns, PairlabError
from pairlab.store.dataset import Runs, load_runs
from pairlab.testbed.contracts import Progress, silent

#: The analysis whose verdicts the paper is about.
CLAIMS = "claims"


@dataclass(frozen=True)
class Report:
    """What was made.

    figures, values, tables: folders of figures, of numbers and of tables for LaTeX. paper: its PDF, or None, and
    no_paper says why. account: the runs read and left out. findings: what they show, in sentences. summary: a short
    table. skipped: the analyses without data.
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


def analyses() -> dict[str, Path]:
    """The analysis notebooks by name: notebooks/analysis/NN-name.ipynb."""
    return {path.stem[3:]: path for path in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb"))}


def experiments_of(notebook: Path) -> tuple[str, ...]:
    """The experiments that an analysis notebook is about, as its code selects them; none named: all.

    Of several, the one that the notebook is named after, if any.
    """
    named: list[str] = []
    for node in itertools.chain.from_iterable(map(ast.walk, syntax_trees(notebook))):
        if isinstance(node, ast.keyword) and node.arg == "experiment":
            values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            constants = [value.value for value in values if isinstance(value, ast.Constant)]
            named += [value for value in constants if isinstance(value, str)]
    own = notebook.stem[3:]
    return (own,) if own in named else tuple(dict.fromkeys(named))


@kernels.kept()
def make(
    runs: str | Path | None = None,
    sweep: str = "",
    *,
    notebooks: Sequence[Path] = (),
    need_paper: bool = False,
    progress: Progress = silent,
    tell: Callable[[str], None] = lambda text: None,
) -> Report:
    """Runs the analyses whose data exist over the runs below `runs`, then builds the paper.

    runs: a folder, as load_runs takes it. sweep: only its runs, or those of `sweep/backend`. notebooks: these analyses
    instead, anywhere on disk; their figures go beside them, and no paper is built. need_paper: raise what kept the
    paper from being built, such as a missing LaTeX, instead of reporting it. progress: hears of each step when it
    begins. tell: hears at once which runs were read and what they show. The executed notebooks are stored beside their
    figures. Raises NoRuns, MixedHosts, and whatever stops a notebook but that none of the runs answers its question.
    """
    for notebook in notebooks:
        if not notebook.is_file():
            raise BadInput(f"no notebook {notebook.absolute()}: give the path of an analysis notebook (.ipynb)")
    found = load_runs(runs, sweep=sweep)
    folder = paths.from_root(found.root or paths.runs())
    origin = provenance.origin_of(found, found.root, sweep)
    account, shown = provenance.account(found), findings(found)
    tell(f"{account}\n\n{shown}".rstrip())
    chosen, skipped = list(notebooks), {}
    with _output_beside(notebooks[0]) if notebooks else contextlib.nullcontext():
        place, tables, values = (
            folder / origin.label for folder in (paths.figures(), paths.paper() / "tables", paths.paper() / "values")
        )
    if not notebooks:
        measured = {run.spec.experiment for run in found if run.status == "ok"}
        for name, notebook in analyses().items():
            about = experiments_of(notebook)
            if not about or measured & set(about):
                chosen.append(notebook)
            else:
                skipped[name] = f"there are no runs of {' or '.join(map(repr, about))}"
                _write_gap(notebook, skipped[name], origin)
    steps = len(chosen) + (not notebooks)  # the paper
    for done, notebook in enumerate(chosen):
        progress(f"analysing: {_name_of(notebook)}", done, steps)
        with _output_beside(notebook) if notebooks else contextlib.nullcontext():
            executed = paths.figures() / origin.label / notebook.name
            executed.parent.mkdir(parents=True, exist_ok=True)
            try:
                execute(notebook, executed, {"runs": folder, "sweep": sweep})
            except NoRuns as error:  # of those that are there, none answers its question
                if notebooks:
                    raise
                skipped[_name_of(notebook)] = str(error)
                _write_gap(notebook, str(error), origin)
    pdf, why = (None, "it is built from the analyses in notebooks/analysis") if notebooks else (None, "")
    if not notebooks:
        progress("building the paper", steps - 1, steps)
        pdf, why = _paper(origin.label, found, need_paper, skipped.get(CLAIMS, ""))
        if pdf and paths.paper() == paths.PAPER:
            shutil.copyfile(pdf, place / "paper.pdf")
    return Report(
        figures=place,
        values=values,
        tables=tables,
        paper=pdf,
        no_paper=why,
        account=account,
        findings=shown,
        summary=_summary(str(found.root), sweep),
        skipped=tuple(f"{name}: {reason}" for name, reason in skipped.items()),
    )


def _paper(label: str, runs: Runs, need_paper: bool, no_claims: str) -> tuple[Path | None, str]:
    """The paper, or why there is none. no_claims: why no claim could be judged, of which it tells."""
    try:
        if no_claims:
            raise NoRuns(f"it tells of the papers' claims, and {no_claims}")
        return paper.build(label, runs=runs), ""
    except PairlabError as error:
        if need_paper:
            raise
        return None, str(error)


def _write_gap(notebook: Path, reason: str, origin: provenance.Origin) -> None:
    """The reason in place of the notebook's numbers, which the paper prints instead."""
    values = latex.Values(notebook.stem[3:])
    values.text("missing", reason)
    values.write(notebook.stem, origin)


def _output_beside(notebook: Path) -> contextlib.AbstractContextManager[None]:
    """Inside, analyses write to the notebook's own folder, unless PAIRLAB_OUT names another one."""
    return setting(PAIRLAB_OUT=os.environ.get("PAIRLAB_OUT") or str(notebook.absolute().parent))


def _name_of(notebook: Path) -> str:
    return next((name for name, path in analyses().items() if path == notebook), notebook.stem)


def _summary(runs: str, sweep: str) -> str:
    """The totals of plain throughput runs in short, as text: a table for each system; empty without such runs."""
    found, gap = select(runs, experiment="throughput", sweep=sweep, which=plain)
    if gap:
        return ""
    cells = throughput.cells(throughput_cells.throughput_by_repetition(found.flows))
    tables, parts = by_system(throughput.table(cells)), []
    for system, part in formatting.systems(cells["total_bps"]).items():
        total = tables[system][throughput.TOTAL.title]
        parts.append(f"{system}: total throughput in Gbit/s, {formatting.remarks(part)}\n{total.to_string()}")
    return "\n\n".join(parts)
