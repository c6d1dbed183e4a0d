"""Measuring one experiment."""

import sys

import click

from pairlab import paths
from pairlab.cli.group import NOT_DONE
from pairlab.cli.parameters import value_of
from pairlab.cli.terminal import event, out, phases, say
from pairlab.progress.words import Phases, split


@click.command()
@click.argument("experiment")
@click.option("-p", "parameters", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter of the notebook.")
@click.option("--fresh", is_flag=True, help="Measure again even if there is such a run; the old one is kept.")
@click.option("--no-wait", is_flag=True, help="Fail if another measurement is running on this host.")
@click.option("--json", "as_json", is_flag=True, help="For programs: a line for each phase, and one for the run.")
def run(experiment, parameters, fresh, no_wait, as_json):
    """Run one EXPERIMENT's notebook (papermill) into the store."""
    from pairlab import experiments

    values = {name: value_of(value) for name, value in parameters}
    if fresh:
        values["fresh"] = True
    asked = {"wait": not no_wait, "say": say}
    if as_json:
        done = experiments.run(experiment, values, progress=_events(), **asked)
        event("run", **_told(done))
    else:
        with phases() as progress:
            done = experiments.run(experiment, values, progress=progress, **asked)
        out.print(str(done), markup=False)
        out.print(f"stored in {paths.shown(done.path)}", markup=False)
    if done.status != "ok":
        sys.exit(NOT_DONE)


def _events():
    """A Progress that tells programs when a phase begins."""
    seen = Phases()

    def progress(phase, done, total):
        if not seen.goes_on(phase):
            name, unit = split(phase)
            event("phase", phase=name, total=total or None, unit=unit or None)

    return progress


def _told(done):
    """A run for programs, in base units."""
    return {
        "experiment": done.spec.experiment,
        "key": done.key,
        "status": done.status,
        "reasons": list(done.reasons),
        "total_throughput_bps": done.total_throughput_bps if len(done.flows) else None,
        "flows": len(done.flows),
        "failed_flows": done.failed_flows,
        "path": str(done.path),
    }
