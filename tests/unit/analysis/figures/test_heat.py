import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from pairlab.analysis.figures import files, heat
from tests.support.styles import OTHERS

pytestmark = pytest.mark.usefixtures("closes_figures")


def change(driver, step, value, low, high, panel="netns, flowgen: p99"):
    return {"driver": driver, "step": step, "value": value, "low": low, "high": high, "n": 5, "panel": panel}


CHANGES = pd.DataFrame(
    [
        change("ovs", "10 to 50", 300.4, 250.0, 360.0),
        change("bridge", "10 to 50", -12.2, -30.0, 4.0),
        change("bridge", "50 to 100", 90.0, 60.0, 120.0),
        change("ovs", "50 to 100", np.nan, np.nan, np.nan),
    ]
)


def shown(ax):
    return {
        (round(text.get_position()[1] - 0.5), round(text.get_position()[0] - 0.5)): text.get_text()
        for text in ax.texts
        if text.get_text()
    }


def one_map(changes):
    (ax,) = heat.change_maps(changes, panel="panel", column="step", name="Pairs").axes
    return ax


def test_a_map_depends_on_its_data_alone():
    plain = files.as_svg(one_map(CHANGES).figure)
    with plt.rc_context(OTHERS):
        assert files.as_svg(one_map(CHANGES).figure) == plain


def test_changes_stand_at_their_driver_and_step_and_in_brackets_where_they_may_be_none():
    ax = one_map(CHANGES)
    assert [mark.get_text() for mark in ax.get_yticklabels()] == ["bridge", "ovs"]
    assert [mark.get_text() for mark in ax.get_xticklabels()] == ["10 to 50", "50 to 100"]
    assert shown(ax) == {(0, 0): "(-12)", (0, 1): "+90", (1, 0): "+300"}


def test_a_drivers_name_is_no_formula():
    ax = one_map(CHANGES.replace("ovs", r"$\ovs$"))
    ax.figure.draw_without_rendering()  # which reads formulas
    assert ax.get_yticklabels()[1].get_text() == r"\$\ovs\$"


def test_falls_and_rises_have_different_colours_and_no_change_has_none():
    flat = CHANGES.assign(value=[0.0, -80.0, 400.0, np.nan])
    ax = one_map(flat)
    colours = ax.collections[0].get_facecolors().reshape(2, 2, 4)
    middle, fall, rise = colours[1, 0], colours[0, 0], colours[0, 1]
    assert min(middle[:3]) > 0.9
    assert fall[2] > fall[0]
    assert rise[0] > rise[2]


def test_a_figure_has_a_map_for_each_panel_and_says_what_the_brackets_mean():
    both = pd.concat([CHANGES, CHANGES.assign(panel="docker, flowgen: p99")])
    both = pd.concat([both, CHANGES.assign(panel="nothing known", value=np.nan)])
    figure = heat.change_maps(both, panel="panel", column="step", name="Pairs", conditions="TCP cubic")
    assert [ax.get_title() for ax in figure.axes] == ["netns, flowgen:\np99", "docker, flowgen:\np99"]
    note = figure._supxlabel.get_text().replace("\n", " ")
    told = "change in %, of n = 5 repetitions; in brackets: the interval holds zero"
    assert note == (
        f"{told}; empty: too few flows, or some failed; not drawn, as too few flows, or some failed: nothing known"
        " (10 to 50, 50 to 100); TCP cubic"
    )
    assert not figure.legends


def test_without_changes_in_brackets_nothing_is_said_of_them():
    (ax,) = heat.change_maps(CHANGES[CHANGES["low"] > 0], panel="panel", column="step", name="Pairs").axes
    assert ax.figure.get_supxlabel() == "change in %, of n = 5 repetitions"


def test_maps_share_a_row_each_as_wide_as_its_columns():
    one_step = CHANGES[CHANGES["step"] == "10 to 50"].assign(panel="docker, flowgen: p50")
    figure = heat.change_maps(pd.concat([CHANGES, one_step]), panel="panel", column="step", name="Pairs")
    figure.canvas.draw()
    wide, narrow = (ax.get_position() for ax in figure.axes)
    assert (narrow.y0, narrow.height) == pytest.approx((wide.y0, wide.height))
    assert wide.width == pytest.approx(2 * narrow.width, rel=0.1)
