"""The cell of a notebook that is tagged `parameters`: its values, read without running it.

What a run is kept under is computed from these values before the kernel computes them, so a line that pairlab would
read in another way than Python is refused, and none is passed over.
"""

import ast
import contextlib
import io
import operator
import re
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.base import notebook_file
from pairlab.errors import BadInput

#: More digits than any parameter takes; 9**9**9 would have 370 million.
_MOST_BITS = 4096
_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_SIGNS: Mapping[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_TAG = "parameters"
#: What papermill tags the cell with that it adds, after the one that it overrides.
_INJECTED = "injected-parameters"


class Parameter(NamedTuple):
    """A parameter as its notebook has it: the value there, and what the comment behind it says, unit and all."""

    default: Any
    meaning: str


def code_cells(notebook: Path) -> list[tuple[int, str, Sequence[str]]]:
    """The number (from 1, of all cells), source and tags of each cell of code. Raises BadInput if it is no notebook."""
    return [(number, source, tags) for number, kind, source, tags in _cells(notebook) if kind == "code"]


def heading(notebook: Path) -> str:
    """What its first cell of text is headed by, or nothing. Raises BadInput if it is no notebook."""
    texts = (source for _, kind, source, _ in _cells(notebook) if kind == "markdown")
    found = re.match(r"#\s+(.+)", next(texts, ""))
    return found[1].strip() if found else ""


def _cells(notebook: Path) -> list[tuple[int, str, str, Sequence[str]]]:
    try:
        cells = notebook_file.content(notebook)["cells"]
    except OSError as error:
        raise BadInput(f"no experiment {notebook}: {error.strerror}") from None
    try:
        return [
            (number, cell["cell_type"], "".join(cell["source"]), (cell.get("metadata") or {}).get("tags") or [])
            for number, cell in enumerate(cells, 1)
        ]
    except (LookupError, TypeError, AttributeError):
        raise BadInput(f"{notebook} is not a notebook: a cell has no type or source: save it in Jupyter") from None


def syntax_trees(notebook: Path) -> Iterator[ast.Module]:
    """The `tree` of each cell of code. Raises BadInput as code_cells."""
    return (tree(source) for _, source, _ in code_cells(notebook))


def tree(source: str) -> ast.Module:
    """A cell's code, magics as calls, but what `%time` and `%%…` stand before as it is; empty where it is no Python."""
    source = re.sub(r"\A(\s*)%%.*|^(\s*)%time(?=\s)", r"\1\2", source, flags=re.MULTILINE)
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.parse(source)
    from IPython.core.inputtransformer2 import TransformerManager  # imported for few cells: it takes long

    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.parse(TransformerManager().transform_cell(source))
    return ast.Module([], [])


def texts_passed(notebook: Path, keyword: str, functions: Collection[str] = ()) -> Iterator[str]:
    """The texts that a notebook's code passes by that keyword, alone or in a list, to these functions; none: to any."""
    for node in (node for tree in syntax_trees(notebook) for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if not functions or getattr(node.func, "id", getattr(node.func, "attr", "")) in functions:
            passed = [each.value for each in node.keywords if each.arg == keyword]
            values = [part for each in passed for part in getattr(each, "elts", [each])]
            yield from (each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str))


def read(notebook: Path) -> dict[str, Parameter]:
    """The parameters by name, in the notebook's order.

    Accepted are values and arithmetic of numbers, and several names or statements on a line. Raises BadInput where the
    notebook has no such cell or several, or a line that is anything else.
    """
    tagged = [(number, source) for number, source, tags in code_cells(notebook) if _TAG in tags]
    if not tagged:
        raise BadInput(
            f"{notebook} has no cell tagged {_TAG!r}: give this tag to the cell that holds its parameters"
            " (in JupyterLab: Property Inspector, Cell Tags)"
        )
    if others := [number for number, _, tags in code_cells(notebook) if _INJECTED in tags]:
        raise BadInput(
            f"{notebook}: cell {others[0]} was added by papermill and overrides the parameters: delete it, or take the"
            " notebook that was executed"
        )
    if len(tagged) > 1:
        raise BadInput(f"{notebook}: cells {tagged[0][0]} and {tagged[1][0]} are tagged {_TAG!r}: leave one tagged")
    ((number, source),) = tagged
    where = f"{notebook}: cell {number}, tagged {_TAG!r}"
    try:
        statements = ast.parse(source).body
        said = comments(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadInput(
            f"{where}: line {line} is not Python: {_line(source, line)}: keep to NAME = VALUE, and move the rest"
            " to another cell"
        ) from None
    found: dict[str, Parameter] = {}
    for statement in statements:
        if _is_text(statement):
            continue
        line = statement.lineno
        try:
            for name, value in _assigned(statement):
                found[name] = Parameter(value, said.get(statement.end_lineno or line, ""))
        except (ValueError, ArithmeticError, TypeError, RecursionError) as error:
            why = f" ({error})" if str(error) else ""
            raise BadInput(
                f"{where}: line {line} is not NAME = VALUE with a plain value{why}: {_line(source, line)}: write the"
                " value out, and compute what follows from it in another cell"
            ) from None
    return found


def literals(source: str) -> dict[str, str]:
    """The names that code sets to literals, or to arithmetic of numbers, each with its line."""
    found: dict[str, str] = {}
    for statement in tree(source).body:
        with contextlib.suppress(ValueError, ArithmeticError, TypeError, RecursionError):
            found |= {name: _line(source, statement.lineno) for name, _ in _assigned(statement)}
    return found


def comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {each.start[0]: each.string.lstrip("#").strip() for each in tokens if each.type == tokenize.COMMENT}


def _line(source: str, number: int) -> str:
    text = (source.splitlines() or [""])[number - 1].strip()
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_text(statement: ast.stmt) -> bool:
    """Whether it is a text that stands alone, as a comment."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, Any]]:
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _pairs(statement.target, _value(statement.value))
    elif isinstance(statement, ast.Assign):
        value = _value(statement.value)
        for target in statement.targets:
            yield from _pairs(target, value)
    else:
        raise ValueError


def _pairs(target: ast.expr, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, tuple | list | str):
        if len(target.elts) != len(value):
            raise ValueError(f"{len(target.elts)} names and {len(value)} values")
        for each, its in zip(target.elts, value, strict=True):
            yield from _pairs(each, its)
    else:
        raise ValueError


def _value(node: ast.expr) -> Any:
    """A literal, or arithmetic of numbers, within bounds of size. Raises ValueError, ArithmeticError or TypeError."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _number(node.left), _number(node.right)
        if isinstance(left, int) and isinstance(right, int):  # floats overflow by themselves
            grows = {ast.Pow: abs(left) > 1 and right * _bits(left), ast.LShift: _bits(left) + right}
            if grows.get(type(node.op), 0) > _MOST_BITS:
                raise ValueError("too large")
        return _bounded(_ARITHMETIC[type(node.op)](left, right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_number(node.operand))
    if isinstance(node, ast.Tuple | ast.List):
        values = [_value(each) for each in node.elts]
        return tuple(values) if isinstance(node, ast.Tuple) else values
    return ast.literal_eval(node)


def _number(node: ast.expr) -> int | float:
    value = _value(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("no arithmetic of numbers")
    return _bounded(value)


def _bounded(value: Any) -> Any:
    if isinstance(value, complex) or _bits(value) > _MOST_BITS:
        raise ValueError("too large" if isinstance(value, int) else "no real number")
    return value


def _bits(value: float) -> int:
    return value.bit_length() if isinstance(value, int) else 64
