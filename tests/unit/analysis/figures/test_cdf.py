import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from pairlab.analysis import by_group
from pairlab.analysis.figures import cdf, files, style
from pairlab.analysis.selection import CELL
from pairlab.store.dataset import Runs
from tests.support.synthetic_flows import fct

pytestmark = pytest.mark.usefixtures("closes_figures")


@pytest.fixture(scope="module")
def flows():
    return Runs(tuple(fct(workloads=("flowgen",), repetitions=3))).flows


@pytest.fixture(scope="module")
def points(flows):
    return by_group.of(flows, CELL, "fct_s").cdf()


def panel(points, backend="netns", pairs=50):
    return points[(points["backend"] == backend) & (points["pairs"] == pairs)]


def test_each_line_gives_the_median_of_its_driver_where_it_crosses_one_half(flows, points):
    ax = cdf.cdf_lines(panel(points), plt.subplots()[1], label="Time (ms)", scale=1e3)
    drawn = {line.get_label(): line for line in ax.lines}
    assert list(drawn) == ["bridge", "macvlan", "ovs", "host"]
    for driver, line in drawn.items():
        mine = panel(flows)[panel(flows)["driver"] == driver]["fct_s"].fillna(np.inf)  # of all flows
        # Beside the half, where the step of an even number of flows lies between two of them.
        median_ms = 1e3 * np.sort(mine)[int(np.ceil(0.499 * len(mine))) - 1]
        assert line.get_drawstyle() == "steps-post"
        assert line.get_xdata()[np.searchsorted(line.get_ydata(), 0.499)] == pytest.approx(median_ms)
        assert line.get_color() == style.driver_style(driver)["color"]


def test_below_each_line_are_faint_ones_one_for_each_repetition_and_the_note_says_so(flows):
    points = by_group.of(flows, CELL, "fct_s").cdf(each=True)
    ax = cdf.cdf_lines(panel(points), plt.subplots()[1], label="Time (ms)", scale=1e3)
    for driver in ("bridge", "macvlan", "ovs", "host"):
        *each, whole = [line for line in ax.lines if line.get_color() == style.driver_style(driver)["color"]]
        assert whole.get_label() == driver
        assert len(each) == 3
        assert all(line.get_alpha() < 1 and line.get_linewidth() < whole.get_linewidth() for line in each)
    assert "3 repetitions (faint: of each)" in cdf.note(points)


def test_faint_lines_are_coarser_the_more_there_are():
    values = pd.DataFrame({"value": np.arange(1.0, 1001), "share": np.arange(1, 1001) / 1000, "driver": "bridge"})
    steps = []
    for repetitions in (2, 20):
        each = [values.assign(repetition=repetition) for repetition in (np.nan, *range(repetitions))]
        ax = cdf.cdf_lines(pd.concat(each), plt.subplots()[1], label="Time (ms)")
        assert len(ax.lines) == repetitions + 1
        steps.append(len(ax.lines[0].get_xdata()))
    assert steps[0] > 2 * steps[1]


def test_a_figure_has_a_row_for_each_system_and_a_column_for_each_pair_count(points):
    figure = cdf.cdf_panels(points, label="Time (ms)", scale=1e3)
    titles = [f"{backend}, flowgen: {pairs} pairs" for backend in ("docker", "netns") for pairs in (10, 50)]
    assert [ax.get_title() for ax in figure.axes] == titles
    assert [ax.xaxis.label.get_visible() for ax in figure.axes] == [False, False, True, True]


def test_where_a_system_lacks_a_pair_count_panels_follow_each_other_and_each_has_its_own_axis(points):
    few = points[(points["backend"] == "docker") | (points["pairs"] == 10)]
    figure = cdf.cdf_panels(few, label="Time (ms)", scale=1e3, log=True)
    visible = {ax.get_title(): ax.xaxis.label.get_visible() for ax in figure.axes}
    assert visible == {
        "docker, flowgen: 10 pairs": True,
        "docker, flowgen: 50 pairs": True,
        "netns, flowgen: 10 pairs": True,
    }
    tops = {round(ax.get_position().y1, 3) for ax in figure.axes}
    assert len(tops) == 1, "all in one row"
    assert len({tuple(ax.get_xlim()) for ax in figure.axes}) == 3


def test_a_logarithmic_axis_has_at_least_two_plain_numbers_as_marks(points):
    figure = cdf.cdf_panels(points, label="Time (ms)", scale=1e3, log=True)
    figure.canvas.draw()
    for ax in figure.axes[2:]:
        low, high = ax.get_xlim()
        shown = [mark.get_text() for mark in ax.get_xticklabels() if low <= mark.get_position()[0] <= high]
        assert len(shown) >= 2
        assert {"50", "100"} & set(shown)


def test_without_lines_of_repetitions_the_note_names_none(points):
    assert "faint" not in cdf.note(points)


def test_failed_flows_are_counted_in_the_note(points):
    assert "2 of all flows failed: lines end below 1" in cdf.note(points)
    assert cdf.note(panel(points, pairs=10)).endswith("none failed")


@pytest.mark.whole
def test_a_figure_of_many_flows_stays_small(tmp_path, origin, out):
    random = np.random.default_rng(1)
    many = pd.concat(
        pd.DataFrame({"value": random.lognormal(-2, 0.5, 300_000), "driver": driver, "pairs": pairs})
        for driver in ("bridge", "macvlan", "ovs", "host")
        for pairs in (10, 50, 100)
    ).assign(backend="netns", workload="flowgen", repetition=0)
    figure = cdf.cdf_panels(by_group.of(many, CELL, "value").cdf(), label="Time (s)")
    for path in files.save(figure, "many", origin):
        assert path.stat().st_size < 500_000, path
