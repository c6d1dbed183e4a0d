"""Which names of a notebook's namespace are its parameters: what its cells set, and nothing that they import."""

import ast
import difflib
import sys
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from pairlab.base import parameters_cell
from pairlab.errors import BadSpec

_PLAIN = (str, int, float, bool)
#: From this similarity on (difflib), a name is another one misspelt.
_ALIKE = 0.8


class _Set(NamedTuple):
    """Where a literal is set: the cell as Jupyter numbers it, its line, and whether the cell sets parameters."""

    cell: int
    line: str
    beside_parameters: bool

    def __str__(self) -> str:
        return f"cell [{self.cell}]: {self.line}"


def parameters_in(namespace: Mapping[str, Any], known: Collection[str], others: Collection[str]) -> dict[str, Any]:
    """The values of parameters in a namespace, such as globals().

    known: names of parameters, which have any value but a module, function or class; others: names to leave out. Left
    out is what IPython's configuration set before the first cell. In a namespace without cells or module, each plain
    value counts. Raises BadSpec for a literal whose name is like a known one's, or unknown beside parameters.
    """
    is_notebook = isinstance(namespace.get("In"), list)
    cells: list[str] = namespace["In"] if is_notebook else []
    literals = _literals(cells, {*known, *others})
    before = _before(namespace)
    found: dict[str, Any] = {}
    for name, value in namespace.items():
        if name.startswith("_") or name in others:
            continue
        if name in known:
            if isinstance(value, ModuleType) or callable(value):
                if name in literals:
                    raise BadSpec(
                        f"{name} is not what it was set to ({literals[name]}), but imported: import it by another name"
                    )
            elif name not in before or before[name] is not value or any(name in _set_in(each) for each in cells):
                found[name] = value
        elif isinstance(value, _PLAIN):
            if not is_notebook and "__name__" not in namespace:
                found[name] = value
            elif name in literals or not is_notebook:
                _refuse_misspelt(name, literals.get(name), known)
    return found


def _literals(cells: Collection[str], known: Collection[str]) -> dict[str, _Set]:
    found: dict[str, _Set] = {}
    for number, source in enumerate(cells):
        lines = parameters_cell.literals(source)
        # papermill adds a cell with what it was given
        parameters = source.startswith("# Parameters\n") or any(name in known for name in lines)
        found |= {name: _Set(number, line, parameters) for name, line in lines.items()}
    return found


def _set_in(cell: str) -> set[str]:
    """The names that a cell sets, in whichever way."""
    names = (node for node in ast.walk(parameters_cell.tree(cell)) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _before(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was in the namespace before the first cell, as by a startup file."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return shell.user_ns_hidden if shell and shell.user_ns is namespace else {}


def _refuse_misspelt(name: str, where: _Set | None, known: Collection[str]) -> None:
    close = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
    place = f" ({where})" if where else ""
    if close:
        raise BadSpec(f"no parameter {name!r}; did you mean {close[0]!r}?{place}")
    if where and where.beside_parameters:
        raise BadSpec(f"no parameter {name!r}{place}: leave it out, or set it in a cell without parameters")
