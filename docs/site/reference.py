"""Tables that say what the code says: columns, checks, parameters, options, plugins; as Markdown."""

import inspect
import pydoc
import re
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import pairlab
from pairlab import errors, paths
from pairlab.batch.stopping_rule import ESTIMATES, Until
from pairlab.batch.sweep_file import Grid, SweepFile
from pairlab.cli import main
from pairlab.measurement.checks import CHECKS
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES
from pairlab.testbed import registry
from pairlab.testbed.contracts import FEATURES


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; what would end a cell is escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([" ".join(str(cell).replace("|", "\\|").split()) for cell in row] for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def columns(name: str) -> str:
    rows = [(f"`{key}`", column.dtype, column.unit or "–", column.meaning) for key, column in TABLES[name].items()]
    return table(("column", "type", "unit", "meaning and source"), rows)


def checks() -> str:
    """The checks of a run with their bounds, as they are for a spec that says nothing else."""
    spec = Spec()

    def bounds(check) -> str:
        told = [f"≥ {check.least(spec):g}"] if check.least else []
        return " and ".join([*told, *([f"≤ {check.most(spec):g}"] if check.most else [])]) or "–"

    rows = [(f"`{name}`", each.unit or "–", bounds(each), each.meaning) for name, each in CHECKS.items()]
    return table(("check", "unit", "within, by default", "meaning and source"), rows)


def parameters() -> str:
    return fields(Spec, "parameter", described=True)


def sweep_keys() -> str:
    return fields(SweepFile, "key")


def grid_words() -> str:
    return fields(Grid, "word")


def until_keys() -> str:
    return fields(Until, "key")


def estimates() -> str:
    told = {
        kind: ", ".join(f"`{name}`" for name, each in ESTIMATES.items() if each.of == kind)
        for kind in ("", "ends", "requests")
    }
    return f"Estimates: {told['']}; of flows with an end also {told['ends']}; of requests also {told['requests']}."


def plugins(kind: str) -> str:
    """What the checkout has of drivers, workloads, backends or pinnings, those of plugins/ included."""
    found = getattr(registry, kind)
    ours = [found.get(name) for name in found.names()]
    return table((kind[:-1], "what it is"), [(f"`{each.name}`", each.summary) for each in ours if _is_ours(each)])


def features() -> str:
    """Which workload can do what a spec may ask of it."""
    tools = [registry.workloads.get(name) for name in registry.workloads.names()]
    tools = [tool for tool in tools if _is_ours(tool)]
    rows = [
        (f"`{name}`", told.partition(":")[0], *("yes" if name in tool.features else "–" for tool in tools))
        for name, (_, told) in FEATURES.items()
    ]
    return table(("feature", "to", *(tool.name for tool in tools)), rows)


def api(part: str) -> str:
    """What docs/site/api/PART.rst describes in the site, each by its first sentence. Raises LookupError."""
    text = (Path(__file__).parent / "api" / f"{part}.rst").read_text(encoding="utf-8")
    rows = []
    for path in re.findall(r"^\.\. auto\w+:: ([\w.]+)", text, re.MULTILINE):
        name = path.rpartition(".")[2]
        if (described := pydoc.locate(path)) is None:
            raise LookupError(f"{path} of {part}.rst is not there: rename it there, too")
        shown = f"pairlab.{name}" if name in pairlab.__all__ else path
        rows.append((f"`{shown}`", " ".join(inspect.getdoc(described).partition("\n\n")[0].split())))
    return table(("name", "what it is"), rows)


def exceptions() -> str:
    """The tree of errors as the module draws it."""
    _, _, tree = errors.__doc__.partition("PairlabError\n")
    return f"```text\nPairlabError\n{tree.partition(chr(10) * 2)[0]}\n```"


def commands() -> str:
    """Every command, with its arguments, options and help, as click has them."""
    return "\n\n".join(_command(main.commands[name], name) for name in sorted(main.commands))


def environment() -> str:
    """The environment variables that users set."""
    return table(("variable", "path of"), [(f"`{name}`", meaning) for name, meaning in paths.VARIABLES.items()])


def _command(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=f"pairlab {name}")
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    options = [(f"`{option}`", told) for option, told in filter(None, records) if not option.endswith("--help")]
    usage = f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    told = [" ".join(each.split()) for each in (command.help or "").split("\n\n")]
    return "\n\n".join(
        [f"## pairlab {name}", usage, *told, *([table(("option", "effect"), options)] if options else [])]
    )


def fields(model: type[BaseModel], word: str, *, described: bool = False, skip: Sequence[str] = ()) -> str:
    """A model's fields, a row each. described: with their units and descriptions."""
    heads = (word, "type", "by default", "within", *(("unit", "meaning") if described else ()))
    rows = [
        (f"`{name}`", _type(field.annotation), _default(field), _bounds(field), _unit(name), field.description or "–")
        for name, field in model.model_fields.items()
        if name not in skip
    ]
    return table(heads, [row[: len(heads)] for row in rows])


def _unit(name: str) -> str:
    """The unit that a name ends with."""
    return {"s": "s", "bytes": "B", "bps": "bit/s", "share": "share"}.get(name.rpartition("_")[2], "–")


#: What a type is called where people write it.
_TYPES = {str: "text", int: "integer", float: "number", bool: "yes or no", dict: "mapping", list: "list"}


def _type(annotation: object) -> str:
    """A type in words: of several, each; None, which stands for leaving it out, is none of them."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in parts)
    if origin in _TYPES:
        return _TYPES[origin]
    if origin is typing.Annotated:
        return _type(parts[0])
    if parts:
        return " or ".join(_type(part) for part in parts if part is not type(None))
    return _TYPES.get(annotation, "mapping")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default in (None, "") or field.default_factory:
        return "–"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _bounds(field: FieldInfo) -> str:
    """The bounds that pydantic holds a value to, in words."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    told = [
        f"{sign}\N{NO-BREAK SPACE}{getattr(rule, kind):,}"
        for kind, sign in signs.items()
        for rule in field.metadata
        if getattr(rule, kind, None) is not None and abs(getattr(rule, kind)) < 1e15
    ]
    return ", ".join(told) or "–"


def _is_ours(plugin: type) -> bool:
    file = Path(inspect.getfile(plugin))
    return any(file.is_relative_to(paths.ROOT / place) for place in ("lib", "plugins"))  # .venv is in the checkout, too
