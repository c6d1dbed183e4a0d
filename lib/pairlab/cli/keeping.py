"""The store: what is in it, and what accidents left."""

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pairlab import paths
from pairlab.cli.terminal import out


@click.command("ls")
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


@click.command()
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
