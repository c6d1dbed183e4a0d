"""Measuring one experiment."""

import sys
from datetime import UTC, datetime

import click

from pairlab import paths
from pairlab.base.units import none_if_nan
from pairlab.cli.group import NOT_DONE
from pairlab.cli.parameters import TakesParameters, parameters_option
from pairlab.cli.terminal import event, out, phases, say
from pairlab.progress.words import Phases, split


@click.command(cls=TakesParameters)
@click.argument("experiment")
@parameters_option("Set a parameter of the notebook, such as -p pairs=5; may be given several times.")
@click.option("--fresh", is_flag=True, help="Measure again even if this run is stored; the older one is kept.")
@click.option("--no-wait", is_flag=True, help="Fail if another measurement is running on this host.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a line for each phase, and one for the run.")
def run(experiment, parameters, fresh, no_wait, as_json):
    """Measure one EXPERIMENT and store the run.

    EXPERIMENT is the name of a notebook in notebooks/experiments, such as throughput, or the path of a notebook of your
    own, such as ./mine.ipynb. The notebook is executed with papermill, and stored beside its results.
    """
    from pairlab.batch import experiments

    experiment = experiments.named(experiment)
    values = dict(parameters)
    if fresh:
        values["fresh"] = True
    begun = datetime.now(UTC)
    asked = {"wait": not no_wait, "say": say}
    if as_json:
        done = experiments.run(experiment, values, progress=_events(), **asked)
        event("run", **_as_data(done))
    else:
        with phases() as progress:
            done = experiments.run(experiment, values, progress=progress, **asked)
        out.print(str(done), markup=False)
        where = paths.shown(done.path)
        known = done.measured_at and done.measured_at < begun
        out.print(f"from the store, {done.measured}: {where}" if known else f"stored in {where}", markup=False)
    if done.status != "ok":
        sys.exit(NOT_DONE)


def _events():
    """A Progress that prints a JSON line when a phase begins."""
    seen = Phases()

    def progress(phase, done, total):
        if not seen.goes_on(phase):
            name, unit = split(phase)
            event("phase", phase=name, total=total or None, unit=unit or None)

    return progress


def _as_data(done):
    """A run as plain data, in base units."""
    return {
        "experiment": done.spec.experiment,
        "key": done.key,
        "status": done.status,
        "reasons": list(done.reasons),
        "total_throughput_bps": done.total_throughput_bps if len(done.flows) else None,
        "common_throughput_bps": none_if_nan(done.common_throughput_bps),
        "flows": len(done.flows),
        "failed_flows": done.failed_flows,
        "path": str(done.path),
    }
