"""A model's fields: their marks, the numbers that they accept, and their display as parameters.

They are shown in the signature of the class, in its docstring, and in Tab completion, by their descriptions, bounds and
defaults; units are in the names.
"""

import inspect
import textwrap
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from pairlab.base import units

#: Bounds of this size are those of the integer type, and not shown.
_TYPE_BOUND = 2**63 - 1
_BOUNDS = ((Ge, "from", "ge"), (Gt, "above", "gt"), (Le, "up to", "le"), (Lt, "below", "lt"))


def about(default: Any, meaning: str, **bounds: Any) -> Any:
    """A field with its default, its meaning, and bounds as pydantic.Field takes them."""
    return Field(default, description=meaning, **bounds)


class Mark(Enum):
    """A property of a parameter besides type and meaning: an annotation of the field."""

    PAPERS = "the papers' runs have a value of it: what else a spec can ask for they left alone"
    REPLICATE = "tells the repetitions of a cell apart"
    BOUND = "a run is judged by it, and it changes nothing in what is measured"
    PLUGIN = "is the name of a plugin"
    TRAFFIC = "is of flows from a distribution only"
    OTHERS = "says nothing of flows from a distribution"
    LAUNCHES = "a spec of launches can have it"
    LASTS = "flows with an end take longer or shorter by it"


@cache
def defaults(model: type[BaseModel], mark: Mark | None = None, prefix: str = "") -> dict[str, Any]:
    """The defaults of the model's fields by name, in their order; of those with that mark, or whose names begin so."""
    return {
        name: field.default
        for name, field in model.model_fields.items()
        if (mark is None or mark in field.metadata) and name.startswith(prefix)
    }


class TakesNumbers(BaseModel):
    """A strict model that takes numbers as people write them, and numpy's (units.as_kind)."""

    @field_validator("*", mode="before")
    @classmethod
    def _as_kind(cls, given: Any, info: ValidationInfo) -> Any:
        return cls.as_field(info.field_name or "", given)

    @classmethod
    def as_field(cls, name: str, given: Any) -> Any:
        """What is given for that field, as the field has it. Raises ValueError, saying what is no such number."""
        kind = cls._kind_of(name)
        return units.as_kind(given, kind, units.unit_of(name)) if kind and type(given) is not kind else given

    @classmethod
    @cache
    def _kind_of(cls, name: str) -> type | None:
        annotation = cls.model_fields[name].annotation
        kinds = {annotation, *(get_args(annotation) if get_origin(annotation) is UnionType else ())}
        return next((kind for kind in (bool, int, float, str) if kind in kinds), None)


def shows_its_fields(*methods: str) -> Callable[[type[BaseModel]], type[BaseModel]]:
    """A class decorator: signature and docstring list every field, with type, unit, bounds, default and meaning.

    methods: methods that take the same parameters, and leave those unchanged that are not given.
    """

    def decorate(model: type[BaseModel]) -> type[BaseModel]:
        fields = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_plain(field))
            for name, field in model.model_fields.items()
        ]
        model.__signature__ = inspect.Signature(fields)
        listed = "\n".join(described(name, field) for name, field in model.model_fields.items())
        model.__doc__ = f"{inspect.cleandoc(model.__doc__ or '')}\n\nParameters\n----------\n{listed}\n"
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        for name in methods:
            left = [field.replace(default=...) for field in fields]
            getattr(model, name).__signature__ = inspect.Signature([itself, *left])
        return model

    return decorate


def described(name: str, field: FieldInfo) -> str:
    """A field as an entry of a docstring: type, unit, bounds and default, then its meaning."""
    facts = [_plain(field).__name__, units.unit_of(name), _bounds(field), f"default {field.default!r}"]
    lines = textwrap.wrap(field.description or "", 106, break_on_hyphens=False)
    meaning = "\n".join(f"    {line}" for line in lines)
    return f"{name} : {', '.join(filter(None, facts))}\n{meaning}"


def _plain(field: FieldInfo) -> type:
    """The type alone, without its validators; of a choice, that of its default."""
    return field.annotation if isinstance(field.annotation, type) else type(field.default)


def _bounds(field: FieldInfo) -> str:
    bounds = []
    for kind, word, attribute in _BOUNDS:
        for each in field.metadata:
            if isinstance(each, kind) and abs(bound := getattr(each, attribute)) < _TYPE_BOUND:
                bounds.append(f"{word} {bound:g}" if isinstance(bound, float) else f"{word} {bound:,}")
    return " ".join(bounds)
