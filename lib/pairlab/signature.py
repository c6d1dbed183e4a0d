"""The fields of a model as the parameters that its class shows: in its signature, its docstring, and under Tab.

Written once, in the fields' own descriptions, bounds and defaults; units are in the names.
"""

import inspect
import textwrap
import typing
from collections.abc import Callable

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pairlab import quantities

#: From so large a bound on, it is one of the machine and tells nobody anything.
_MACHINE = 2**63 - 1
_BOUNDS = ((Ge, "from", "ge"), (Gt, "above", "gt"), (Le, "up to", "le"), (Lt, "below", "lt"))


def shows_its_fields(*methods: str) -> Callable[[type[BaseModel]], type[BaseModel]]:
    """A class decorator: signature and docstring list every field, with type, unit, bounds, default and meaning.

    methods: those that take the same names, and where one is not given leave it as it is.
    """

    def decorate(model: type[BaseModel]) -> type[BaseModel]:
        fields = parameters(model)
        model.__signature__ = inspect.Signature(fields)
        told = "\n".join(described(name, field) for name, field in model.model_fields.items())
        model.__doc__ = f"{inspect.cleandoc(model.__doc__ or '')}\n\nParameters\n----------\n{told}\n"
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        for name in methods:
            left = [field.replace(default=...) for field in fields]
            getattr(model, name).__signature__ = inspect.Signature([itself, *left])
        return model

    return decorate


def parameters(model: type[BaseModel]) -> list[inspect.Parameter]:
    """The fields as parameters that are given by name."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_plain(field))
        for name, field in model.model_fields.items()
    ]


def described(name: str, field: FieldInfo) -> str:
    """A field as an entry of a docstring: its type, unit, bounds and default, and below what it means."""
    facts = [_plain(field).__name__, quantities.unit_of(name), _bounds(field), f"default {field.default!r}"]
    meaning = textwrap.fill(field.description or "", 110, initial_indent="    ", subsequent_indent="    ")
    return f"{name} : {', '.join(filter(None, facts))}\n{meaning}"


def _plain(field: FieldInfo) -> type:
    """The type alone, without what checks it."""
    return type(field.default) if typing.get_origin(field.annotation) is typing.Literal else field.annotation


def _bounds(field: FieldInfo) -> str:
    found = []
    for kind, word, attribute in _BOUNDS:
        for each in field.metadata:
            if isinstance(each, kind) and abs(bound := getattr(each, attribute)) < _MACHINE:
                found.append(f"{word} {bound:g}" if isinstance(bound, float) else f"{word} {bound:,}")
    return " ".join(found)
