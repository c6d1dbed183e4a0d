"""Shows a model's fields as parameters of its class: in its signature, its docstring, and in Tab completion.

They are taken from the fields' descriptions, bounds and defaults; units are in the names.
"""

import inspect
import textwrap
from collections.abc import Callable

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pairlab.base import units

#: Bounds of this size are those of the integer type, and not shown.
_TYPE_BOUND = 2**63 - 1
_BOUNDS = ((Ge, "from", "ge"), (Gt, "above", "gt"), (Le, "up to", "le"), (Lt, "below", "lt"))


def shows_its_fields(*methods: str) -> Callable[[type[BaseModel]], type[BaseModel]]:
    """A class decorator: signature and docstring list every field, with type, unit, bounds, default and meaning.

    methods: methods that take the same parameters, and leave those unchanged that are not given.
    """

    def decorate(model: type[BaseModel]) -> type[BaseModel]:
        fields = parameters(model)
        model.__signature__ = inspect.Signature(fields)
        listed = "\n".join(described(name, field) for name, field in model.model_fields.items())
        model.__doc__ = f"{inspect.cleandoc(model.__doc__ or '')}\n\nParameters\n----------\n{listed}\n"
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        for name in methods:
            left = [field.replace(default=...) for field in fields]
            getattr(model, name).__signature__ = inspect.Signature([itself, *left])
        return model

    return decorate


def parameters(model: type[BaseModel]) -> list[inspect.Parameter]:
    """The fields as keyword-only parameters."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_plain(field))
        for name, field in model.model_fields.items()
    ]


def described(name: str, field: FieldInfo) -> str:
    """A field as an entry of a docstring: type, unit, bounds and default, then its meaning."""
    facts = [_plain(field).__name__, units.unit_of(name), _bounds(field), f"default {field.default!r}"]
    meaning = textwrap.fill(field.description or "", 110, initial_indent="    ", subsequent_indent="    ")
    return f"{name} : {', '.join(filter(None, facts))}\n{meaning}"


def _plain(field: FieldInfo) -> type:
    """The type alone, without its validators; of a choice, that of its default."""
    return field.annotation if isinstance(field.annotation, type) else type(field.default)


def _bounds(field: FieldInfo) -> str:
    found = []
    for kind, word, attribute in _BOUNDS:
        for each in field.metadata:
            if isinstance(each, kind) and abs(bound := getattr(each, attribute)) < _TYPE_BOUND:
                found.append(f"{word} {bound:g}" if isinstance(bound, float) else f"{word} {bound:,}")
    return " ".join(found)
