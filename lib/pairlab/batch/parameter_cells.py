"""The cells of experiments' parameters, with comments from Spec, the only place of the parameters' meanings."""

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from pairlab.base import parameters_cell, units
from pairlab.model.spec import Spec

#: The parameters of the measurement, in the order below the experiment's subject.
COMMON = (
    *("backend", "duration_s", "warmup_s", "interval_s", "congestion_control", "repetition", "twin", "seed"),
    *("max_skew_s", "max_foreign_cpu", "fresh"),
)
_FRESH = "measure again even if this run is stored (the stored one is kept)"
_WIDTH = 120


def synced(source: str) -> str:
    """The cell with its values: the experiment's subject above COMMON, and Spec's description after each value.

    Parameters outside Spec keep their comments.
    """
    comments = parameters_cell.comments(source)
    lines: dict[str, str] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            value = ast.get_source_segment(source, statement.value) or ""
            lines[name] = _line(name, value, comments.get(statement.lineno, ""))
    subject = [line for name, line in lines.items() if name not in COMMON]
    return "\n".join([*subject, "", *(lines[name] for name in COMMON if name in lines)])


def _line(name: str, value: str, comment: str) -> str:
    assignment = f"{name} = {value}  # "
    if name in Spec.model_fields:
        unit, field = units.unit_of(name), Spec.model_fields[name]
        description = field.description or ""
        choices = [str(each) for each in get_args(field.annotation)]
        if len(assignment) + len(description) > _WIDTH and choices:
            description = f"{description.partition('. ')[0]}: {', '.join(choices)}"
        return assignment + _shortened(f"{unit}, {description}" if unit else description, _WIDTH - len(assignment))
    return assignment + (_FRESH if name == "fresh" else comment)


def _shortened(text: str, width: int) -> str:
    """The first clauses of the text, as many as fit."""
    while len(text) > width and (cut := max(text.rfind(mark) for mark in (". ", "; ", ": ", ", "))) > 0:
        text = text[:cut]
    return text


def out_of_date(notebooks: Iterable[Path], *, write: bool = False) -> list[Path]:
    """The notebooks whose cell differs from `synced`; write: also updates them.

    Raises BadInput as parameters_cell.read.
    """
    outdated = []
    for path in notebooks:
        parameters_cell.read(path)
        notebook = json.loads(path.read_text(encoding="utf-8"))
        (cell,) = (each for each in notebook["cells"] if "parameters" in each["metadata"].get("tags", ()))
        lines = synced("".join(cell["source"])).splitlines(keepends=True)
        if lines != cell["source"]:
            outdated.append(path)
            cell["source"] = lines
            if write:
                text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
                path.write_text(text, encoding="utf-8")
    return outdated
