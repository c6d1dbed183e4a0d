"""pairlab's command line: a module for each group of commands, which imports what is heavy only when it runs."""

import click

from pairlab import __version__
from pairlab.cli import analysing, calibrating, doctor, keeping, running, sweeping
from pairlab.cli.group import Group


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pairlab")
def main():
    """Measure how containers that share a host contend for its network."""


for command in (
    doctor.doctor,
    running.run,
    sweeping.sweep,
    analysing.report,
    analysing.claims,
    calibrating.calibrate,
    keeping.list_runs,
    keeping.clean,
):
    main.add_command(command)
