"""report: every analysis notebook over a set of runs, and the paper from what they made."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pairlab import paths
from pairlab.analysis import layout, origin, paper, stats, throughput
from pairlab.analysis.selection import plain, select
from pairlab.collection import load_runs
from pairlab.errors import PairlabError
from pairlab.notebooks import execute
from pairlab.testbed.contracts import Progress, silent


@dataclass(frozen=True)
class Report:
    """What was made: folders of figures, LaTeX numbers and tables, the paper (or why there is none), a short table."""

    figures: Path
    values: Path
    tables: Path
    paper: Path | None
    no_paper: str
    account: str
    summary: str


def analyses() -> dict[str, Path]:
    """The analysis notebooks by name: notebooks/analysis/NN-name.ipynb."""
    return {path.stem[3:]: path for path in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb"))}


def make(runs: str, sweep: str = "", *, need_paper: bool = False, progress: Progress = silent) -> Report:
    """Runs all analyses over the runs below `runs` (of one sweep, or `sweep/backend`, if named), then builds the paper.

    The executed notebooks stand beside their figures. need_paper: raise what kept the paper from being built, such as
    a missing LaTeX, which is else a reason in the report. progress: hears of each step when it begins, and how many of
    all are done. Raises NoRuns, MixedHosts, and whatever stops a notebook.
    """
    found = load_runs(runs, sweep=sweep)
    label = origin.origin_of(found, runs, sweep).label
    place = paths.figures() / label
    notebooks = analyses()
    steps = len(notebooks) + 1  # the paper
    for done, (name, notebook) in enumerate(notebooks.items()):
        progress(f"analysing: {name}", done, steps)
        executed = place / notebook.name
        executed.parent.mkdir(parents=True, exist_ok=True)
        execute(notebook, executed, {"runs": runs, "sweep": sweep})
    pdf, why = None, ""
    try:
        progress("building the paper", steps - 1, steps)
        pdf = paper.build(label, runs=found)
    except PairlabError as error:
        if need_paper:
            raise
        why = str(error)
    if pdf and paths.paper() == paths.PAPER:
        shutil.copyfile(pdf, place / "paper.pdf")
    return Report(
        figures=place,
        values=paths.paper() / "values" / label,
        tables=paths.paper() / "tables" / label,
        paper=pdf,
        no_paper=why,
        account=origin.account(found),
        summary=_summary(runs, sweep),
    )


def _summary(runs: str, sweep: str) -> str:
    """The totals of plain throughput runs in short, as text: a table for each system; or why there are none."""
    found, gap = select(runs, experiment="throughput", sweep=sweep, which=plain)
    if gap:
        return gap
    cells = stats.throughput_by_cell(found.flows)
    told = []
    for system, part in layout.systems(cells).items():
        total = throughput.table(part)[throughput.TOTAL]
        told.append(f"{system}: total throughput in Gbit/s, {throughput.remarks(part)}\n{total.to_string()}")
    return "\n\n".join(told)
