"""What commands print over runs of runs/reference, as a page shows it: cut to its size, the same on every machine.

A command runs in a folder of its own, as in a reader's study, whose runs/ has the packs that the page names and
nothing else. It measures nothing: what a measurement prints depends on the machine.
"""

import contextlib
import shlex
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from pairlab import paths
from pairlab.cli import main, terminal
from pairlab.store.paths import untagged_stem

#: Characters of a line: of a page in a browser, or a wide terminal.
COLUMNS = 120


def output(experiments: str, lines: str, program: str, *arguments: str) -> str:
    """A block: the command behind a prompt, the first lines of what it prints, and its exit status unless that is 0.

    experiments: whose packs in runs/reference it reads, with commas between, or - for none; lines: how many are shown.
    Raises ValueError for another program than pairlab, or where there is no such pack.
    """
    command = shlex.join([program, *arguments])
    if program != "pairlab":
        raise ValueError(f"only the output of pairlab is made, not of {command}")
    with _study([] if experiments == "-" else experiments.split(",")):
        done = CliRunner(env=dict.fromkeys(paths.VARIABLES)).invoke(main, arguments, prog_name=program)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    status = ["$ echo $?", str(done.exit_code)] if done.exit_code else []
    shown = shortened(done.output.rstrip().splitlines(), int(lines))
    return "\n".join(["```console", f"$ {command}", *shown, *status, "```"])


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """The first lines in COLUMNS, and how many more there are. Sentences are wrapped; what stands in columns is cut."""
    found = [part for line in map(str.rstrip, lines) for part in (_wrapped(line) or [""])]
    left = len(found) - most
    return [*found[:most], f"… {left:,} more line{'s' * (left > 1)}"] if left > 0 else found


def _wrapped(line: str) -> list[str]:
    in_columns = "  " in line.strip()
    return [line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"] if in_columns else textwrap.wrap(line, COLUMNS)


@contextlib.contextmanager
def _study(experiments: Sequence[str]) -> Iterator[None]:
    """Within it, the current folder is a study whose store has the packs of these experiments."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "runs").mkdir()
        for experiment in experiments:
            (pack,) = (each for each in paths.REFERENCE.glob("*.pack") if untagged_stem(each) == experiment)
            shutil.copy(pack, folder / "runs")
        with (
            contextlib.chdir(folder),
            mock.patch.object(paths, "STUDY", folder),
            mock.patch.object(terminal.out, "soft_wrap", True),  # whole lines, as into a pipe
        ):
            yield
