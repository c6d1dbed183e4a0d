"""The store: list its runs, and clean up after crashes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from pairlab import paths
from pairlab.cli.terminal import out
from pairlab.errors import StoreError

#: What runs can be listed by: their ground, and what they measured with.
FACTORS = ("kernel", "host", "machine", "tool", "switch", "engine", "driver", "backend", "experiment")

SHOWN = ("key", "experiment", "backend", "driver", "pairs", "workload", "repetition", "status")


@click.command("ls")
@click.argument("experiment", required=False)
@click.option("--runs", "root", type=click.Path(path_type=Path), help="Another folder of runs.")
@click.option("--by", type=click.Choice(FACTORS), help="A list for each kernel, host, …")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_runs(experiment, root, by, as_json):
    """List the stored runs, the newest first."""
    from pairlab.store import index

    rows, unread = index.rows(root, experiment)
    if as_json:
        click.echo(json.dumps(rows))
    else:
        values = sorted({row[by] for row in rows}) if by else [None]
        for value in values:
            mine = [row for row in rows if by is None or row[by] == value]
            if by:
                click.echo(f"{by} {value or 'not recorded'}: {len(mine)} run{'s' * (len(mine) != 1)}")
            _print_table(mine, index.differing(rows, (name for name in FACTORS[:4] if name != by)))
    for why in unread:
        click.echo(why, err=as_json)


def _print_table(rows, more):
    """The rows in columns. more: which columns are shown besides, as the runs differ in them."""
    head = [name.replace("repetition", "rep.") for name in SHOWN]
    lines = [(*head, "outcome", "took", "measured", *more), *(_line(row, more) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        if row["reasons"]:
            click.echo(f"{row['key']}: {row['status']}: {row['reasons']}")


def _line(row, more):
    when = datetime.fromisoformat(row["measured_at"]).astimezone(UTC) if row["measured_at"] else None
    return (
        *(str(row[name]) for name in SHOWN),
        row["outcome"],
        f"{row['took_s']:.1f} s" if row["took_s"] else "",
        f"{when:%Y-%m-%d %H:%M} UTC" if when else "",
        *(row[name] for name in more),
    )


def _left(unclear):
    """What stays as it may be in use, why that cannot be told, and what to do."""
    several = len(unclear) > 1
    head = (
        f"left {len(unclear)} thing{'s' * several}, as it cannot be told from here whether the process that made"
        f" {'them' if several else 'it'} still runs:"
    )
    why = (
        "It is in another container, PID or time namespace, on another host, hidden from you, from before this host was"
        " started, or an older pairlab."
    )
    remedy = (
        "Run `pairlab clean` where it ran, or as root. If no pairlab runs there any more, remove these by hand; what is"
        " Docker's is listed by docker ps --all, and by docker network ls, each with --filter label=pairlab.run=NAME"
    )
    return "\n".join([head, *(f"  {what}" for what in unclear), why, remedy])


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--replaced", is_flag=True, help="Delete the runs in .replaced/ too.")
def clean(dry_run, replaced):
    """Remove what crashes left: drafts, and testbeds of dead processes.

    What a living process may still use stays, and is listed. Finished runs stay. Damaged runs move to .replaced/, where
    replaced runs are kept too; --replaced deletes those.
    """
    from pairlab import store
    from pairlab.testbed.audit import leftovers

    troubles = []
    things = [(f"run {paths.shown(path)} ({why})", path) for path, why in store.debris(with_replaced=replaced)]
    for what, path in things:
        out.print(f"{'would remove' if dry_run else 'removing'} {what}", markup=False)
        if not dry_run:
            try:
                store.discard(path)
            except StoreError as error:  # of one; the others go all the same
                troubles.append(str(error))
    found = leftovers.find()
    for leftover in found.dead:
        out.print(f"{'would remove' if dry_run else 'removing'} {leftover.what}", markup=False)
        if not dry_run:
            leftover.remove()
    if unclear := [*(f"draft {paths.shown(path)}" for path in store.drafts_of_others()), *found.unclear]:
        out.print(_left(unclear), markup=False)
    elif not things and not found.dead:
        out.print("nothing to clean")
    if troubles:
        raise StoreError("\n".join(troubles))
