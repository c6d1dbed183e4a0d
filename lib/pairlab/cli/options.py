"""Options of several commands; and parameters of experiments, -p NAME=VALUE."""

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from pairlab.base import named_values


class LateChoice(click.Choice):
    """A choice of what is found when it is used, or its command's help is shown: `pairlab --help` loads nothing."""

    def __init__(self, found: Callable[[], Iterable[str]]):
        self._found = found
        self.case_sensitive = True

    @cached_property
    def choices(self) -> Any:  # type: ignore[override]
        return tuple(self._found())


def _backends() -> list[str]:
    from pairlab.testbed.registry import backends

    return backends.names()


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


def backend(help: str, **more: Any):
    """The option --backend, of those that there are."""
    return click.option("--backend", type=LateChoice(_backends), help=help, **more)


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
