"""The blocks of a sweep: the cells of a repetition that are measured one after the other, and their estimated time."""

import random
from collections.abc import Iterable, Sequence

from pairlab.measurement.estimate import overhead_s, traffic_s
from pairlab.model.blocks import LONGEST_S
from pairlab.model.spec import Spec

#: The fields by which a block that is too long is divided: _FIRST, which are compared least, all others, and _LAST.
_FIRST, _LAST = ("experiment", "workload"), ("pairs", "driver")
#: The fields that a group of cells with one twin has in common.
_OF_TWINS = ("experiment", "backend", "workload", "pairs")


def cell_s(spec: Spec) -> float:
    """Seconds that a cell takes in all, by a rule of thumb, so that a sweep has the same blocks on every host."""
    return traffic_s(spec) + overhead_s(spec)


def of_repetition(cells: Iterable[Spec], seed: str) -> list[list[Spec]]:
    """The blocks of these cells, in random order; those of a block begin within LONGEST_S of each other."""
    blocks = _divided(list(cells))
    shuffled = random.Random(seed)
    for block in blocks:
        shuffled.shuffle(block)
    shuffled.shuffle(blocks)
    return blocks


def twins(cells: Iterable[Spec]) -> list[Spec]:
    """One cell to measure twice for each experiment, backend, workload and number of pairs: over the default driver if
    possible, as the others are compared with that.
    """
    usual, twinned = Spec.model_fields["driver"].default, dict[tuple, Spec]()
    for spec in cells:
        of = tuple(getattr(spec, name) for name in _OF_TWINS)
        if of not in twinned or (spec.driver == usual != twinned[of].driver):
            twinned[of] = spec
    return [spec.replace(twin=True) for spec in twinned.values()]


def _divided(cells: list[Spec]) -> list[list[Spec]]:
    """Divides cells by the first field in which they differ, as long as they take too long; joins short neighbours."""
    fields = [*_FIRST, *(name for name in Spec.model_fields if name not in (*_FIRST, *_LAST, "twin")), *_LAST]
    name = next((name for name in fields if len({getattr(spec, name) for spec in cells}) > 1), "")
    if not name or _apart_s(cells) <= LONGEST_S:
        return [cells] if cells else []
    by_value: dict[object, list[Spec]] = {}
    for spec in cells:
        by_value.setdefault(getattr(spec, name), []).append(spec)
    parts: list[list[Spec]] = []
    for part in (part for group in by_value.values() for part in _divided(group)):
        if parts and _apart_s([*parts[-1], *part]) <= LONGEST_S:
            parts[-1] = parts[-1] + part
        else:
            parts.append(part)
    return parts


def _apart_s(cells: Sequence[Spec]) -> float:
    """From the begin of the first to that of the last, in the order in which that is longest."""
    takes_s = [cell_s(spec) for spec in cells]
    return sum(takes_s) - min(takes_s, default=0.0)
