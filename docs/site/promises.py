"""What tests hold pairlab to: their names are sentences, and the docstring of a module says what they are about."""

import ast
from pathlib import Path

from pairlab import paths

TESTS = paths.ROOT / "tests"
_SPELT = {"udp": "UDP", "tcp": "TCP", "cpu": "CPU", "cpus": "CPUs", "mpi": "MPI", "yaml": "YAML", "json": "JSON"}


def tests(*patterns: str) -> str:
    """A list of modules, by their paths from tests/ without .py, each with the sentences that its tests are.

    Raises ValueError for a pattern that no module matches.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        modules = sorted(TESTS.glob(f"{pattern}.py"))
        if not modules:
            raise ValueError(f"no test is in tests/{pattern}.py")
        found |= dict.fromkeys(modules)
    return "\n\n".join(map(_module, found))


def _module(file: Path) -> str:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    about = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ").removeprefix("Promise: ")
    name = file.relative_to(TESTS).with_suffix("")
    sentences = [
        _sentence(each.name)
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    ]
    link = f"[{name}](../../tests/{name}.py)"
    return "\n".join([f"**{about[:1].upper()}{about[1:].rstrip('.')}** ({link}):", "", *sentences])


def _sentence(name: str) -> str:
    words = " ".join(_SPELT.get(word, word) for word in name.removeprefix("test_").split("_"))
    return f"- {words[:1].upper()}{words[1:]}."
