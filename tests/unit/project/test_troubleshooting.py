"""The messages that docs/troubleshooting.md explains are those of the code."""

import ast
import re

import pytest

from pairlab import paths

PAGE = paths.ROOT / "docs" / "troubleshooting.md"
MESSAGES = re.findall(r"^### `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
#: What differs from one message to the next: a value in a check's sentence, and in the page.
_DIFFERS = re.compile(r"\{[^{}]*\}|…")


def texts(source):
    """Every string of a module; in a formatted one, an ellipsis is in place of each value."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def said():
    """What the code can say, a line for each string."""
    files = [paths.ROOT / "lib" / "bootstrap.py", *(paths.ROOT / "lib" / "pairlab").rglob("*.py")]
    found = (text for file in files for text in texts(file.read_text(encoding="utf-8")))
    return "\n".join(" ".join(text.split()) for text in found)


def test_every_message_of_the_page_is_in_the_code(said):
    assert len({*MESSAGES}) == len(MESSAGES) > 40
    unknown = []
    for message in MESSAGES:
        fixed = [re.escape(part.strip()) for part in _DIFFERS.split(message) if part.strip(" :.,")]
        if not re.search("[^\n]*?".join(fixed), said):
            unknown.append(message)
    assert not unknown, "the messages of docs/troubleshooting.md that no code prints any more"
