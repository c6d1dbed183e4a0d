"""The parts of pages that are made: a line `<!-- made: NAME WORDS -->` stands for what PARTS[NAME](WORDS) returns.

Whatever the code says already, a column's meaning or an option's help, is taken from there and written nowhere else.
"""

import re
from collections.abc import Callable
from pathlib import Path

import gallery
import networks
import reference

from pairlab import paths

PICTURES = paths.ROOT / "docs" / "pictures"
_MADE = re.compile(r"^<!-- made: (\S+)(.*?) -->$", re.MULTILINE)


def expand(markdown: str) -> str:
    """The page with each such line replaced. Raises KeyError for a name that there is not."""
    return _MADE.sub(lambda match: PARTS[match[1]](*match[2].split()), markdown)


def analyses() -> list[Path]:
    """The analysis notebooks, in their order."""
    return sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb"))


def picture(name: str, *words: str) -> str:
    """A screenshot with its words; a place for it, where nobody has made one yet."""
    file, told = PICTURES / f"{name}.png", " ".join(words)
    return f"![{told}](pictures/{name}.png){{ .screenshot }}" if file.exists() else f"*{told}.*"


def drawing(name: str) -> str:
    """A drawing as part of the page, so that it has the page's colours."""
    return " ".join((PICTURES / f"{name}.svg").read_text(encoding="utf-8").split())


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
    "errors": reference.exceptions,
    "commands": reference.commands,
    "environment": reference.environment,
    "gallery": lambda: gallery.page(analyses()),
    "picture": picture,
    "drawing": drawing,
}
