"""The settings of the machine under which a run was measured, as text that a run's facts hold.

They are some hundred values that are alike in most runs of a store. Compressed they are seven kilobytes, and in a pack,
where a text that the run before has too takes a hundred bytes, next to nothing.
"""

import base64
import binascii
import functools
import json
import zlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pairlab.base.foreign_files import load_json

#: Whoever wrote it: more is not what `packed` makes.
MOST_BYTES = 2**20

Conditions = Mapping[str, str]


def packed(conditions: Conditions) -> str:
    """The conditions as ASCII text; equal ones have equal texts."""
    content = json.dumps(dict(conditions), sort_keys=True, separators=(",", ":")).encode()
    return base64.b85encode(zlib.compress(content, 9)).decode()


@functools.lru_cache(maxsize=64)
def unpacked(text: str) -> Conditions:
    """What `packed` made that text of; nothing where it is empty. Raises ValueError where it is no such text."""
    if not text:
        return {}
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(base64.b85decode(text), MOST_BYTES)
        found = load_json(content.decode())
    except (ValueError, binascii.Error, zlib.error, RecursionError) as error:
        raise ValueError(f"it holds no conditions: {error}") from None
    if (
        reader.unconsumed_tail
        or not isinstance(found, dict)
        or not all(isinstance(each, str) for each in found.values())
    ):
        raise ValueError("it holds no conditions")
    return MappingProxyType(found)


def differing(first: Iterable[Conditions], second: Iterable[Conditions]) -> dict[str, tuple[str, str]]:
    """The conditions that are not the same on both sides, with each side's values; several of one side by "or".

    What one side has nowhere is no difference: a setting is there once its module is loaded.
    """
    sides = [_values(side) for side in (first, second)]
    common = sides[0].keys() & sides[1].keys()
    texts = {name: tuple(" or ".join(sorted(side[name])) for side in sides) for name in sorted(common)}
    return {name: (one, other) for name, (one, other) in texts.items() if one != other}


def _values(side: Iterable[Conditions]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for conditions in side:
        for name, value in conditions.items():
            values.setdefault(name, set()).add(value)
    return values
