"""The one place that prints. Names that others chose, of processes, folders or containers, are shown and not obeyed."""

import sys

from rich.console import Console  # noqa: TID251

from pairlab.base.foreign_files import escape_controls


def echo(text: object = "", *, err: bool = False) -> None:
    """Prints a line, on stderr if asked; above progress bars, which click.echo would overwrite."""
    stream = sys.stderr if err else sys.stdout
    if stream is not None:
        print(escape_controls(str(text)), file=stream, flush=True)


class PlainConsole(Console):
    """Rich's, for text in which no control character is meant."""

    def render_str(self, text, **options):
        return super().render_str(escape_controls(text), **options)
