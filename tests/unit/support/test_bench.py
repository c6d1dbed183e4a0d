"""The bench: what each part is called with for --smallest fits it, which otherwise only a run of it would show."""

import inspect

import pytest

from bench.__main__ import PARTS


@pytest.mark.parametrize(("part", "least"), PARTS.values(), ids=PARTS)
def test_each_part_takes_what_it_is_given_in_its_smallest_form(part, least):
    inspect.signature(part).bind(**least)
