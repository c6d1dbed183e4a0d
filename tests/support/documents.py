"""The code in README.md, CONTRIBUTING.md and docs/: what a fenced block is for, its language says.

python, console  runs: a page's python blocks in one namespace, in their order, then its console commands
yaml             is loaded, where it is a sweep file
sh               is for the reader's own shell: its pairlab and make commands are held against what there is
{toctree}        the build of the site reads, and fails where it cannot
toml, latex, text are only read

Python runs in a process of its own (`python -m tests.support.documents PAGE ...`), in a folder and with a store of its
own.
"""

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from pairlab import paths

RUN, PARSED, READ = ("python", "console"), ("yaml", "sh", "{toctree}"), ("toml", "latex", "text")
_MADE = re.compile(r"^<!-- made: (?:(?!<!-- made:).)*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


def run(page: str) -> None:
    """Runs the page's python blocks, and then the functions among them that are tests."""
    namespace = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), namespace)
    for name, value in list(namespace.items()):
        if name.startswith("test_"):
            value()


if __name__ == "__main__":
    from tests.support.any_machine import count_disturbed_runs

    count_disturbed_runs()
    for each in sys.argv[1:]:
        run(each)
