"""The code in README.md, CONTRIBUTING.md and docs/: what a fenced block is for, its language says.

python, console  runs, in the order of the page: python in one namespace; pairlab's commands, each with what it printed
yaml             is loaded, where it is a sweep file; where the page has commands, the sweep is in the reader's study
sh               is for the reader's own shell: its pairlab and make commands are held against what there is
{toctree}        the build of the site reads, and fails where it cannot
toml, latex, text are only read

What a command prints over runs/reference is made (docs/site/generated.py), and held letter by letter. What one prints
that measures is recorded from a real run: `python -m tests.support.documents --record PAGE ...` writes it into the page
where its words have changed, or where other work disturbed it less now than then; a test runs it again and compares the
words (`matches`). SILENT has the commands that are shown without output.

`python -m tests.support.documents PAGE ...` runs pages in a process of their own; `study` makes the folder for it.
"""

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from pairlab import paths

RUN, PARSED, READ = ("python", "console"), ("yaml", "sh", "{toctree}"), ("toml", "latex", "text")
_MADE = re.compile(r"^<!-- made: (?:(?!<!-- made:).)*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MORE = re.compile(r"^… [\d,]+ more lines?$", re.MULTILINE)

#: The beginnings of pairlab's commands that pages show without their output, and why.
SILENT = {
    "lab": "serves until it is ended",
    "scheduler": "serves until it is ended",
    "worker": "serves until it is ended",
    "sweep --watch": "shows a sweep that runs elsewhere",
    "sweep smoke": "four minutes; docs/tutorial.md shows a sweep",
    "sweep sweeps/smoke.yaml --scheduler": "as above, and needs a scheduler",
    "sweep fill.yaml": "an hour",
    "sweep gate": "minutes, at several times of a day",
    "sweep hosts-uml": "an hour",
    "report": "a minute or more; docs/tutorial.md shows it",
    "search": "minutes, in steps that depend on the machine",
    "doctor": "of machines that the reader has; docs/start.md shows it",
    "run throughput -p backend=docker": "needs root",
    "run throughput -p backend=ssh": "needs machines that the reader has",
    "run throughput -p backend=uml": "needs user-mode Linux",
    "run causes -p driver=bridge -p profile=false -p capture=": "needs root",
    "run all-to-all -p workload=mpi": "needs mpi4py",
    "run single-host-modes -p workload=mpi": "needs mpi4py",
    "show": "of the run before it, which needs root",
    "cdf ./DCTCP_CDF": "reads a file that the reader has",
    "run launch-time": "invalid beside any other load, for which its experiment has no bound to lift",
    "compare --by background_pairs": "of the runs before it, one of each",
    "compare --by interference": "of the runs before it, one of each",
    "compare before after": "needs runs of two states of a system; docs/how-to/gate.md shows others",
    "compare baseline/ new": "needs runs of two states of a system; docs/how-to/gate.md shows others",
    "compare --by label": "needs runs of two states of a system",
    "compare --by kernel": "needs runs of several kernels",
    "compare --by host": "needs runs of several hosts",
    "compare --over host": "needs runs of several hosts",
    "compare --by driver --over host": "needs runs of several hosts",
    "ls --by kernel": "needs runs of several kernels",
    "claims --by host": "needs runs of several hosts",
}

#: Lines of output that a page shows of a command that is new in it.
LINES = 12
#: Quantities of a run may not hang on what else the machine does; not every experiment has such parameters.
ON_A_BUSY_MACHINE = {"max_foreign_cpu": "1", "max_skew_s": "5"}

#: What is said where other work took CPU time.
_BUSY = (
    r" \((?:others had|other processes)[^)]*(?:\)|$)| \[[^\]]*(?:\]|$)"
    r"|, (?:steadiness unknown|unsteady)|(?<=p50|p99) at most"
)
#: What is no part of a page's words, and what stands in its place.
_SHAPE = (
    (r"\s+", " "),
    (r"\d[\w ]*…", "…"),  # a number that is cut
    (r": (?:ok|invalid \(.*?\)): ", ": STATUS: "),
    (_BUSY, ""),
    (r"\b[0-9a-f]{16}(?:-[0-9a-f]{8})?\b", "KEY"),
    (r"(?<!\w)[-−+–]?\d[\d,.:]*(?:e[+-]?\d+)?(?!\w)", "0"),
    (r"(?:0 (?:h|min|s|ms|µs|ns)\b ?)+", "TIME "),
    (r"(?:takes|took|got|is) [^:]{1,40}? (?:than|as \w+ as)", "differs from"),
    (r"\b(?:holds in direction|holds|contradicted|undecided)\b", "VERDICT"),
    (r"(\w+) and (\w+) cannot be told apart", r"\1 differs from \2"),
    (r"\b\w[\w ]* of (\w+) differs from of (\w+)", r"\1 differs from \2"),
    (r"\A\s*[^,]+, 0 CPUs?, ", "MACHINE "),
    (r"\b0 [kMGT]?(bit/s|B)", r"0 \1"),
)


class Block(NamedTuple):
    """A fenced block. line: the first one of its text in the page, from 1."""

    page: str
    line: int
    language: str
    text: str


def pages() -> list[str]:
    """Every document, by its path from the root."""
    found = [*paths.ROOT.glob("*.md"), *(paths.ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(paths.ROOT)) for path in found)


def text_of(page: str) -> str:
    """The page without what is made of the code (docs/site/generated.py), in as many lines."""
    text = (paths.ROOT / page).read_text(encoding="utf-8")
    return _MADE.sub(lambda match: "\n" * match[0].count("\n"), text)


def blocks(page: str, *languages: str) -> list[Block]:
    """The page's blocks in these languages, or in any."""
    text = text_of(page)
    found = [
        Block(page, text.count("\n", 0, match.start(2)) + 1, match[1], match[2]) for match in _FENCE.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def commands(page: str, *languages: str) -> Iterator[str]:
    """The commands in these blocks, without prompts and comments; a line that ends in a backslash goes on."""
    for block in blocks(page, *languages):
        for line in block.text.replace("\\\n", " ").splitlines():
            told = line.removeprefix("$ ").split("  #")[0].strip()
            if block.language != "console" or line.startswith("$ "):
                yield told


# --- commands, and what they print


def transcript(block: Block) -> list[tuple[str, str]]:
    """The lines of commands in a console block, each as it stands there, with what the page shows that it prints."""
    found = re.split(r"^\$ (?!echo \$\?)((?:.*\\\n)*.*)\n", block.text, flags=re.MULTILINE)
    return list(zip(found[1::2], found[2::2], strict=True))


def matches(shown: str, printed: str) -> bool:
    """Whether output is in the words that a page shows, whole or up to where it is cut; … there stands for any words.

    Left out of both are numbers, units' prefixes, keys, widths, and what is said of other work on the machine.
    """
    cut = _MORE.search(shown)
    words = re.escape(_shape(shown[: cut.start()] if cut else shown)).replace("…", ".*?")
    return bool(re.match(words if cut else f"{words}$", _shape(printed)))


def _noise(text: str) -> int:
    return len(re.findall(f"{_BUSY}|: invalid ", text))


def _shape(text: str) -> str:
    for old, new in _SHAPE:
        text = re.sub(old, new, text, flags=re.DOTALL)
    return text.strip()


def printed(command: str) -> str:
    """What a command of pairlab prints here, with "$ echo $?" and its exit status behind, where that is not 0."""
    program, *words = shlex.split(command, comments=True)
    if program == "cd":
        os.chdir(*words)
        return ""
    assert program == "pairlab", f"a console block has commands of pairlab; others are sh: {command}"
    if words[0] == "run":
        known = subprocess.run([*_PAIRLAB, "run", words[1], "--help-parameters"], **_CAPTURED).stdout
        words += [f"-p{name}={value}" for name, value in ON_A_BUSY_MACHINE.items() if name in known]
    if words[0] == "sweep":
        _let_a_busy_machine(words[1])
    here = {name: value for name, value in os.environ.items() if name != "PAIRLAB_STUDY"}
    done = subprocess.run([*_PAIRLAB, *words], env=here, **_CAPTURED)
    may_be_invalid = words[0] == "run" and done.stdout.count("\nstored in ")
    if not done.returncode or may_be_invalid:
        return done.stdout
    return f"{done.stdout}{done.stderr}$ echo $?\n{done.returncode}\n"


_PAIRLAB = [sys.executable, "-m", "pairlab"]
_CAPTURED = {"capture_output": True, "text": True, "check": False}


# --- pages, from top to bottom


def study(folder: Path) -> dict[str, str]:
    """Makes a folder a study with the sweeps of the checkout. Returns the environment of commands there."""
    (folder / paths.STUDY_FILE).touch()
    shutil.copytree(paths.SWEEPS, folder / "sweeps")
    others = {name: value for name, value in os.environ.items() if name not in paths.VARIABLES}
    found = os.pathsep.join([str(folder), str(paths.ROOT), os.environ.get("PYTHONPATH", "")])
    flowgen = os.environ.get("PAIRLAB_FLOWGEN", "")
    return others | {"MPLBACKEND": "agg", "PYTHONPATH": found, "PAIRLAB_FLOWGEN": flowgen}


def run(page: str, *, record: bool = False) -> None:
    """Runs the page's blocks in their order, and then the functions of python blocks that are tests.

    record: writes into the page what commands print, where its words are others than the page shows; else that raises
    AssertionError.
    """
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), namespace)
        elif block.language == "yaml":
            _save_sweep(block.text)
        elif block.language == "console":
            _run_commands(block, record)
    for name, value in list(namespace.items()):
        if name.startswith("test_"):
            value()


def _save_sweep(text: str) -> None:
    sweep = yaml.safe_load(text)
    if "experiments" in sweep:
        Path("sweeps", f"{sweep['name']}.yaml").write_text(text)


def _let_a_busy_machine(sweep: str) -> None:
    """Has the cells of that sweep of this study borne with other load, as runs are."""
    (file,) = [each for each in (Path(sweep), Path("sweeps", f"{sweep}.yaml")) if each.is_file()]
    content = yaml.safe_load(file.read_text())
    for grids in content["experiments"].values():
        for grid in grids if isinstance(grids, list) else [grids]:
            grid |= {name: float(value) for name, value in ON_A_BUSY_MACHINE.items()}
    file.write_text(yaml.safe_dump(content))


def _run_commands(block: Block, record: bool) -> None:
    for command, shown in transcript(block):
        output = printed(command)
        if matches(shown, output) and not (record and _noise(shown) > _noise(output)):
            continue
        if not record:
            lines = difflib.ndiff(shown.splitlines(), output.splitlines())
            raise AssertionError(f"{block.page}, $ {command}: prints other words than shown:\n" + "\n".join(lines))
        _write(block.page, command, shown, output)


def _write(page: str, command: str, shown: str, output: str) -> None:
    """Output in place of what the page shows, cut to as many lines."""
    from printed import shortened

    cut = _MORE.search(shown)
    most = shown[: cut.start()].count("\n") if cut else max(shown.count("\n"), LINES)
    new = "\n".join([*shortened(output.rstrip().splitlines(), most), ""])
    file = paths.ROOT / page
    before, found, after = file.read_text(encoding="utf-8").partition(f"$ {command}\n{shown}")
    assert found, f"{page} has changed meanwhile"
    file.write_text(f"{before}$ {command}\n{new}{after}", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """`PAGE ...` in the current folder, `--record PAGE ...` each in a study of its own."""
    from tests.support.any_machine import count_disturbed_runs

    if arguments[0] == "--record":
        for page in arguments[1:]:
            with tempfile.TemporaryDirectory() as name:
                command = [sys.executable, "-m", "tests.support.documents", "--record-here", page]
                subprocess.run(command, cwd=name, env=study(Path(name)), check=True)
        return
    count_disturbed_runs()
    sys.path.insert(0, str(paths.ROOT / "docs" / "site"))
    for page in arguments:
        if page != "--record-here":
            run(page, record="--record-here" in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
