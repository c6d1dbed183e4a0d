"""YAML files that people write, read without trust: a small file must not become a huge tree.

An alias costs a few bytes and stands for all it names, so a few lines can stand for billions of values; so the nodes
are counted, each alias as what it stands for, before anything is made of them.
"""

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1 << 20
MOST_NODES = 100_000


def read(path: Path) -> Any:
    """What the file holds. Raises OSError where it cannot be read, ValueError, with what is wrong, where it is no
    YAML, or too much of it."""
    with open(path, "rb") as file:
        told = file.read(MOST_BYTES + 1)  # of a device there may be no end
    if len(told) > MOST_BYTES:
        raise ValueError(f"has more than {MOST_BYTES} bytes, and is not read: split it")
    try:
        loader = yaml.SafeLoader(told.decode("utf-8-sig"))
        node = loader.get_single_node()
        _count(node, {})
        return None if node is None else loader.construct_document(node)
    except _TooMuch:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 31st of February; not UTF-8
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None
    except Exception as error:  # PyYAML trips over values that are not of their tag, as `!!bool x` and `!!int ''`
        raise ValueError(f"is not YAML: a value is not what its tag says ({error!r})") from None


class _TooMuch(ValueError): ...


def _count(node: yaml.Node | None, known: dict[int, int]) -> int:
    """How many nodes it stands for, each alias counted as what it names."""
    if id(node) in known:
        if not known[id(node)]:
            raise _TooMuch("has an alias within what it names, which has no end: write it out")
        return known[id(node)]
    known[id(node)] = 0
    inner = []
    if isinstance(node, yaml.SequenceNode):
        inner = node.value
    elif isinstance(node, yaml.MappingNode):
        inner = [part for pair in node.value for part in pair]
    known[id(node)] = 1 + sum(_count(each, known) for each in inner)
    if known[id(node)] > MOST_NODES:
        raise _TooMuch(f"stands for more than {MOST_NODES} values, with what its aliases name: split it")
    return known[id(node)]
