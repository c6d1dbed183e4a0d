"""Progress where nobody looks at it live, such as in a log: a line on stderr for each phase."""

import click

from pairlab.progress.words import Phases, extent


class Lines:
    """A Progress that says when a phase begins, and how much there is to do in it."""

    def __init__(self):
        self._phases = Phases()

    def __call__(self, phase: str, done: float, total: float) -> None:
        if not self._phases.goes_on(phase):
            click.echo(f"pairlab: {extent(phase, total)}", err=True)
