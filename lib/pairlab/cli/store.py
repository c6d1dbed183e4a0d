"""The store: list its runs, pack them, and clean up after crashes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from pairlab import paths
from pairlab.base import units
from pairlab.base.printing import echo
from pairlab.cli import options
from pairlab.cli.terminal import out, write
from pairlab.errors import BadInput, NoRuns, StoreError
from pairlab.progress.describe import columns

#: The groups of a list of runs: environment, tools and spec.
FACTORS = ("kernel", "host", "machine", "tool", "switch", "engine", "label", "driver", "backend", "experiment")

SHOWN = ("key", "experiment", "backend", "driver", "pairs", "workload", "repetition", "status")


@click.command("ls")
@click.argument("experiment", required=False)
@options.RUNS
@click.option("--by", type=click.Choice(FACTORS), help="A list for each kernel, host, …")
@options.as_json()
def list_runs(experiment, root, by, as_json):
    """List the stored runs, the newest first."""
    from pairlab.store import index

    rows, unread = index.rows(root, experiment)
    if as_json:
        echo(json.dumps(rows))
    else:
        values = sorted({row[by] for row in rows}) if by else [None]
        for value in values:
            group = [row for row in rows if by is None or row[by] == value]
            if by:
                echo(f"{by} {value or 'not recorded'}: {len(group)} run{'s' * (len(group) != 1)}")
            differing = [
                name for name in (*FACTORS[:4], "label", "twin") if name != by and len({row[name] for row in rows}) > 1
            ]
            _print_table(group, differing)
    for why in unread:
        echo(why, err=as_json)


def _print_table(rows, differing):
    """Prints the rows in columns. differing: names of further columns, in which the runs differ."""
    head = [name.replace("repetition", "rep.") for name in SHOWN]
    lines = [(*head, "outcome", "took", "measured", *differing), *(_line(row, differing) for row in rows)]
    for line in columns(lines):
        echo(line)
    for row in rows:
        if row["reasons"]:
            echo(f"{row['key']}: {row['status']}: {row['reasons']}")


def _line(row, differing):
    when = datetime.fromisoformat(row["measured_at"]).astimezone(UTC) if row["measured_at"] else None
    return (
        *(str(row[name]) for name in SHOWN),
        row["outcome"],
        f"{row['took_s']:.1f} s" if row["took_s"] else "",
        f"{when:%Y-%m-%d %H:%M} UTC" if when else "",
        *(("twin" if row[name] else "") if name == "twin" else row[name] for name in differing),
    )


def _left(unclear):
    """The message about leftovers that may be in use: a list, the reason, and the remedy."""
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
    """Remove what crashes left.

    Drafts, and testbeds of dead processes.

    What a living process may still use stays, and is listed. Finished runs stay. Damaged runs move to .replaced/, where
    replaced runs are kept too; --replaced deletes those.
    """
    from pairlab import store
    from pairlab.testbed.audit import leftovers

    troubles = []
    things = [(f"run {paths.shown(path)} ({why})", path) for path, why in store.leftovers(with_replaced=replaced)]
    for what, path in things:
        write(f"{'would remove' if dry_run else 'removing'} {what}")
        if not dry_run:
            try:
                store.clean_up(path)
            except StoreError as error:  # the others are removed all the same
                troubles.append(str(error))
    testbeds = leftovers.find()
    for leftover in testbeds.dead:
        write(f"{'would remove' if dry_run else 'removing'} {leftover.what}")
        if not dry_run:
            leftover.remove()
    if unclear := [*(f"draft {paths.shown(path)}" for path in store.drafts_of_others()), *testbeds.unclear]:
        write(_left(unclear))
    elif not things and not testbeds.dead:
        out.print("nothing to clean")
    if troubles:
        raise StoreError("\n".join(troubles))


@click.command()
@click.argument("experiments", nargs=-1)
@options.RUNS
@click.option("--to", "folder", type=click.Path(path_type=Path), help="Write the packs to this folder.")
@click.option("--leave-out", multiple=True, type=click.Choice(("raw", "notebooks")), help="Pack without these.")
@click.option("--replace", is_flag=True, help="Make packs anew that are there already, with the runs in them.")
@click.option("--remove", is_flag=True, help="Remove the directories of the runs that were packed.")
def pack(experiments, root, folder, leave_out, replace, remove):
    """Make one file of the runs of each experiment.

    By default of all experiments. The file is read as the directories of its runs are.

    A pack is read back and compared with its runs before it gets its name. Their directories stay, unless --remove is
    given. raw: what tools printed; notebooks: executed experiment notebooks.
    """
    from pairlab import store

    root = paths.existing(root) if root else paths.runs()
    measured = sorted({entry.experiment for entry in store.stored(root).values() if entry.experiment})
    if not measured:
        raise NoRuns(f"no runs in {root} can be packed: measure some, for instance with `pairlab run throughput`")
    troubles: list[str] = []
    for experiment in experiments or measured:
        made = store.pack(experiment, root, folder, leave_out=leave_out, replace=replace, remove=remove)
        size = units.with_prefix(made.path.stat().st_size, "B")
        without = f", without {' and '.join(made.left_out)}" if made.left_out else ""
        removed = f"; {made.removed} directories removed" if made.removed else ""
        echo(f"{paths.shown(made.path)}: {made.runs} run{'s' * (made.runs != 1)}, {size}{without}{removed}")
        troubles += made.troubles
    if troubles:
        raise StoreError("\n".join(troubles))


@click.command()
@click.argument("packs", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.RUNS
def unpack(packs, root):
    """Make a directory of each run of these PACKS.

    They come beside the runs that are there, and the packs stay.
    """
    _merge(packs, root)


@click.command("import")
@click.argument("stores", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.RUNS
def import_stores(stores, root):
    """Add the runs of other STORES to one's own.

    These are folders of runs, or packs; the cells of their sweeps come along.

    Nothing that is here is changed. A run that is here already is not stored twice; one of the same spec that was
    measured elsewhere, or at another time, is a further run.
    """
    _merge(stores, root)


def _merge(others, root):
    from pairlab import store

    root = paths.existing(root) if root else paths.runs()
    troubles = []
    for other in others:
        if not other.exists():
            raise BadInput(f"there is no {other}: give a folder of runs, or a pack")
        merged = store.merge(other, root)
        sweeps = f"; sweeps: {', '.join(merged.sweeps)}" if merged.sweeps else ""
        added = f"{len(merged.added):,} run{'s' * (len(merged.added) != 1)} added"
        echo(f"{other}: {added}, {merged.known:,} known{sweeps}")
        troubles += merged.troubles
    if troubles:
        raise StoreError("\n".join(["left out:", *troubles]))


@click.command("rm")
@click.argument("keys", nargs=-1, required=True)
@options.RUNS
@click.option("--restore", is_flag=True, help="Give runs that were removed their places again.")
def remove(keys, root, restore):
    """Take runs away, by the beginning of their KEYS.

    They move to .replaced/ beside the others, and count no more; --restore gets them back, and `pairlab clean
    --replaced` deletes them.
    """
    from pairlab import store

    root = paths.existing(root) if root else paths.runs()
    if restore:
        place_of = store.removed(root)
        for place in [place_of[_one_of(key, place_of, root)] for key in keys]:
            echo(f"restored: {paths.shown(store.restore(place))}")
        return
    place_of = {entry.key: place for place, entry in store.stored(root).items() if entry.key}
    places = [place_of[_one_of(key, place_of, root)] for key in keys]
    for place, target in zip(places, store.remove(places), strict=True):
        echo(f"{paths.shown(place)} is now {paths.shown(target)}")


def _one_of(key, keys, root):
    """The only one of the keys with this beginning."""
    matches = [each for each in keys if each == key] or [each for each in keys if each.startswith(key)]
    if len(matches) != 1:
        if not matches:
            raise BadInput(f"no run {key!r} in {root}: pairlab ls lists the keys")
        more = ", …" * (len(matches) > 3)
        raise BadInput(f"{len(matches)} keys in {root} begin with {key!r}: {', '.join(matches[:3])}{more}")
    return matches[0]


@click.command()
@click.argument("key")
@options.RUNS
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write one page that needs no other file.")
def show(key, root, page):
    """Show one run, by the beginning of its KEY.

    What was asked, what came of it, on what it was measured, each of its checks, and its flows.
    """
    from pairlab import store
    from pairlab.measurement import verdict

    root = paths.existing(root) if root else paths.runs()
    place_of = {entry.key: place for place, entry in store.stored(root).items() if entry.key}
    place = place_of[_one_of(key, place_of, root)]
    run = store.read(place)
    if page:
        from pairlab.analysis.output.run_page import write_page

        echo(paths.shown(write_page(run, page, verdict.of(run)._repr_html_())))
        return
    write(f"{run}\n\nkey          {run.key}\nenvironment  {run.environment}\nstored in    {paths.shown(place)}")
    write(f"\nchecks: {verdict.of(run)}")
    for name, table in (("flows", run.flows), ("launches", run.launches)):
        if len(table):
            write(f"\n{name}\n{table.dropna(axis=1, how='all').head(20).to_string(index=False)}")
            if len(table) > 20:
                write(f"and {len(table) - 20:,} more")
    for name, capture in run.facts.get("capture", {}).items():
        counts = {kind: capture.get(kind) for kind in ("packets", "missed")}
        texts = ", ".join(f"{kind}: {'unknown' if count is None else f'{count:,}'}" for kind, count in counts.items())
        write(f"\n{name}.pcap, in {paths.shown(place)}: {texts}{', and then no more' * bool(capture.get('full'))}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", "form", type=click.Choice(("csv", "parquet", "zenodo")), default="csv", show_default=True)
@click.option("--title", default="", help="For zenodo: the title of the data set; default: the folder's name.")
@click.option("--creator", multiple=True, help="For zenodo: who made it, several times; 'Family, Given'.")
@click.option("--licence", default="CC-BY-4.0", show_default=True, help="For zenodo: its SPDX identifier.")
@options.RUNS
@options.SWEEP
def export(folder, form, title, creator, licence, root, sweep):
    """Write all runs as tidy tables into a new FOLDER.

    A data dictionary says what each column means.

    csv and parquet: a file for each table, with the key of the run before its own columns, and runs, which has a row
    for each with its parameters. zenodo: Parquet tables and the packs of all runs as a research object (RO-Crate 1.1),
    with title, creators, licence and checksums, to be uploaded as it is.
    """
    from pairlab.analysis.output import export as exports
    from pairlab.store.dataset import load_runs

    runs = load_runs(root, sweep=sweep, environment="all")
    about = exports.About(title or folder.absolute().name, creator, licence)
    for file in exports.write(runs, folder, form, about):
        echo(paths.shown(file))
