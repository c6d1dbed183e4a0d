"""Numbers with units, as people write and read them."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.base import units


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("5", "", 5),
        ("1e6", "", 1e6),
        (" 2.5 ", "s", 2.5),
        ("500 ms", "s", 0.5),
        ("2min", "s", 120),
        ("500 µs", "s", 0.0005),
        ("500us", "s", 0.0005),
        ("5 MB", "B", 5e6),
        ("1.5 MiB", "B", 1572864),
        ("5_000_000", "B", 5e6),
        ("1 500.5 ms", "s", 1.5005),
        (".5", "s", 0.5),
        ("1 Gbit/s", "bit/s", 1e9),
        ("50 000/s", "1/s", 50_000),
        ("-3", "", -3),
        ("7 %", "", 0.07),
        ("1G", "bit/s", 1e9),
        ("5M", "B", 5e6),
    ],
)
def test_a_number_is_read_as_people_write_it(text, unit, value):
    assert units.read(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [
        ("abc", "", "'abc' is not a number"),
        ("", "s", "give a number of s"),
        ("5 MB", "", "'MB' is not a unit of this parameter: give a number without a unit"),
        ("3 s", "B", "'s' is not a unit of this parameter: use B, kB"),
        ("1e999", "", "is too large"),
        ("nan", "", "'nan' is not a number"),
        ("1e5e5", "", "is not a number"),
        ("0,5", "s", "'0,5' is not a number: write the decimal point as a dot, and thousands without a comma"),
        ("0,500", "s", "'0,500' is not a number: write the decimal point as a dot"),
        ("0,125 Gbit/s", "bit/s", "'0,125 Gbit/s' is not a number: write the decimal point as a dot"),
        ("50,000/s", "1/s", "'50,000/s' is not a number"),
        ("1,5 ms", "s", "'1,5 ms' is not a number: write the decimal point as a dot"),
        ("1 5", "", "'1 5' is not a number"),
        ("1,0000", "", "is not a number"),
    ],
)
def test_what_is_no_number_is_refused_in_words(text, unit, told):
    with pytest.raises(ValueError, match=told):
        units.read(text, unit)


@pytest.mark.whole
@given(st.text(max_size=60), st.sampled_from(sorted(units.UNITS)))
def test_any_text_is_a_finite_number_or_refused(text, unit):
    with contextlib.suppress(ValueError):
        assert math.isfinite(units.read(text, unit))


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (27.13e9, "bit/s", "27.1 Gbit/s"),
        (999.9e6, "bit/s", "1 Gbit/s"),
        (0, "bit/s", "0 bit/s"),
        (5e6, "B", "5 MB"),
        (0.0273, "s", "27.3 ms"),
        (0.0000273, "s", "27.3 µs"),
        (3600, "s", "3,600 s"),
        (float("nan"), "s", "nan µs"),
    ],
)
def test_a_value_is_told_with_the_prefix_that_keeps_it_short(value, unit, told):
    assert units.with_prefix(value, unit) == told


@given(st.floats(1e-6, 1e12), st.sampled_from(["s", "B", "bit/s"]))
def test_what_is_told_is_read_back_within_its_digits(value, unit):
    assert units.read(units.with_prefix(value, unit).replace(",", ""), unit) == pytest.approx(value, rel=0.01)


@pytest.mark.parametrize(
    ("given", "kind", "unit", "value"),
    [
        ("5 MB", int, "B", 5_000_000),
        ("010", int, "", 10),
        (" 1e1 ", int, "", 10),
        (5e6, int, "", 5_000_000),
        (str(2**63 - 1), int, "", 2**63 - 1),
        ("9_007_199_254_740_993", int, "", 2**53 + 1),
        ("1e8", float, "bit/s", 1e8),
        (np.int64(3), int, "", 3),
        (np.float32(0.5), float, "s", 0.5),
        (np.float64(4), int, "", 4),
        (np.bool_(True), bool, "", True),
        (np.array(7), int, "", 7),
        (np.str_("bridge"), str, "", "bridge"),
        ("True", bool, "", True),
        ("false", bool, "", False),
        (4, str, "", "4"),
        # what is no number stays as it is
        (2.5, int, "", 2.5),
        (True, int, "", True),
        ("yes", bool, "", "yes"),
        (1, bool, "", 1),
        (None, float, "", None),
        ([1], int, "", [1]),
        (10**400, float, "", 10**400),
    ],
)
def test_what_is_given_for_a_value_is_taken_as_its_kind(given, kind, unit, value):
    found = units.as_kind(given, kind, unit)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("given", "told"),
    [("2.5", "must be a whole number, not 2.5"), ("1:30", "'1:30' is not a number"), ("9" * 500, "is too large")],
)
def test_text_that_is_no_value_of_its_kind_is_refused_in_words(given, told):
    with pytest.raises(ValueError, match=told):
        units.as_kind(given, int)
