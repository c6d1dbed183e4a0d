import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.analysis.figures import estimates, line_labels
from pairlab.analysis.questions import throughput

pytestmark = pytest.mark.usefixtures("closes_figures")


def cells(ends, pairs=(1, 5, 10, 50)):
    """Estimates of lines that rise to their ends, by driver; an end may be of fewer pairs."""
    rows = []
    for driver, end in ends.items():
        end, last = end if isinstance(end, tuple) else (end, pairs[-1])
        for count in [each for each in pairs if each <= last]:
            rows.append((driver, count, end * (0.5 + 0.5 * count / last)))
    frame = pd.DataFrame(rows, columns=["driver", "pairs", "value"]).assign(backend="netns", workload="iperf")
    return frame.assign(low=0.98 * frame["value"], high=1.02 * frame["value"], n=3, confidence=0.95)


def drawn(ends):
    figure = estimates.by_system(cells(ends), estimates.by_number, measure=throughput.TOTAL)
    figure.draw_without_rendering()
    return figure


def labels(figure):
    return {label.get_text(): label for label in figure.axes[0].texts}


def test_lines_that_end_apart_are_named_at_their_ends_without_a_legend():
    figure = drawn({"bridge": 20e9, "macvlan": 30e9, "ovs": 5e9})
    assert not figure.legends
    for driver, label in labels(figure).items():
        end = figure.axes[0].containers[["bridge", "macvlan", "ovs"].index(driver)][0]
        x, y = end.get_transform().transform(end.get_xydata()[-1])
        extent = label.get_window_extent()
        assert extent.y0 < y < extent.y1
        assert 0 < extent.x0 - x < 0.15 * figure.dpi
    assert set(labels(figure)) == {"bridge", "macvlan", "ovs"}


def test_names_of_two_lines_that_end_close_together_move_apart_and_keep_their_order():
    figure = drawn({"bridge": 20e9, "macvlan": 20.5e9, "ovs": 5e9})
    told = {name: label.get_window_extent() for name, label in labels(figure).items()}
    assert told["bridge"].y1 <= told["macvlan"].y0
    assert told["bridge"].x0 == pytest.approx(told["macvlan"].x0)


def test_many_lines_that_end_in_one_place_get_a_legend_and_no_names():
    figure = drawn({"bridge": 20e9, "macvlan": 20.1e9, "ovs": 20.2e9, "host": 20.3e9})
    assert not labels(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bridge", "macvlan", "ovs", "host"]


def test_a_name_that_would_cross_another_line_gives_way_to_a_legend():
    figure = drawn({"bridge": 30e9, "host": (19e9, 10)})  # the line of bridge goes on where that of host ends
    assert not labels(figure)
    assert figure.legends


def test_one_driver_alone_is_named_in_the_note():
    figure = drawn({"bridge": 20e9})
    assert not figure.legends
    assert not labels(figure)
    assert figure.get_supxlabel().startswith("bridge; mean of n = 3")


def test_points_that_no_line_joins_have_a_legend_with_points_only():
    figure, ax = plt.subplots()
    ax.errorbar([1, 2], [1, 2], yerr=0.1, linestyle="none", label="bridge")
    assert not line_labels.label_ends(figure)


PLACES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6).map(sorted)


@given(PLACES, st.floats(0.1, 50), st.floats(-1e3, 1e3))
def test_spread_places_keep_their_gaps_and_their_floor(places, gap, lowest):
    spread = line_labels.spread(places, gap, lowest)
    assert (np.diff(spread) >= gap - 1e-6).all()
    assert spread.min() >= lowest - 1e-6


def test_places_that_are_apart_already_stay():
    assert list(line_labels.spread([1, 5, 20], 3, 0)) == pytest.approx([1, 5, 20])
    assert list(line_labels.spread([10, 10], 4, 0)) == pytest.approx([8, 12])
