"""Commands of experiments: measure one, search the largest load that is borne, and check the parameter cells."""

import contextlib
import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from pairlab import paths
from pairlab.base import units
from pairlab.base.caller import caller_with
from pairlab.base.printing import echo
from pairlab.cli import options
from pairlab.cli.terminal import NOT_DONE, event, fail, phases, say, write
from pairlab.progress.describe import Phases, split


@click.command(cls=options.TakesParameters)
@click.argument("experiment")
@options.parameters("Set a parameter of the notebook, such as -p pairs=5; may be given several times.")
@click.option("--help-parameters", is_flag=True, help="List the parameters that EXPERIMENT takes; measure nothing.")
@options.FRESH
@options.LABEL
@options.NO_WAIT
@options.as_json("a line for each phase, and one for the run")
def run(experiment, parameters, help_parameters, fresh, label, no_wait, as_json):
    """Measure one EXPERIMENT and store the run.

    EXPERIMENT is the name of a notebook in notebooks/experiments, such as throughput, or the path of a notebook of your
    own, such as ./mine.ipynb. The notebook is executed with papermill, and stored beside its results.
    """
    from pairlab.batch import experiments

    experiment = experiments.named(experiment)
    if help_parameters:
        for name, parameter in experiments.parameters(experiment).items():
            write(f"{name} = {parameter.default!r}  # {parameter.meaning}")
        return
    values = dict(parameters) | ({"fresh": True} if fresh else {})
    begun = datetime.now(UTC)
    with contextlib.nullcontext(_events()) if as_json else phases() as progress, caller_with(label=label):
        done = experiments.run(experiment, values, progress=progress, wait=not no_wait, say=say)
    assert done.path
    if as_json:
        event(
            "run",
            experiment=done.spec.experiment,
            key=done.key,
            status=done.status,
            reasons=list(done.reasons),
            total_throughput_bps=done.total_throughput_bps if len(done.flows) else None,
            common_throughput_bps=units.none_if_nan(done.common_throughput_bps),
            flows=len(done.flows),
            failed_flows=done.failed_flows,
            path=str(done.path),
        )
    else:
        write(done)
        where = paths.shown(done.path)
        was_stored = done.measured_at and done.measured_at < begun
        write(f"from the store, {done.measured}: {where}" if was_stored else f"stored in {where}")
    if done.status != "ok":
        sys.exit(NOT_DONE)


def _events():
    """A Progress that prints a JSON line at the begin of each phase."""
    history = Phases()

    def progress(phase, done, total):
        if not history.goes_on(phase):
            name, unit = split(phase)
            event("phase", phase=name, total=total or None, unit=unit or None)

    return progress


def _loads():
    from pairlab.apps.rate_search import LOADS

    return LOADS


@click.command(cls=options.TakesParameters)
@click.argument("experiment")
@options.parameters("Set a parameter of the notebook, such as -p pairs=5; may be given several times.")
@click.option("--over", type=options.LateChoice(_loads), required=True, help="The load.")
@click.option("--from", "low", required=True, help="The least load that is tried, such as 1000 or '100 Mbit/s'.")
@click.option("--to", "high", required=True, help="The most.")
@click.option("--while", "limits", multiple=True, required=True, help="A limit: 'p99 <= 1 ms', 'loss <= 0.1 %', ….")
@click.option("--repetitions", default=3, show_default=True, help="At each load.")
@click.option(
    "--within", default=0.05, show_default=True, help="Search until the load is known this closely, as a share."
)
@click.option("--attempts", default=3, show_default=True, help="Measure a repetition so often if it is disturbed.")
@options.as_json()
def search(experiment, parameters, over, low, high, limits, repetitions, within, attempts, as_json):
    """Search the largest load that stays within limits.

    It halves the distance between a load that is borne and one that is not, with some repetitions at each; every run is
    stored, so that a search that was interrupted goes on.

    pairlab search latency -p driver=macvlan --over requests_per_s --from 1000 --to 200000 --while "p99 <= 1 ms"

    Exit status 0 if such a load was found between the bounds, else 1: the least is not borne, or the most is.
    """
    from pairlab.apps import rate_search
    from pairlab.batch import experiments
    from pairlab.measurement.measure import Cell, resolve
    from pairlab.model.spec import Spec

    experiment = experiments.named(experiment)
    bounds = float(Spec.as_field(over, low)), float(Spec.as_field(over, high))
    bounded = [rate_search.Limit.of(each) for each in limits]
    whole = isinstance(Spec.model_fields[over].default, int)
    spec = experiments.spec_of(experiment, dict(parameters) | {over: int(bounds[0]) if whole else bounds[0]})
    Cell(resolve(spec)).plan  # noqa: B018 - raises before the first measurement if this host cannot measure the cell
    unit = units.unit_of(over)

    def text(load):
        return units.describe(load, unit)

    def tell(tried):
        means = ", ".join(f"{each.text}: it is {each.shown(tried.means[each.text])}" for each in bounded)
        if not as_json:
            write(f"{over} {text(tried.load)}: {f'borne ({means})' if tried.borne else f'not borne, {tried.why_not}'}")

    with phases() as progress:

        def measure(each):
            return experiments.measure_cell(Cell(resolve(each)), attempts=attempts, say=say, progress=progress)

        result = rate_search.search(
            spec, over, bounds, bounded, measure, repetitions=repetitions, within=within, tell=tell
        )
    decided = not (math.isnan(result.borne) or math.isnan(result.refused))
    if as_json:
        tried = [
            {
                "load": each.load,
                "borne": each.borne,
                "means": {name: units.none_if_nan(value) for name, value in each.means.items()},
                "why": each.why_not,
            }
            for each in result.tried
        ]
        ends = {"borne": units.none_if_nan(result.borne), "refused": units.none_if_nan(result.refused)}
        echo(json.dumps({"over": over, **ends, "tried": tried}))
    elif decided:
        write(f"{over}: {text(result.borne)} is borne, and {text(result.refused)} is not")
    elif math.isnan(result.borne):
        write(f"{over}: not even {text(bounds[0])} is borne")
    else:
        write(f"{over}: {text(result.borne)} is borne, too: search further up")
    if not decided:
        sys.exit(NOT_DONE)


@click.command()
@click.argument("notebooks", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--sync", is_flag=True, help="Write the cells anew.")
def notebooks(notebooks, sync):
    """Check the parameter cells of experiments' notebooks.

    Behind each parameter stands what the Spec says of it, and what the experiment is about stands above what all have.
    Without NOTEBOOKS, those of pairlab. Exits with status 1 where a cell is not so and --sync is not given.
    """
    from pairlab.batch import experiments, parameter_cells

    outdated = parameter_cells.out_of_date(notebooks or experiments.notebooks().values(), write=sync)
    for path in outdated:
        write(f"{'written' if sync else 'out of date'}: {paths.shown(path.absolute())}")
    if outdated and not sync:
        fail("write these cells with: pairlab notebooks --sync", NOT_DONE)
