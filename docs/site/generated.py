"""The parts of pages that are made: `<!-- made: NAME WORDS -->`, what PARTS[NAME](WORDS) returns, and `<!-- end -->`.

Whatever the code says already, a column's meaning or an option's help, is taken from there and written nowhere else; so
is what a command prints. Words are quoted as in a shell.
`python docs/site/generated.py` writes the parts into the pages; they are committed, and read in the repository, too.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import gallery
import networks
import printed
import promises
import reference

from pairlab import paths

DOCS = paths.ROOT / "docs"
_MADE = re.compile(
    r"^<!-- made: (\S+)([^\n]*?) -->$(?:\n(?:(?!<!-- made:).)*?^<!-- end -->$)?", re.MULTILINE | re.DOTALL
)


def written(markdown: str) -> str:
    """The page with each part made anew behind its line. Raises KeyError for an unknown name."""

    def part(match: re.Match) -> str:
        made = PARTS[match[1]](*shlex.split(match[2]))
        return f"<!-- made: {match[1]}{match[2]} -->\n\n{made.strip()}\n\n<!-- end -->"

    return _MADE.sub(part, markdown)


def pages() -> list[Path]:
    """The pages that have such parts."""
    every = [paths.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in every if _MADE.search(page.read_text(encoding="utf-8"))]


PARTS: dict[str, Callable[..., str]] = {
    "columns": reference.columns,
    "checks": reference.checks,
    "parameters": reference.parameters,
    "sweep-keys": reference.sweep_keys,
    "grid-words": reference.grid_words,
    "until-keys": reference.until_keys,
    "estimates": reference.estimates,
    "plugins": reference.plugins,
    "features": reference.features,
    "network": networks.network,
    "isolations": networks.isolations,
    "api": reference.api,
    "errors": reference.exceptions,
    "commands": reference.commands,
    "environment": reference.environment,
    "gallery": gallery.page,
    "output": printed.output,
    "tests": promises.tests,
}


if __name__ == "__main__":
    for each in pages():
        each.write_text(written(each.read_text(encoding="utf-8")), encoding="utf-8")
