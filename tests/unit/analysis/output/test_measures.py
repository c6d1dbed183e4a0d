"""How measures show estimates: in tables and as keyed numbers."""

import math

import pandas as pd
import pytest

from pairlab.analysis.output import formatting
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity

LATENCY = Quantity("Latency (µs)", "latency", 2, 1e6, "µs")
CELLS = pd.DataFrame(
    {
        "driver": ["bridge", "nat"],
        "value": [61.2e-6, 20549.72e-6],
        "low": [58.0e-6, 19000e-6],
        "high": [64.4e-6, 22100e-6],
        "n": [5, 5],
    }
)


def test_from_a_thousand_microseconds_on_tables_and_numbers_are_in_milliseconds():
    assert LATENCY.texts(CELLS, "driver") == {("bridge",): "61.2 [58.0, 64.4]", ("nat",): "20.5 [19.0, 22.1] ms"}
    found = Values("test")
    LATENCY.put(found, CELLS, "driver")
    assert (found["bridge/latency"], found["nat/latency"]) == (r"61.2\,µs", r"20.5\,ms")
    assert found["nat/latency-interval"] == "[19.0, 22.1] ms"


@pytest.mark.parametrize(
    ("value", "low", "high", "at_most", "digits"),
    [
        (35.71, 11.52, 65.2, 3, 0),  # ± 27: two digits of it
        (35.71, 34.9, 36.5, 3, 2),  # ± 0.80
        (0.512, 0.5, 0.524, 3, 3),
        (0.5123, 0.5122, 0.5124, 3, 3),  # no more than the unit has
        (403.2, 328.0, 490.0, 1, 0),
        (1234.5, math.nan, math.nan, 3, 0),  # no interval: three digits of the value
        (1.2345, math.nan, math.nan, 3, 2),
        (0.0, 0.0, 0.0, 2, 2),
        (5.0, -math.inf, math.inf, 1, 1),
    ],
)
def test_a_number_has_the_decimals_that_its_interval_bears(value, low, high, at_most, digits):
    assert formatting.digits_of(value, low, high, at_most) == digits
