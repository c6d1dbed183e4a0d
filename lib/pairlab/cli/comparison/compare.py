"""Comparing stored runs by one thing in which they differ."""

import json
import math

import click

from pairlab.errors import BadInput


@click.command()
@click.argument("which", nargs=-1, metavar="[NAME=VALUE ...]")
@click.option("--by", default="driver", show_default=True, help="What differs: a parameter, kernel, host or tool.")
@click.option("--base", help="The value that the others are compared with.")
@click.option("--over", type=click.Choice(["host"]), help="Compare within each host, with hosts as the repetitions.")
@click.option("--measure", help="total_bps, fct_median_s, fct_p99_s, …; by default the one that suits the runs.")
@click.option("--despite", multiple=True, metavar="NAME", help="Compare sides that differ in this, too: tcp_rmem, …")
@click.option("--runs", "root", type=click.Path(), help="Another folder of runs.")
@click.option("--sweep", default="", help="Only the cells of this sweep.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(which, by, base, over, measure, despite, root, sweep, as_json):
    """Compare stored runs that differ in one thing, and say the difference with its interval.

    NAME=VALUE takes only the runs that have this value. Kernel against kernel, on a bridge with 50 pairs:

    pairlab compare --by kernel driver=bridge pairs=50

    Networks, on several machines that shared a sweep, whatever the speed of each:

    pairlab compare --by driver --over host --sweep throughput
    """
    from pairlab.analysis.comparison import compute
    from pairlab.store.dataset import load_runs

    values = {}
    for text in which:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"{text!r} is no NAME=VALUE, such as driver=bridge")
        values[name] = value
    runs = load_runs(root, sweep=sweep, ground="all" if over or by in compute.GROUND else "newest").where(**values)
    found = compute.compare(runs, by=by, measure=measure, base=base, over=over or "", despite=despite)
    if not as_json:
        click.echo(str(found))
        return
    rows = [
        {
            **dict(each.alike),
            "by": each.by,
            "measure": each.measure,
            "base": each.base.value,
            "other": each.other.value,
            "change_percent": each.change,
            "low_percent": each.low if math.isfinite(each.low) else None,
            "high_percent": each.high if math.isfinite(each.high) else None,
            "n": each.n,
            "unit": each.unit,
            "verdict": each.verdict,
            "words": each.words,
            "notes": each.notes,
        }
        for each in found
    ]
    click.echo(json.dumps({"comparisons": rows, "left_out": found.left_out}))
