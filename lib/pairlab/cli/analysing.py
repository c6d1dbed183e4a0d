"""What stored runs tell: the report, and which published findings hold on them."""

import contextlib
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pairlab import paths
from pairlab.cli.terminal import event, out, steps
from pairlab.errors import BadInput


@click.command()
@click.option("--runs", help="A folder of runs; by default the one that PAIRLAB_RUNS names, else runs/.")
@click.option("--sweep", "name", default="", help="Only the cells of the sweep of that name.")
@click.option("--backend", help="Of that sweep, only the cells measured in this backend.")
@click.option("--need-paper", is_flag=True, help="Fail where LaTeX is missing, instead of leaving the paper out.")
@click.option("--json", "as_json", is_flag=True, help="For programs: a line for each step, and one for what was made.")
def report(runs, name, backend, need_paper, as_json):
    """Analyse stored runs: figures, tables, numbers, and the paper where LaTeX is there."""
    from pairlab import report as reports

    if backend and not name:
        raise BadInput("--backend picks cells of a sweep: name it with --sweep")
    runs = runs or paths.shown(paths.runs())
    name = f"{name}/{backend}" if backend else name
    with _steps(as_json) as progress:
        made = reports.make(runs, name, need_paper=need_paper, progress=progress)
    if as_json:
        told = {name: str(place) for name, place in asdict(made).items() if isinstance(place, Path)}
        event("report", **{"paper": None} | told, no_paper=made.no_paper or None, account=made.account)
        return
    out.print(f"\n{made.account}\n\n{made.summary}\n", markup=False)
    out.print(f"figures and executed notebooks  {paths.shown(made.figures)}/", markup=False)
    out.print(f"tables and numbers for LaTeX    {paths.shown(made.tables)}/ {paths.shown(made.values)}/", markup=False)
    the_paper = paths.shown(made.paper) if made.paper else f"none: {made.no_paper}"
    out.print(f"paper                           {the_paper}", markup=False)


@contextlib.contextmanager
def _steps(as_json):
    """A Progress for the steps of a report: a bar for all of them on a terminal, else a line for each."""
    if as_json:
        yield lambda phase, done, total: event("step", step=phase, done=done, total=total)
    elif not out.is_terminal:
        yield lambda phase, done, total: out.print(phase, markup=False)
    else:
        with steps(1, "steps") as shown:

            def progress(phase, done, total):
                shown.reached(done, total)
                shown.phase(phase, 0, 0)

            yield progress


@click.command()
@click.option("--runs", help="A folder of runs; by default the one that PAIRLAB_RUNS names, else runs/.")
@click.option("--sweep", "name", default="", help="Only the cells of the sweep of that name, or of name/backend.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def claims(runs, name, as_json):
    """Which of the papers' findings hold on stored runs, contradict them, or are not decided.

    Exit status 0 whatever the verdicts are; they say what is missing, and how many repetitions would decide.
    """
    from pairlab.analysis import claims as ledger
    from pairlab.analysis import claims_layout as layout
    from pairlab.analysis.origin import account, origin_of
    from pairlab.collection import load_runs

    runs = runs or paths.shown(paths.runs())
    found = load_runs(runs, sweep=name)
    verdicts = ledger.evaluate(found)
    if as_json:
        click.echo(layout.as_json(verdicts, origin_of(found, runs, name), layout.floor_remark(verdicts, found)))
        return
    colours = dict(zip(ledger.VERDICTS, ("green", "red", "yellow", "bright_black"), strict=True))
    shown = layout.display(verdicts)
    for system, part in shown.groupby("System", sort=True):
        table = Table(*[column for column in shown if column != "System"], title=system, title_justify="left", box=None)
        for row in part.drop(columns="System").itertuples(index=False):
            table.add_row(*map(escape, row), style=colours[row.Verdict])
        Console(highlight=False, width=220).print(table)  # whole sentences, on a narrow terminal and in a pipe too
        out.print()
    out.print(layout.counts(verdicts).to_string(), markup=False)
    out.print(f"\n{account(found).splitlines()[0]}. {layout.POLICY}", markup=False)
    out.print(layout.floor_remark(verdicts, found), markup=False)
