"""pairlab's command line."""

import json
import shutil
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from pairlab import __version__, paths
from pairlab.errors import BadInput, PairlabError, StoreError

#: Exit statuses beside 0: something was not done; the input was wrong; this host cannot do it.
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

    Exit status 0 only if every cell is done.
    """
    from pairlab import store
    from pairlab import sweep as sweeps
    from pairlab.testbed import registry

    plan = sweeps.load(file)
    if backend:
        registry.backends.get(backend)
    todo = sweeps.cells(plan, backend)
    spent = _duration(sweeps.estimate_s(todo))
    if dry_run:
        for number, spec in enumerate(todo, 1):
            stored = store.find(spec)
            out.print(f"{number:4} {spec.key} {spec}" + (f" [{stored.status}]" if stored else ""), markup=False)
        out.print(f"{len(todo)} cells, about {spent} for those without a run")
        return
    out.print(f"sweep {plan.name}: {len(todo)} cells, about {spent}")
    tally = _with_progress(len(todo), lambda tell: sweeps.run(plan, backend=backend, retry=retry, tell=tell))
    out.print(f"{tally.done} done, {tally.skipped} skipped, {len(tally.not_done)} not done")
    for name in tally.not_done:
        out.print(f"  not done: {name}", markup=False)
    if not tally.good:
        sys.exit(NOT_DONE)


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
@click.option("--runs", default="runs", show_default=True, help="A folder of runs.")
@click.option("--sweep", "name", default="", help="Only the cells of the sweep of that name.")
@click.option("--need-paper", is_flag=True, help="Fail where LaTeX is missing, instead of leaving the paper out.")
def report(runs, name, need_paper):
    """Analyse stored runs: figures, tables, numbers, and the paper where LaTeX is there."""
    from pairlab import report as reports

    made = reports.make(runs, name, need_paper=need_paper, tell=lambda text: out.print(text, markup=False))
    out.print(f"\n{made.account}\n\n{made.summary}\n", markup=False)
    out.print(f"figures and executed notebooks  {paths.shown(made.figures)}/", markup=False)
    out.print(f"tables and numbers for LaTeX    {paths.shown(made.tables)}/ {paths.shown(made.values)}/", markup=False)
    the_paper = paths.shown(made.paper) if made.paper else f"none: {made.no_paper}"
    out.print(f"paper                           {the_paper}", markup=False)


@main.command("ls")
@click.argument("experiment", required=False)
@click.option("--runs", "root", type=click.Path(path_type=Path), help="Another folder of runs.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_runs(experiment, root, as_json):
    """List the stored runs."""
    from pairlab.store import load_runs

    found = load_runs(root, experiment=experiment, pool_hosts=True)
    if as_json:
        click.echo(found.index.to_json(orient="records", date_format="iso"))
        for told in found.damaged:
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
    for told in found.damaged:
        out.print(told, markup=False)


@main.command()
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing.")
@click.option("--replaced", is_flag=True, help="Also the old runs that newer ones of the same key replaced.")
def clean(dry_run, replaced):
    """Remove what accidents left: damaged runs, drafts, testbeds of dead processes. Finished runs stay."""
    from pairlab import store
    from pairlab.testbed import leftovers

    things = [(f"run {paths.shown(path)} ({why})", path) for path, why in store.debris(with_replaced=replaced)]
    for what, path in things:
        out.print(f"{'would remove' if dry_run else 'removing'} {what}", markup=False)
        if not dry_run:
            _remove(path)
    found = list(leftovers.find())
    for leftover in found:
        out.print(f"{'would remove' if dry_run else 'removing'} {leftover.what}", markup=False)
        if not dry_run:
            leftover.remove()
    if not things and not found:
        out.print("nothing to clean")


def _remove(path):
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise StoreError(f"{path} could not be removed: {error.strerror}. Is it yours to remove?") from None
