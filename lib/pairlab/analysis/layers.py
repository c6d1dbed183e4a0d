"""The layers of the network stack by collapsed stacks, from the table data/layers.yaml."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import translate
from typing import NamedTuple

from pairlab import paths
from pairlab.base import safe_yaml

FILE = paths.DATA / "layers.yaml"
IDLE, USER, OTHER = "idle", "user space", "other"
#: The frame of a sample that was not in the kernel.
IN_PROGRAM = "[user]"


class _Table(NamedTuple):
    functions: dict[str, re.Pattern[str]]
    programs: dict[str, re.Pattern[str]]


@functools.cache
def _table() -> _Table:
    read = dict(safe_yaml.read(FILE))
    programs = read.pop("programs")
    return _Table(*({name: _any(patterns) for name, patterns in part.items()} for part in (read, programs)))


def _any(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def names() -> list[str]:
    """All layers but idle, in the order of figures and tables: from the program downwards."""
    functions, programs = _table()
    shown = [name for name in functions if name != IDLE]
    return [USER, *programs, *reversed(shown), OTHER]


def key(layer: str) -> str:
    """A layer as a part of keys."""
    return layer.replace(" ", "-").lower()


@functools.cache
def layer_of_function(name: str) -> str:
    """The layer of a function of the kernel; empty: its caller decides."""
    return next((layer for layer, pattern in _table().functions.items() if pattern.match(name)), "")


def layer_of(stack: str) -> str:
    """The layer of a collapsed stack: that of the first known function, from the running one towards the entry."""
    program, *frames = stack.split(";")
    if frames == [IN_PROGRAM]:
        return next((layer for layer, pattern in _table().programs.items() if pattern.match(program)), USER)
    return next(filter(None, map(layer_of_function, reversed(frames))), OTHER)


def counts(stacks: Iterable[tuple[str, int]]) -> Counter[str]:
    """Samples by layer, with idle, from collapsed stacks with their numbers of samples."""
    by_layer: Counter[str] = Counter()
    for stack, samples in stacks:
        by_layer[layer_of(stack)] += samples
    return by_layer


def shares(stacks: Iterable[tuple[str, int]]) -> dict[str, float]:
    """The share of each layer in the samples of busy CPUs; all NaN without samples."""
    by_layer = counts(stacks)
    busy = by_layer.total() - by_layer[IDLE]
    return {name: by_layer[name] / busy if busy else float("nan") for name in names()}
