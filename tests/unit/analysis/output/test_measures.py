"""How measures show estimates: in tables, as keyed numbers, on axes."""

import matplotlib.pyplot as plt
import pandas as pd

from pairlab.analysis.figures.grid import in_larger_unit
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


def test_an_axis_that_reaches_a_thousand_microseconds_is_marked_in_milliseconds():
    _, (short, long) = plt.subplots(1, 2)
    for ax, most in ((short, 900), (long, 25_000)):
        ax.set_ylim(0, most)
        in_larger_unit(ax.yaxis, "µs")
    texts = {ax: [label.get_text() for label in ax.get_yticklabels()] for ax in (short, long)}
    plt.close()
    assert not any("ms" in text for text in texts[short])
    assert {"0", "5 ms", "20 ms"} <= set(texts[long])
