"""How commands end: errors as one line and an exit status."""

import errno
import io
import sys

import click

from pairlab.errors import BadInput, PairlabError

#: Exit statuses beside 0: something failed or is incomplete; wrong input; this host cannot do it (a sweep: any of it).
NOT_DONE, WRONG_INPUT, UNAVAILABLE = 1, 2, 3


class Group(click.Group):
    """Turns pairlab's errors into one line and an exit status."""

    def main(self, *arguments, **named):
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="replace")  # a terminal may have no blocks, arrows or µ
        return super().main(*arguments, **named)

    def invoke(self, context):
        try:
            return super().invoke(context)
        except BadInput as error:
            fail(error, WRONG_INPUT)
        except PairlabError as error:
            fail(error, UNAVAILABLE if type(error).__name__ == "Unavailable" else NOT_DONE)
        except OSError as error:
            if error.errno == errno.EPIPE:  # `pairlab ls | head`: click handles it
                raise
            where = f"{error.filename}: " if error.filename else ""
            advice = "check the disk's free space, permissions and limits, then run the command again"
            fail(f"{where}{error.strerror or error}: {advice}", NOT_DONE)
        except KeyboardInterrupt:
            fail("interrupted: the host is clean, and finished runs are kept", 130)


def fail(why, status):
    click.echo(f"pairlab: {why}", err=True)
    sys.exit(status)
