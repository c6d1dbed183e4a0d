"""Results from stored runs: the report, and the published findings checked."""

import contextlib
import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pairlab import paths
from pairlab.cli.sweeps.workers import CREDENTIALS
from pairlab.cli.terminal import event, out, steps
from pairlab.errors import BadInput


@click.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...", type=click.Path(path_type=Path))
@click.option("--runs", help="Folder of runs; default: PAIRLAB_RUNS, else runs/ in the checkout.")
@click.option("--sweep", "name", default="", help="Only the runs of the sweep of that name.")
@click.option("--backend", help="With --sweep: only the runs of this backend.")
@click.option("--need-paper", is_flag=True, help="Fail if the paper cannot be built, for instance without LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a line for each step, and one for the result.")
@click.option("--scheduler", default="", help="Compute on the workers of this Dask scheduler, tls://HOST:PORT.")
@CREDENTIALS
def report(notebooks, runs, name, backend, need_paper, as_json, scheduler, credentials):
    """Analyse stored runs: what they show in sentences, then figures, tables and the paper.

    Runs the notebooks of notebooks/analysis whose data exist. Given NOTEBOOKs, analysis notebooks anywhere on disk, it
    runs these instead, and their figures go beside them, into figures/.

    With --scheduler, percentiles of flows and their intervals are computed on its workers (pairlab worker), which must
    see the same folder of runs; the rest is done here.
    """
    from pairlab.base.schedulers import computing_on
    from pairlab.batch import report as reports

    if backend and not name:
        raise BadInput("--backend selects runs of a sweep: name the sweep with --sweep")
    name = f"{name}/{backend}" if backend else name

    def tell(text):
        if not as_json:
            out.print(f"{text}\n", markup=False)

    with computing_on(scheduler, credentials), _steps(as_json) as progress:
        made = reports.make(runs, name, notebooks=notebooks, need_paper=need_paper, progress=progress, tell=tell)
    if as_json:
        results = {name: str(place) for name, place in asdict(made).items() if isinstance(place, Path)}
        words = {"account": made.account, "findings": made.findings, "skipped": list(made.skipped)}
        event("report", **{"paper": None} | results, no_paper=made.no_paper or None, **words)
        return
    if made.summary:
        out.print(f"\n{made.summary}\n", markup=False)
    if made.skipped:
        names = ", ".join(skipped.partition(":")[0] for skipped in made.skipped)
        out.print(f"not analysed, as there are no runs for it: {names}", markup=False)
    out.print(f"figures and executed notebooks  {paths.shown(made.figures)}/", markup=False)
    if not notebooks or made.tables.exists() or made.values.exists():
        numbers = f"{paths.shown(made.tables)}/ {paths.shown(made.values)}/"
        out.print(f"tables and numbers for LaTeX    {numbers}", markup=False)
    the_paper = paths.shown(made.paper) if made.paper else f"none: {made.no_paper}"
    out.print(f"paper                           {the_paper}", markup=False)


@contextlib.contextmanager
def _steps(as_json):
    """A Progress for the steps of a report: a bar on a terminal, else a line for each step."""
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
@click.argument("only", metavar="[NAME]", default="")
@click.option("--runs", help="Folder of runs; default: PAIRLAB_RUNS, else runs/ in the checkout.")
@click.option("--sweep", "name", default="", help="Only the runs of the sweep of that name, or of NAME/BACKEND.")
@click.option("--by", type=click.Choice(["kernel", "host"]), help="Check them for each kernel, or host, apart.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def claims(only, runs, name, by, as_json):
    """Check which of the papers' findings the stored runs confirm, contradict, or leave undecided.

    NAME: only the finding of that name, or those whose names begin with it: with what would make it false, and the
    conditions under which the papers state it. Where the runs do not meet these, it is not comparable, and says why.

    The exit status is 0 whatever the verdicts are. An undecided finding says what is missing, and how many repetitions
    would decide it.
    """
    from pairlab.analysis.claims import report as layout
    from pairlab.analysis.claims import verdicts as ledger
    from pairlab.analysis.claims.ledger import named
    from pairlab.analysis.output.provenance import origin_of
    from pairlab.store.dataset import load_runs

    chosen = named(only) if only else None
    if chosen is not None and not as_json:
        for claim in chosen:
            out.print("\n".join(f"{title}: {text}" for title, text in layout.described(claim).items()), markup=False)
            out.print()
    found = load_runs(runs, sweep=name, ground="all" if by else "newest")
    parts = {value: found.where(**{by: value}) for value in sorted(set(found.index[by]))} if by else {"": found}
    results = {}
    for value, part in parts.items():
        verdicts = ledger.evaluate(part, claims=chosen)
        if as_json:
            remark = layout.floor_remark(verdicts, part)
            results[value] = layout.as_json(verdicts, origin_of(part, part.root, name), remark)
        else:
            if by:
                out.print(f"{by} {value or 'not recorded'}\n", markup=False)
            _print_claims(verdicts, part)
    if as_json:
        click.echo(json.dumps({value: json.loads(text) for value, text in results.items()}) if by else results[""])


def _print_claims(verdicts, found):
    from pairlab.analysis.claims import report as layout
    from pairlab.analysis.claims import verdicts as ledger
    from pairlab.analysis.output.provenance import account

    colours = dict(zip(ledger.VERDICTS, ("green", "red", "yellow", "magenta", "bright_black"), strict=True))
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
