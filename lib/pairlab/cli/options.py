"""Options of several commands; and parameters of experiments, -p NAME=VALUE."""

from pathlib import Path

import click

from pairlab.base import named_values

RUNS = click.option(
    "--runs",
    "root",
    type=click.Path(path_type=Path),
    help="Folder of runs; default: PAIRLAB_RUNS, else runs/ in the study.",
)
SWEEP = click.option(
    "--sweep", default="", help="Only the runs of that sweep, of NAME/BACKEND, or with a label: NAME@LABEL, @LABEL."
)
LABEL = click.option("--label", default="", help="What you call the state of the system: before, after, a commit, ….")
FRESH = click.option("--fresh", is_flag=True, help="Measure again what is stored; the older runs are kept.")
NO_WAIT = click.option("--no-wait", is_flag=True, help="Fail if another measurement is running on this host.")
SCHEDULER = click.option("--scheduler", default="", help="Use the workers of this Dask scheduler, tls://HOST:PORT.")
CREDENTIALS = click.option(
    "--credentials",
    type=click.Path(dir_okay=False),
    help="Key and certificate that the scheduler makes, by default in ~/.config/pairlab/scheduler.pem.",
)


def as_json(of: str = ""):
    """The option --json. of: the printed lines, if there are several."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON{of and f': {of}'}.")


def parameters(help):
    """The option -p, which may be repeated; its values are tuples (name, text)."""
    return click.option("-p", "parameters", nargs=2, multiple=True, metavar="NAME=VALUE", help=help)


class TakesParameters(click.Command):
    """A command with `parameters`: accepts -p NAME=VALUE and papermill's -p NAME VALUE."""

    def parse_args(self, context, args):
        words = []
        for word in args:
            if word.startswith("-p") and (named := named_values.split(word[2:])):  # -pNAME=VALUE
                words += ["-p", *named]
            elif words and words[-1] == "-p" and (named := named_values.split(word)):
                words += named
            else:
                words.append(word)
        return super().parse_args(context, words)
