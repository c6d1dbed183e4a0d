"""This host's noise."""

import contextlib
import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pairlab import paths
from pairlab.cli.group import NOT_DONE
from pairlab.cli.parameters import value_of
from pairlab.cli.terminal import beside, out, steps
from pairlab.testbed.contracts import silent


@click.command()
@click.option("--backend", default="netns", show_default=True)
@click.option("--driver", default="bridge", show_default=True)
@click.option("--workload", default="auto", show_default=True)
@click.option("--pairs", multiple=True, type=int, default=(10,), show_default=True, help="Several may be given.")
@click.option("--repetitions", default=20, show_default=True, help="Each measures every cell twice.")
@click.option("--duration", "duration_s", default=2.0, show_default=True, help="Of each measurement, in seconds.")
@click.option("--flow-bytes", default=0, help="Completion times too, of flows of so many bytes.")
@click.option(
    "--plant", "costs", multiple=True, type=float, default=(5, 10, 20), show_default=True, metavar="PERCENT",
    help="Shaped links that carry so much less, to be found.",
)  # fmt: skip
@click.option("-p", "parameters", nargs=2, multiple=True, metavar="NAME VALUE", help="Another parameter of every run.")
@click.option("--no-plant", is_flag=True, help="Plant no differences.")
@click.option("--fresh", is_flag=True, help="Measure again what an earlier calibration has measured.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def calibrate(
    backend, driver, workload, pairs, repetitions, duration_s, flow_bytes, costs, parameters, no_plant, fresh, as_json
):
    """Measure the noise floor of this host: the same thing as if it were two, and planted differences.

    The result is kept beside the runs, and `pairlab claims` calls nothing decided that is smaller. Goes on where it
    was interrupted. Exit status 1 where a difference was reported between equals more often than chance allows, or a
    planted one was not found.
    """
    from pairlab import calibration as calibrations
    from pairlab.analysis import floors, noise_layout

    plan = calibrations.plan(
        backend=backend,
        driver=driver,
        workload=workload,
        pairs=pairs,
        repetitions=repetitions,
        duration_s=duration_s,
        flow_bytes=flow_bytes,
        costs_percent=() if no_plant else costs,
        more={name: value_of(value) for name, value in parameters},
    )
    total = len(list(calibrations.visits(plan)))
    with contextlib.nullcontext() if as_json else steps(total, "measurements") as shown:

        def tell(number, total, spec, told, left_s):
            if shown:
                beside(f"{number:4}/{total} {spec}: {told}")
                shown.reached(number, total, left_s)

        found = calibrations.run(plan, fresh=fresh, tell=tell, progress=shown.phase if shown else silent)
    if as_json:
        click.echo(found.model_dump_json(by_alias=True, indent=1))
    else:
        for title, frame in noise_layout.tables(found).items():
            table = Table(*map(str, frame), title=title, title_justify="left", box=None)
            for row in frame.itertuples(index=False):
                table.add_row(*map(escape, row))
            Console(highlight=False, width=160).print(table)
            out.print()
        if plan.not_planted:
            out.print(f"no differences were planted: {plan.not_planted}", markup=False)
        out.print(noise_layout.summary(found), markup=False)
        kept = floors.file_of(paths.runs(), found.host, found.backend)
        out.print(f"recorded in {paths.shown(kept)}", markup=False)
    if not found.trustworthy:
        sys.exit(NOT_DONE)
