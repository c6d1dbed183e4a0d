"""Commands for results from stored runs: the report, and the check of published findings."""

import contextlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from pairlab import paths
from pairlab.base.printing import echo
from pairlab.cli import options
from pairlab.cli.terminal import NOT_DONE, event, fail, out, steps, table, write
from pairlab.errors import BadInput


@click.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...", type=click.Path(path_type=Path))
@options.RUNS
@options.SWEEP
@options.backend("With --sweep: only the runs of this backend.")
@click.option("--need-paper", is_flag=True, help="Fail if the paper cannot be built, for instance without LaTeX.")
@options.as_json("a line for each step, and one for the result")
@options.SCHEDULER
@options.CREDENTIALS
def report(notebooks, root, sweep, backend, need_paper, as_json, scheduler, credentials):
    """Make figures, tables and the paper from stored runs.

    What they show is told first, in sentences.

    Runs the notebooks of notebooks/analysis whose data exist. Given NOTEBOOKs, analysis notebooks anywhere on disk, it
    runs these instead, and their figures go beside them, into figures/.

    With --scheduler, percentiles of flows and their intervals are computed on its workers (pairlab worker), which must
    see the same folder of runs; the rest is done here.
    """
    from pairlab.base.schedulers import computing_on
    from pairlab.batch import report as reports

    if backend and not sweep:
        raise BadInput("--backend selects runs of a sweep: name the sweep with --sweep")
    name, at, label = sweep.partition("@")
    sweep = f"{name}/{backend}{at}{label}" if backend else sweep

    def tell(text):
        if not as_json:
            write(f"{text}\n")

    with computing_on(scheduler, credentials), _steps(as_json) as progress:
        made = reports.make(root, sweep, notebooks=notebooks, need_paper=need_paper, progress=progress, tell=tell)
    if as_json:
        results = {name: str(place) for name, place in asdict(made).items() if isinstance(place, Path)}
        words = {"account": made.account, "findings": made.findings, "skipped": list(made.skipped)}
        words["failed"] = list(made.failed)
        event("report", **{"paper": None} | results, no_paper=made.no_paper or None, **words)
        sys.exit(NOT_DONE if made.failed else 0)
    if made.summary:
        write(f"\n{made.summary}\n")
    if made.skipped:
        names = ", ".join(skipped.partition(":")[0] for skipped in made.skipped)
        write(f"not analysed, as there are no runs for it: {names}")
    write(f"figures and executed notebooks  {paths.shown(made.figures)}/")
    if not notebooks or made.tables.exists() or made.values.exists():
        numbers = f"{paths.shown(made.tables)}/ {paths.shown(made.values)}/"
        write(f"tables and numbers for LaTeX    {numbers}")
    the_paper = paths.shown(made.paper) if made.paper else f"none: {made.no_paper}"
    write(f"paper                           {the_paper}")
    if made.failed:
        fail("\n".join(["not all of it could be made:", *made.failed]), NOT_DONE)


@contextlib.contextmanager
def _steps(as_json):
    """A Progress of a report's steps: a bar on a terminal, else a line for each step."""
    if as_json:
        yield lambda phase, done, total: event("step", step=phase, done=done, total=total)
    elif not out.is_terminal:
        yield lambda phase, done, total: write(phase)
    else:
        with steps(1, "steps") as bars:

            def progress(phase, done, total):
                bars.reached(done, total)
                bars.phase(phase, 0, 0)

            yield progress


@click.command()
@click.argument("only", metavar="[NAME]", default="")
@options.RUNS
@options.SWEEP
@click.option("--by", type=click.Choice(["kernel", "host"]), help="Check them for each kernel, or host, apart.")
@options.as_json()
def claims(only, root, sweep, by, as_json):
    """Judge published findings, and own claims, by stored runs.

    Runs confirm a finding, contradict it, or leave it undecided.

    NAME: only the finding of that name, or those whose names begin with it: with what would make it false, and the
    conditions under which the papers state it. Where the runs do not meet these, it is not comparable, and says why.

    The exit status is 0 whatever the verdicts are. An undecided finding says what is missing, and how many repetitions
    would decide it.
    """
    from pairlab.analysis.claims import report as layout
    from pairlab.analysis.claims import verdicts as ledger
    from pairlab.analysis.claims.ledger import named, stated_beside
    from pairlab.analysis.output.provenance import origin_of
    from pairlab.store.dataset import load_runs

    chosen = named(only) if only else ()
    judged = stated_beside(chosen) if chosen else None
    if not as_json:
        for claim in chosen:
            write("\n".join(f"{title}: {text}" for title, text in layout.described(claim).items()))
            out.print()
    runs = load_runs(root, sweep=sweep, environment="all" if by else "newest")
    parts = {value: runs.where(**{by: value}) for value in sorted(set(runs.index[by]))} if by else {"": runs}
    results = {}
    for value, part in parts.items():
        verdicts = ledger.evaluate(part, claims=judged)
        if chosen:
            verdicts = verdicts[verdicts["id"].isin([claim.id for claim in chosen])]
        if as_json:
            remark = layout.floor_remark(verdicts, part)
            results[value] = layout.as_json(verdicts, origin_of(part, part.root, sweep), remark)
        else:
            if by:
                write(f"{by} {value or 'not recorded'}\n")
            _print_claims(verdicts, part, counted=not chosen)
    if as_json:
        echo(json.dumps({value: json.loads(text) for value, text in results.items()}) if by else results[""])


def _print_claims(verdicts, runs, counted):
    from pairlab.analysis import published
    from pairlab.analysis.claims import report as layout
    from pairlab.analysis.claims import verdicts as ledger
    from pairlab.analysis.output.provenance import what_was_read

    colours = dict(zip(ledger.VERDICTS, ("green", "cyan", "red", "yellow", "magenta", "bright_black"), strict=True))

    def show(part, title):
        table(part, part.itertuples(index=False), [colours[verdict] for verdict in part["Verdict"]], title=title)

    measured = verdicts[verdicts["verdict"] != "not measured"] if counted else verdicts
    for system, part in layout.display(layout.findings(measured)).groupby("System", sort=True):
        show(part.drop(columns="System"), system)
    if len(apart := layout.display(layout.by_construction(measured))):
        show(apart, "by construction, so no findings")
    if counted:
        for counts in (layout.counts(verdicts), layout.counts_by_paper(verdicts)):
            write(f"{counts.to_string()}\n")
        write(f"Papers: {', '.join(f'{key} is {name}' for key, name in published.PAPERS.items())}.")
        if others := verdicts["id"].nunique() - measured["id"].nunique():
            write(f"Not measured: {others} claims; `pairlab claims NAME` says what one would take.")
        write(f"{layout.summary(verdicts)}\n")
    write(f"{what_was_read(runs).splitlines()[0]}. {layout.POLICY}")
    write(layout.floor_remark(verdicts, runs))
