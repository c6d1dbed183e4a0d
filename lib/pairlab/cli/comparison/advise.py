"""`pairlab advise`: which network for what, by stored runs."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pairlab.cli.terminal import out


@click.command()
@click.option("--pairs", default=20, show_default=True, help="Pairs of client and server, all active at once.")
@click.option("--hosts", default=1, show_default=True, help="Hosts; with several, clients and servers are apart.")
@click.option("--traffic", default="requests", show_default=True, help="requests (with responses), or bulk.")
@click.option(
    "--first", default="", help="What decides: p99, throughput, cpu or launch; default: p99, of bulk throughput."
)
@click.option("--matter", multiple=True, help="What else counts: as --first, several times; default: cpu.")
@click.option(
    "--isolation", is_flag=True, help="Only networks that give each container a network namespace of its own."
)
@click.option("--exactly", is_flag=True, help="Leave a cell empty that was not measured as asked.")
@click.option("--backend", default="", help="Only this backend; default: each that has runs.")
@click.option("--runs", "root", type=click.Path(), help="Folder of runs; default: PAIRLAB_RUNS, else runs/.")
@click.option("--sweep", default="", help="Only the runs of the sweep of that name.")
@click.option("--show-runs", is_flag=True, help="List the runs behind each number.")
@click.option(
    "--write-sweep",
    "file",
    type=click.Path(path_type=Path),
    help="Write a sweep file that measures the empty cells, and nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def advise(pairs, hosts, traffic, first, matter, isolation, exactly, backend, root, sweep, show_runs, file, as_json):
    """Which network to take, by the stored runs: all side by side, and those in grey that another beats for sure.

    For 20 request/response services on two hosts, 99th percentile first:

    pairlab advise --pairs 20 --hosts 2 --first p99 --isolation

    What was not measured as asked is told by the nearest runs there are, with their conditions; a network is dominated
    only by numbers of the same conditions, and only where intervals do not overlap in anything that matters.
    """
    from pairlab.analysis.advice import shown
    from pairlab.analysis.advice.question import Question
    from pairlab.apps import advice as apps

    question = Question(pairs, hosts, traffic, first, matter, isolation, exactly)
    found = apps.advise(question, root, sweep=sweep, backend=backend)
    written = apps.write_sweep(found, file) if file else False
    if as_json:
        click.echo(json.dumps(shown.as_dict(found) | {"sweep": apps.sweep_text(found) or None}))
        return
    out.print(f"{question}\n", markup=False)
    for name in found.backends:
        for sentence in shown.sentences(found, name):
            out.print(sentence, markup=False)
        _print_table(shown.table(found, name), [row.grey for row in shown.rows_of(found, name)])
    for note in shown.notes(found):
        out.print(note, markup=False)
    if show_runs:
        _print_runs(found)
    _print_missing(found, file, written)


def _print_table(texts, grey):
    table = Table(*texts.reset_index().columns, box=None)
    for row, dim in zip(texts.reset_index().itertuples(index=False), grey, strict=True):
        table.add_row(*map(escape, row), style="bright_black" if dim else "")
    Console(highlight=False, width=220).print(table)  # whole rows, on a narrow terminal and in a pipe too
    out.print()


def _print_runs(found):
    from pairlab.analysis.advice.question import QUANTITIES

    out.print()
    for row in found.rows:
        for name, cell in row.cells.items():
            if cell.runs:
                keys = " ".join(run.key for run in cell.runs)
                out.print(f"{row.network.backend} {row.network.name}, {QUANTITIES[name].title}: {keys}", markup=False)


def _print_missing(found, file, written):
    from pairlab.apps import advice as apps

    if found.substitutes and not found.question.exactly:
        out.print(f"\n{found.substitutes} numbers were not measured as asked: --exactly leaves them out.", markup=False)
    if written:
        out.print(f"\nto measure what is missing: {apps.shown_command(file)}", markup=False)
    elif file:
        out.print("\nnothing is missing that an experiment could measure: no sweep file was written")
    elif text := apps.sweep_text(found):
        out.print(
            f"\n{found.empty} cells are empty (--write-sweep FILE writes this sweep, pairlab sweep FILE measures it):\n"
        )
        out.print(text, markup=False, end="")
