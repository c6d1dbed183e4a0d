"""pairlab's command line."""

import errno
import json
import shlex
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from pairlab import __version__, paths
from pairlab.errors import BadInput, PairlabError

#: Exit statuses beside 0: something was not done; the input was wrong; this host cannot do it (of a sweep: none of it).
NOT_DONE, WRONG_INPUT, UNAVAILABLE = 1, 2, 3

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())


class Group(click.Group):
    """Turns pairlab's errors into one clear line and an exit status."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except BadInput as error:
            _fail(error, WRONG_INPUT)
        except PairlabError as error:
            _fail(error, UNAVAILABLE if type(error).__name__ == "Unavailable" else NOT_DONE)
        except OSError as error:
            if error.errno == errno.EPIPE:  # `pairlab ls | head`: click knows
                raise
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}: see to the disk, its permissions and limits, and go on", NOT_DONE)
        except KeyboardInterrupt:
            _fail("interrupted: the host is clean, and finished runs are kept", 130)


def _fail(why, status):
    click.echo(f"pairlab: {why}", err=True)
    sys.exit(status)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pairlab")
def main():
    """Measure how containers that share a host contend for its network."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json):
    """What this machine can do, what is missing, and how to get it."""
    from pairlab.doctor import examine

    found = examine()
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    host = found["host"]
    out.print(f"[bold]{host['cpu_model']}[/], {host['cpus']} CPUs, {host['memory_bytes'] / 2**30:.0f} GiB,", end=" ")
    out.print(f"{host['distribution']}, Linux {host['kernel']}")
    for name, backend in found["backends"].items():
        out.print()
        out.print(_finding(name, backend, f"[bold]backend {name}[/]"))
        if backend["available"]:
            for kind in ("drivers", "workloads"):
                for each, finding in backend[kind].items():
                    out.print(_finding(each, finding, f"  {kind[:-1]} {each}"))
    out.print()
    for name, extra in found["extras"].items():
        out.print(_finding(name, extra, name))
    if not all(thing["available"] for thing in _all_findings(found)):
        out.print("\nWith root, [bold]make tools[/] installs all that Debian and Ubuntu have of the above.")


def _finding(name, finding, title):
    if finding["available"]:
        return f"[green]✓[/] {title}: {finding['summary']}"
    lacks = "".join(f"\n      {lack['what']}: {lack['remedy']}" for lack in finding["missing"])
    return f"[yellow]–[/] {title}: {finding['summary']}{lacks}"


def _all_findings(found):
    yield from found["extras"].values()
    for backend in found["backends"].values():
        yield from (backend, *backend["drivers"].values(), *backend["workloads"].values())


@main.command()
@click.argument("experiment")
@click.option("-p", "parameters", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter of the notebook.")
@click.option("--fresh", is_flag=True, help="Measure again even if there is such a run; the old one is kept.")
def run(experiment, parameters, fresh):
    """Run one EXPERIMENT's notebook (papermill) into the store."""
    from pairlab import experiments

    values = {name: _value(value) for name, value in parameters}
    if fresh:
        values["fresh"] = True
    done = experiments.run(experiment, values)
    out.print(str(done), markup=False)
    out.print(f"stored in {paths.shown(done.path)}", markup=False)
    if done.status != "ok":
        sys.exit(NOT_DONE)


def _value(text):
    """A parameter's value as papermill's -p reads it, so that both give the same run."""
    words = {"True": True, "False": False, "true": True, "false": False}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show the cells in their order, and measure nothing.")
@click.option("--backend", help="Instead of the file's.")
@click.option("--retry", is_flag=True, help="Measure again what failed or was invalid.")
def sweep(file, dry_run, backend, retry):
    """Measure every cell of a sweep FILE; resumes where it was interrupted.

    Exit status 0 only if every cell is done, or may be skipped; 3 if none is, so that there is nothing to report.
    """
    from pairlab import store
    from pairlab import sweep as sweeps
    from pairlab.testbed import registry

    plan = sweeps.load(file)
    if backend:
        registry.backends.get(backend)
    todo = sweeps.cells(plan, backend)
    spent = _duration(sweeps.estimate_s(todo, retry=retry))
    if dry_run:
        for number, spec in enumerate(todo, 1):
            stored = store.find(spec)
            out.print(f"{number:4} {spec.key} {spec}" + (f" [{stored.status}]" if stored else ""), markup=False)
        out.print(f"{len(todo)} cells, about {spent} for those to be measured")
        return
    out.print(f"sweep {plan.name}: {len(todo)} cells, about {spent}")
    tally = _with_progress(len(todo), lambda tell: sweeps.run(plan, backend=backend, retry=retry, tell=tell))
    out.print(f"{tally.done} done, {tally.skipped} skipped, {len(tally.not_done)} not done")
    for why, cells in tally.skips.most_common():
        out.print(f"  skipped {cells} cells: {why}", markup=False)
    for name in tally.not_done:
        out.print(f"  not done: {name}", markup=False)
    if tally.not_done:
        again = [_myself(), "sweep", str(file), *(["--backend", backend] if backend else []), "--retry"]
        out.print(f"to measure what is not done again: {shlex.join(again)}", markup=False)
    if not tally.done:
        _fail("nothing was measured, so there is nothing to report", UNAVAILABLE)
    if not tally.good:
        sys.exit(NOT_DONE)


def _myself():
    """This program as one can type it where one is."""
    path = Path(sys.argv[0])
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else sys.argv[0]


def _with_progress(total, work):
    """Runs work(tell), showing each cell as a line and, on a terminal, a bar with the time left."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=out, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def tell(report):
            line = f"{report.number:4}/{report.total} {report.state:8} {report.spec}: {report.told}"
            out.print(line if out.is_terminal else f"{line} ({_duration(report.left_s)} left)", markup=False)
            bar.update(task, advance=1, description=f"{_duration(report.left_s)} left")

        return work(tell)


def _duration(seconds):
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


@main.command()
@click.option("--runs", help="A folder of runs; by default the one that PAIRLAB_RUNS names, else runs/.")
@click.option("--sweep", "name", default="", help="Only the cells of the sweep of that name.")
@click.option("--backend", help="Of that sweep, only the cells measured in this backend.")
@click.option("--need-paper", is_flag=True, help="Fail where LaTeX is missing, instead of leaving the paper out.")
def report(runs, name, backend, need_paper):
    """Analyse stored runs: figures, tables, numbers, and the paper where LaTeX is there."""
    from pairlab import report as reports

    if backend and not name:
        raise BadInput("--backend picks cells of a sweep: name it with --sweep")
    runs = runs or paths.shown(paths.runs())
    name = f"{name}/{backend}" if backend else name
    made = reports.make(runs, name, need_paper=need_paper, tell=lambda text: out.print(text, markup=False))
    out.print(f"\n{made.account}\n\n{made.summary}\n", markup=False)
    out.print(f"figures and executed notebooks  {paths.shown(made.figures)}/", markup=False)
    out.print(f"tables and numbers for LaTeX    {paths.shown(made.tables)}/ {paths.shown(made.values)}/", markup=False)
    the_paper = paths.shown(made.paper) if made.paper else f"none: {made.no_paper}"
    out.print(f"paper                           {the_paper}", markup=False)


@main.command()
@click.option("--runs", help="A folder of runs; by default the one that PAIRLAB_RUNS names, else runs/.")
@click.option("--sweep", "name", default="", help="Only the cells of the sweep of that name, or of name/backend.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def claims(runs, name, as_json):
    """Which of the papers' findings hold on stored runs, contradict them, or are not decided.

    Exit status 0 whatever the verdicts are; they say what is missing, and how many repetitions would decide.
    """
    from pairlab.analysis import claims as ledger
    from pairlab.analysis.origin import account, origin_of
    from pairlab.collection import load_runs

    runs = runs or paths.shown(paths.runs())
    found = load_runs(runs, sweep=name)
    verdicts = ledger.evaluate(found)
    if as_json:
        click.echo(ledger.as_json(verdicts, origin_of(found, runs, name)))
        return
    colours = dict(zip(ledger.VERDICTS, ("green", "red", "yellow", "bright_black"), strict=True))
    shown = ledger.display(verdicts)
    for system, part in shown.groupby("System", sort=True):
        table = Table(*[column for column in shown if column != "System"], title=system, title_justify="left", box=None)
        for row in part.drop(columns="System").itertuples(index=False):
            table.add_row(*map(escape, row), style=colours[row.Verdict])
        Console(highlight=False, width=220).print(table)  # whole sentences, on a narrow terminal and in a pipe too
        out.print()
    out.print(ledger.counts(verdicts).to_string(), markup=False)
    out.print(f"\n{account(found).splitlines()[0]}. {ledger.POLICY}", markup=False)


@main.command("ls")
@click.argument("experiment", required=False)
@click.option("--runs", "root", type=click.Path(path_type=Path), help="Another folder of runs.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_runs(experiment, root, as_json):
    """List the stored runs."""
    from pairlab.collection import load_runs

    found = load_runs(root, experiment=experiment, pool_hosts=True)
    if as_json:
        click.echo(found.index.to_json(orient="records", date_format="iso"))
        for told in found.unread:
            click.echo(told, err=True)
        return
    columns = ("key", "experiment", "backend", "driver", "pairs", "workload", "rep.", "status", "Gbit/s", "measured")
    table = Table(*columns, box=None)
    for each in found:
        spec, when = each.spec, each.measured_at
        total = f"{each.total_throughput_bps / 1e9:.2f}" if len(each.flows) else ""
        row = (
            each.key,
            spec.experiment,
            spec.backend,
            spec.driver,
            spec.pairs,
            spec.workload,
            spec.repetition,
        )
        table.add_row(*map(str, row), each.status, total, f"{when:%Y-%m-%d %H:%M}" if when else "")
    Console(highlight=False, width=200).print(table)  # whole keys, on a narrow terminal and in a pipe too
    for each in found:
        if each.reasons:
            out.print(f"{each.key}: {each.status}: {'; '.join(each.reasons)}", markup=False)
    for told in found.unread:
        out.print(told, markup=False)


@main.command()
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing.")
@click.option("--replaced", is_flag=True, help="Delete what is in .replaced/, too.")
def clean(dry_run, replaced):
    """Remove what accidents left: drafts, testbeds of dead processes. Finished runs stay.

    Damaged runs move to .replaced/, beside the runs that newer ones replaced; --replaced deletes what is there.
    """
    from pairlab import store
    from pairlab.testbed import leftovers

    things = [(f"run {paths.shown(path)} ({why})", path) for path, why in store.debris(with_replaced=replaced)]
    for what, path in things:
        out.print(f"{'would remove' if dry_run else 'removing'} {what}", markup=False)
        if not dry_run:
            store.discard(path)
    found = list(leftovers.find())
    for leftover in found:
        out.print(f"{'would remove' if dry_run else 'removing'} {leftover.what}", markup=False)
        if not dry_run:
            leftover.remove()
    if not things and not found:
        out.print("nothing to clean")
