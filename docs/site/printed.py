"""What commands print over runs of runs/reference, as a page shows it: cut to its size, the same on every machine.

Commands run in a folder of their own, as in a reader's study, whose runs/ has the packs that the page names and
nothing else. They measure nothing: what a measurement prints depends on the machine.
"""

import contextlib
import re
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

#: The end of the name of a run's folder, which is another one each time.
_OWN_END = re.compile(r"(?<=\b[0-9a-f]{16})-(?:[0-9a-f]{8}|\d{19})\b")
#: Characters of a line: of a page in a browser, or a wide terminal.
COLUMNS = 120


def output(experiments: str, lines: str, *words: str) -> str:
    """A block: each command behind a prompt, the first lines of what it prints, and its exit status unless that is 0.

    experiments: whose packs in runs/reference are in runs/, or with NAME:FOLDER in ~/FOLDER, with commas between, or -
    for none; lines: how many are shown; words: commands with && between, all in one study. Raises ValueError for a
    program that is not pairlab, or where there is no such pack.
    """
    found: list[str] = []
    with _study([] if experiments == "-" else experiments.split(",")) as home:
        for one in "\0".join(words).split("\0&&\0"):
            found += _command(one.split("\0"), home, int(lines))
    return "\n".join(["```console", *found, "```"])


def _command(words: list[str], home: Path, lines: int) -> list[str]:
    program, *arguments = words
    told = re.sub(r"'(~[\w/.-]*)'", r"\1", shlex.join(words))
    if program != "pairlab":
        raise ValueError(f"only the output of pairlab is made, not of {told}")
    arguments = [f"{home}{each[1:]}" if each.startswith("~/") else each for each in arguments]
    done = CliRunner(env=dict.fromkeys(paths.VARIABLES)).invoke(main, arguments, prog_name=program)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    status = ["$ echo $?", str(done.exit_code)] if done.exit_code else []
    printed = _OWN_END.sub("-…", done.output.replace(str(home), "~")).rstrip().splitlines()
    return [f"$ {told}", *shortened(printed, lines), *status]


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """The first lines in COLUMNS, and how many more there are. Sentences are wrapped; what stands in columns is cut."""
    found = [part for line in map(str.rstrip, lines) for part in (_wrapped(line) or [""])]
    left = len(found) - most
    return [*found[:most], f"… {left:,} more line{'s' * (left > 1)}"] if left > 0 else found


def _wrapped(line: str) -> list[str]:
    in_columns = "  " in line.strip()
    return [line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"] if in_columns else textwrap.wrap(line, COLUMNS)


@contextlib.contextmanager
def _study(experiments: Sequence[str]) -> Iterator[Path]:
    """Within it, the current folder is a study whose store has the packs of these experiments. Yields the one above."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        folder = home / "study"
        for experiment, _, elsewhere in (each.partition(":") for each in experiments):
            (pack,) = (each for each in paths.REFERENCE.glob("*.pack") if untagged_stem(each) == experiment)
            store = home / (elsewhere or "study/runs")
            store.mkdir(parents=True, exist_ok=True)
            shutil.copy(pack, store)
        folder.mkdir(exist_ok=True)
        with (
            contextlib.chdir(folder),
            mock.patch.object(paths, "STUDY", folder),
            mock.patch.object(terminal.out, "soft_wrap", True),  # whole lines, as into a pipe
        ):
            yield home
