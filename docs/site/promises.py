"""What tests hold pairlab to: each module's docstring begins with it."""

import ast
from pathlib import Path

from pairlab import paths

TESTS = paths.ROOT / "tests"


def tests(*patterns: str) -> str:
    """A list of test modules, by their paths from tests/ without .py: what each is about, and a link to it.

    Raises ValueError for a pattern that no module matches.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        modules = sorted(TESTS.glob(f"{pattern}.py"))
        if not modules:
            raise ValueError(f"no test is in tests/{pattern}.py")
        found |= dict.fromkeys(each for each in modules if each.name.startswith("test_"))
    return "\n".join(map(_module, found))


def _module(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    about = docstring.partition("\n\n")[0].replace("\n", " ").removeprefix("Promise: ")
    name = file.relative_to(TESTS).with_suffix("")
    return f"- {about[:1].upper()}{about[1:].rstrip('.')} ([{name}](../../tests/{name}.py))"
