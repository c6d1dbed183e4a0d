"""The charts of a run's card: as high as what was measured, with their units, and none where there is nothing."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from pairlab import Spec
from pairlab.base.charts import scaled
from pairlab.model.records import Run
from pairlab.model.run_charts import charts
from pairlab.model.tables import table
from tests.support.synthetic import ending, run, transacting


def drawn(made):
    """The charts of the run's card: by title the texts of each, and the numbers of its last path."""
    found = {}
    for chart in ElementTree.fromstring(charts(made)):
        texts = [each.text for each in chart.iter("text")]
        (title,) = [each.text for each in chart.iter("text") if each.get("font-weight") == "600"]
        found[title] = texts, [each.get("d") for each in chart.iter("path")][-1]
    return found


def heights(path):
    """Of each bar."""
    return [float(bottom) - float(top) for bottom, top in re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)h", path)]


def test_a_bar_is_as_high_as_its_client_was_fast():
    texts, path = drawn(run([4.0, 1.0]))["Each client (Gbit/s)"]
    assert "client, of 2" in texts
    assert heights(path)[0] == pytest.approx(4 * heights(path)[1], rel=0.01)


def test_the_total_over_time_is_the_sum_of_its_flows():
    of_pairs = [
        {"pair": pair, "flow": 0, "start_s": at / 10, "end_s": (at + 1) / 10, "interval_bytes": 1e8 * (1 + (at >= 10))}
        for pair in (0, 1)
        for at in range(20)
    ]
    made = replace(run([12.0, 12.0], interval_s=0.1), intervals=table("intervals", of_pairs))
    _, path = drawn(made)["Total (Gbit/s)"]
    levels = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
    zero = 148.0  # the axis: HEIGHT - _BOTTOM
    assert zero - levels[-1] == pytest.approx(2 * (zero - levels[0]), rel=0.01)


def test_times_of_flows_that_ended_are_bars_in_their_order_and_failed_ones_are_counted():
    texts, path = drawn(ending([0.3, 0.1, 0.2, 9.0], failed=1))["FCT (ms)"]
    assert "flow, by its time, 1 failed" in texts
    first, second, third = heights(path)
    assert (second / first, third / first) == (pytest.approx(2, rel=0.02), pytest.approx(3, rel=0.02))
    assert charts(ending([0.3, 0.1], failed=2)) == ""


def test_many_times_are_a_line_of_their_shares():
    (texts, path) = drawn(ending([0.001 * (1 + each) for each in range(100)]))["FCT (ms)"]
    assert "share of the 100 flows" in texts
    assert path.count("L") < 64


def test_latencies_are_drawn_without_the_slowest_which_would_leave_no_room():
    texts, path = drawn(transacting({20e-6: 500, 40e-6: 490, 5.0: 9}))["Latency (µs)"]
    assert max(float(each) for each in texts if each.isdigit()) == 40
    levels = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
    assert 148 - levels[-1] == pytest.approx(2 * (148 - levels[0]), rel=0.01)


def test_launches_are_bars():
    rows = [{"launch": n, "pair": 0, "side": "server", "status": "ok", "ready_s": s} for n, s in enumerate((0.2, 0.1))]
    texts, path = drawn(replace(run([1.0]), spec=Spec(launches=2), launches=table("launches", rows)))[
        "Launch time (ms)"
    ]
    assert "launch, by its time" in texts
    assert heights(path)[1] == pytest.approx(2 * heights(path)[0], rel=0.01)


def test_a_card_has_them_and_one_of_nothing_has_none():
    assert charts(run([1.0])) in run([1.0])._repr_html_()
    nothing = Run(Spec(), "failed", ("the daemon was gone",))
    assert charts(nothing) == ""
    assert "<svg" not in nothing._repr_html_()


@pytest.mark.parametrize(
    ("values", "unit", "shown"),
    [
        ([2e9, 5e8, None], "bit/s", ([2.0, 0.5, None], "Gbit/s", 2.0)),
        ([0.25], "s", ([250.0], "ms", 250.0)),
        ([3.0], "s", ([3.0], "s", 3.0)),
        ([0.0], "bit/s", ([0.0], "bit/s", 0.0)),
        ([None], "bit/s", ([None], "bit/s", 0.0)),
    ],
)
def test_values_are_in_the_unit_that_suits_the_largest(values, unit, shown):
    assert scaled(values, unit) == shown
