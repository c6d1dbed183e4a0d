"""pairlab's command line: a module for each group of commands; a command imports heavy packages only when it runs."""

import os
import sys

import click

from pairlab import paths
from pairlab._version import __version__
from pairlab.cli import comparison, flow_sizes, host, reports, run, store, study, sweep
from pairlab.cli.terminal import Group
from pairlab.testbed.requirements import allow_open_files

EPILOG = "\b\nEnvironment variables (relative paths count from the current directory):\n" + "\n".join(
    f"  {name:15}  {meaning.partition(';')[0]}" for name, meaning in paths.VARIABLES.items()
)


@click.group(cls=Group, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pairlab")
def main():
    """Measure how containers that share a host compete for its network.

    \b
    pairlab doctor                        what this machine can do
    pairlab run throughput -p pairs=5     measure once
    pairlab sweep sweeps/smoke.yaml       measure a whole grid; resumes where it was interrupted
    pairlab report                        results, figures and the paper
    """
    if sys.flags.ignore_environment:  # as set up in .venv: what this starts does not read the user's PYTHON*, either
        for name in [each for each in os.environ if each.startswith("PYTHON")]:
            del os.environ[name]
    allow_open_files()
    if (
        not (context := click.get_current_context(silent=True)) or context.invoked_subcommand != "lab"
    ):  # a terminal in JupyterLab is its user's
        os.environ["MPLBACKEND"] = "agg"  # commands draw into files, without a window


for module in (comparison, flow_sizes, host, reports, run, store, study, sweep):
    for command in vars(module).values():
        if isinstance(command, click.Command):
            main.add_command(command)
