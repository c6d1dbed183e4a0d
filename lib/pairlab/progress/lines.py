"""Progress that is read later, such as in a log: a line on stderr for each phase."""

import click

from pairlab.progress.words import Phases, extent


class Lines:
    """A Progress that prints when a phase starts, and how much it has to do."""

    def __init__(self):
        self._phases = Phases()

    def __call__(self, phase: str, done: float, total: float) -> None:
        if not self._phases.goes_on(phase):
            click.echo(f"pairlab: {extent(phase, total)}", err=True)
