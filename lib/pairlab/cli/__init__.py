"""pairlab's command line: a module for each group of commands, which imports heavy packages only when it runs."""

import click

from pairlab import paths
from pairlab._version import __version__
from pairlab.cli import calibrate, doctor, flow_sizes, reports, run, store
from pairlab.cli.comparison import advise, compare
from pairlab.cli.group import Group
from pairlab.cli.sweeps import sweep, workers
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
    allow_open_files()


for command in (
    doctor.doctor,
    run.run,
    sweep.sweep,
    workers.scheduler,
    workers.worker,
    reports.report,
    compare.compare,
    advise.advise,
    reports.claims,
    calibrate.calibrate,
    flow_sizes.cdf,
    store.list_runs,
    store.clean,
):
    main.add_command(command)
