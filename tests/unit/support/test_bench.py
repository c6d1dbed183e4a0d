"""The benchmarks: what CI runs of them, in their smallest form, is all of them."""

import inspect

from tests.bench.__main__ import PARTS, SMALLEST


def test_every_part_has_a_smallest_form():
    assert PARTS.keys() == SMALLEST.keys()
    for name, part in PARTS.items():
        inspect.signature(part).bind(**SMALLEST[name])
