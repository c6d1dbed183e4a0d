"""Comparisons of stored runs: by one property in which they differ, and between networks."""

import contextlib
import json
import math
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from pairlab.analysis import advice
from pairlab.base import named_values
from pairlab.base.printing import echo
from pairlab.cli import options
from pairlab.cli.terminal import NOT_DONE, UNAVAILABLE, fail, out, table, write
from pairlab.errors import AnalysisError, BadInput


@click.command()
@click.argument("which", nargs=-1, metavar="[BEFORE AFTER] [NAME=VALUE ...]")
@click.option("--by", default="driver", show_default=True, help="What differs: a parameter, kernel, host or tool.")
@click.option("--base", help="The value that the others are compared with.")
@click.option("--over", type=click.Choice(["host"]), help="Compare within each host, with hosts as the repetitions.")
@click.option("--measure", help="total_bps, fct_median_s, fct_p99_s, …; by default the one that suits the runs.")
@click.option("--despite", multiple=True, metavar="NAME", help="Compare sides that differ in this, too: tcp_rmem, …")
@click.option(
    "--fail-if", "rule", default="", help="A bound, such as 'p99 worse 5 %': the exit status says what of it."
)
@options.RUNS
@options.SWEEP
@options.as_json()
def compare(which, by, base, over, measure, despite, rule, root, sweep, as_json):
    """Say by how much stored runs differ that differ in one thing.

    NAME=VALUE takes only the runs that have this value. Kernel against kernel, on a bridge with 50 pairs:

    pairlab compare --by kernel driver=bridge pairs=50

    Networks, on several machines that shared a sweep, whatever the speed of each:

    pairlab compare --by driver --over host --sweep throughput

    BEFORE and AFTER are two states of the system: labels, sweeps, packs, folders of runs, days (from..to, UTC), or
    two values of one parameter. What was measured on several occasions is compared occasion by occasion.

    pairlab compare before after --fail-if "p99 worse 5 %"

    Exit status with --fail-if: 0 if it is not worse by that much, 1 if it is, 3 if the runs do not decide it.
    """
    from pairlab.analysis.comparison import compute, gate, sides
    from pairlab.store.dataset import load_runs

    bound = gate.Rule.of(rule) if rule else None
    named, values = _sides_and_values(which)
    if named:
        _require_sides_alone()
        runs, by, base = sides.both(named[0], named[1], root, values), "label", named[0]
    else:
        if twice := next((name for name, value in values.items() if len(value) > 1), ""):
            by, base = twice, values[twice][0]
        several = over or by in compute.ENVIRONMENT
        runs = load_runs(root, sweep=sweep, environment="all" if several else "newest").where(**values)
    arguments = {"by": by, "base": base, "over": over or "", "despite": despite}
    measures = bound.measures if bound else (measure,)
    try:
        comparisons = _by_first_measured(measures, lambda each: compute.compare(runs, measure=each, **arguments))
    except AnalysisError as error:
        if not bound:
            raise
        fail(f"{rule} is not decided: {error}", UNAVAILABLE)
    judged = gate.judge(bound, comparisons) if bound else []
    if as_json:
        echo(json.dumps(_as_json(comparisons, judged)))
    else:
        echo(str(comparisons))
        for each in judged:
            where = comparisons.where(each.comparison)
            needed = f"; {each.repetitions_needed} repetitions would decide it" if each.repetitions_needed else ""
            write(f"{each.verdict}: {f'{where}: ' if where else ''}{rule}: {each.why}{needed}")
        for each in comparisons.unmatched if bound else ():
            write(f"{gate.UNDECIDED}: {rule}: {each}")
    if any(each.verdict == gate.FAILS for each in judged):
        sys.exit(NOT_DONE)
    if any(each.verdict == gate.UNDECIDED for each in judged) or (bound and comparisons.unmatched):
        sys.exit(UNAVAILABLE)


def _require_sides_alone():
    """Refuses what says otherwise what is compared with what, beside BEFORE and AFTER."""
    context = click.get_current_context()
    given = [name for name in ("by", "base", "sweep") if context.get_parameter_source(name) != ParameterSource.DEFAULT]
    if given:
        options_given = " and ".join(f"--{name}" for name in given)
        raise BadInput(
            f"BEFORE and AFTER are what is compared: leave out {options_given}, and take runs by NAME=VALUE; a side can"
            " be a sweep"
        )


def _sides_and_values(which):
    """The two named sides, if any, and the values that runs of both must have; the sides are two values of a parameter
    that is given twice. What looks like NAME=VALUE is that, unless it is a pack: a folder is ./NAME=VALUE.
    """
    from pairlab.store.paths import SUFFIX

    sides = [text for text in which if not named_values.split(text) or text.endswith(SUFFIX)]
    if len(sides) not in (0, 2):
        rule = "so it is a side, of which there are two"
        raise BadInput(f"{sides[0]!r} is no NAME=VALUE, such as driver=bridge, {rule}: name another")
    return sides, named_values.by_name(text for text in which if text not in sides)


def _by_first_measured(measures, make):
    """The result of `make` for the first of these measures that the runs have."""
    for measure in measures[:-1]:
        with contextlib.suppress(AnalysisError):
            return make(measure)
    return make(measures[-1])


def _as_json(comparisons, judged):
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
            "pairing": each.pairing,
            "p_holm": p if math.isfinite(p) else None,
            "verdict": each.verdict,
            "words": each.words,
            "notes": each.notes,
        }
        for each, p in zip(comparisons, comparisons.p_holm, strict=True)
    ]
    for row, each in zip(rows, judged, strict=False):
        row |= {"gate": each.verdict, "why": each.why, "repetitions_needed": each.repetitions_needed}
    return {"comparisons": rows, "left_out": comparisons.left_out, "unmatched": comparisons.unmatched}


@click.command()
@click.argument("where", nargs=-1, metavar="[NAME=VALUE ...]")
@click.option("--pairs", default=20, show_default=True, help="Pairs of client and server, all active at once.")
@click.option("--hosts", default=1, show_default=True, help="Hosts; with several, clients and servers are apart.")
@click.option(
    "--traffic",
    type=click.Choice(advice.TRAFFIC),
    default="requests",
    show_default=True,
    help="Requests (with responses), or bulk.",
)
@click.option("--first", type=click.Choice(advice.FIRST), help="What decides; default: p99, of bulk throughput.")
@click.option(
    "--matter", type=click.Choice(advice.FIRST), multiple=True, help="What else counts, several times; default: cpu."
)
@click.option(
    "--margin", default=advice.MARGIN_PERCENT, show_default=True, help="Smaller differences, in percent, are ties."
)
@click.option(
    "--isolation", is_flag=True, help="Only networks that give each container a network namespace of its own."
)
@click.option("--exactly", is_flag=True, help="Leave a cell empty that was not measured as asked.")
@options.backend("Only this backend; default: each that has runs.")
@options.RUNS
@options.SWEEP
@click.option("--show-runs", is_flag=True, help="List the runs behind each number.")
@click.option(
    "--write-sweep",
    "file",
    type=click.Path(path_type=Path),
    help="Write a sweep file that measures the empty cells, and nothing else.",
)
@options.as_json()
def advise(where, root, sweep, backend, show_runs, file, as_json, **choices):
    """Say which network to take, by the stored runs.

    All are side by side with their ranks, which ties share, and those in grey that another one beats for sure.

    For 20 request/response services on two hosts, 99th percentile first:

    pairlab advise --pairs 20 --hosts 2 --first p99 --isolation

    NAME=VALUE takes only the runs that have this value, and so asks for other load beside, or a congestion control:

    pairlab advise --pairs 1 --hosts 2 background_pairs=4 congestion_control=cubic

    What was not measured as asked is told by the nearest runs there are, with their conditions; only numbers of the
    same conditions are ranked. How many runs are left out is said, and why.
    """
    from pairlab.analysis.advice import shown
    from pairlab.analysis.advice.question import Question
    from pairlab.apps import advice as apps

    choices |= {"first": choices["first"] or "", "margin_percent": choices.pop("margin")}
    question = Question(**choices, where=named_values.by_name(where))
    answer = apps.advise(question, root, sweep=sweep, backend=backend or "")
    written = apps.write_sweep(answer, file) if file else False
    if as_json:
        echo(json.dumps(shown.as_dict(answer) | {"sweep": apps.sweep_text(answer) or None}))
        return
    write(f"{question}\n")
    for name in answer.backends:
        for sentence in shown.sentences(answer, name):
            write(sentence)
        texts = shown.table(answer, name).drop(columns="Cannot").reset_index()  # the sentences say it
        styles = ["bright_black" if row.grey else "" for row in shown.rows_of(answer, name)]
        table(texts, texts.itertuples(index=False), styles)
    for note in (*shown.notes(answer), *shown.runs_used(answer)):
        write(note)
    if show_runs:
        _print_runs(answer)
    _print_missing(answer, file, written)


def _print_runs(answer):
    from pairlab.analysis.advice.question import CRITERIA

    out.print()
    for row in answer.rows:
        for name, cell in row.cells.items():
            if cell.runs:
                keys = " ".join(run.key for run in cell.runs)
                write(f"{row.network.backend} {row.network.name}, {CRITERIA[name].title}: {keys}")


def _print_missing(answer, file, written):
    from pairlab.apps import advice as apps

    if answer.substitutes and not answer.question.exactly:
        write(f"\n{answer.substitutes} numbers were not measured as asked: --exactly leaves them out.")
    if written:
        write(f"\nto measure what is missing: {apps.shown_command(file)}")
    elif file:
        out.print("\nnothing is missing that an experiment could measure: no sweep file was written")
    elif text := apps.sweep_text(answer):
        out.print(
            f"\n{answer.empty} cells are empty"
            " (--write-sweep FILE writes this sweep, pairlab sweep FILE measures it):\n"
        )
        out.print(text, markup=False, end="")
