"""The noise floor of this host."""

import contextlib
import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pairlab import paths
from pairlab.cli.group import NOT_DONE
from pairlab.cli.parameters import TakesParameters, parameters_option
from pairlab.cli.terminal import beside, out, steps
from pairlab.testbed.contracts import silent


@click.command(cls=TakesParameters)
@click.option("--backend", default="netns", show_default=True)
@click.option("--driver", default="bridge", show_default=True)
@click.option("--workload", default="auto", show_default=True)
@click.option(
    "--pairs", multiple=True, type=int, default=(10,), show_default=True,
    help="Number of pairs; may be given several times.",
)  # fmt: skip
@click.option("--repetitions", default=20, show_default=True, help="Repetitions; each measures every cell twice.")
@click.option("--duration", "duration_s", default=2.0, show_default=True, help="Seconds of each measurement.")
@click.option("--flow-bytes", default=0, help="Measure completion times too, of flows of this size.")
@click.option(
    "--plant", "costs", multiple=True, type=float, default=(5, 10, 20), show_default=True, metavar="PERCENT",
    help="Injected rate reductions to detect; may be given several times.",
)  # fmt: skip
@parameters_option("Set another parameter of every run.")
@click.option("--no-plant", is_flag=True, help="Inject no rate reductions.")
@click.option("--fresh", is_flag=True, help="Measure again what an earlier calibration measured.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def calibrate(costs, parameters, no_plant, fresh, as_json, **planned):
    """Measure the noise floor of this host: how far apart two equal measurements are.

    Every cell is measured as two, and links with a known rate reduction are measured beside them. The result is stored
    beside the runs; `pairlab claims` leaves smaller differences undecided. An interrupted calibration resumes. The exit
    status is 1 if equal cells were reported as different more often than chance allows, or an injected reduction was
    not detected.
    """
    from pairlab.analysis.comparison import noise_floor, noise_text
    from pairlab.apps import calibration as calibrations

    plan = calibrations.plan(**planned, costs_percent=() if no_plant else costs, more=dict(parameters))
    total = len(list(calibrations.visits(plan)))
    with contextlib.nullcontext() if as_json else steps(total, "measurements") as shown:

        def tell(number, total, spec, outcome, left_s):
            if shown:
                beside(f"{number:4}/{total} {spec}: {outcome}")
                shown.reached(number, total, left_s)

        found = calibrations.run(plan, fresh=fresh, tell=tell, progress=shown.phase if shown else silent)
    if as_json:
        click.echo(found.model_dump_json(by_alias=True, indent=1))
    else:
        for title, frame in noise_text.tables(found).items():
            table = Table(*map(str, frame), title=title, title_justify="left", box=None)
            for row in frame.itertuples(index=False):
                table.add_row(*map(escape, row))
            Console(highlight=False, width=160).print(table)
            out.print()
        if plan.not_planted:
            out.print(f"no differences were planted: {plan.not_planted}", markup=False)
        out.print(noise_text.summary(found), markup=False)
        kept = noise_floor.file_of(paths.runs(), found.host, found.backend)
        out.print(f"recorded in {paths.shown(kept)}", markup=False)
    if not found.trustworthy:
        sys.exit(NOT_DONE)
