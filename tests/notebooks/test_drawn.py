"""What the figures of questions show, over made-up runs."""

import itertools

import numpy as np
import pytest

from pairlab.analysis.figures import style
from pairlab.analysis.questions import udp
from tests.support import asked
from tests.support.claimed import ACROSS, exchanging


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("fct", "fct-cdf-log"),
        ("dc-simulation", "dc-simulation-fct"),
        ("launch-time", "launch-cdf"),
        ("elephant-mice", "elephant-mice-cdf"),
        ("fairness", "fairness-cdf"),
    ],
)
def test_a_distribution_shows_each_repetition_so_that_a_slow_one_does_not_look_like_slow_flows(topic, name, ask):
    assert "(faint: of each)" in ask(topic, asked.runs_of(topic, 2)).figure(name).get_supxlabel()


def test_no_line_of_exchanges_goes_over_a_number_of_containers_that_was_measured_elsewhere_only(ask):
    made = [
        exchanging(1 + pairs, driver=driver, pairs=pairs, repetition=repetition, **place)
        for driver, place, counts in (
            ("bridge", {}, (1, 2, 4)),
            ("process", {}, (1, 2, 4)),
            ("overlay", ACROSS, (1, 4)),
        )
        for pairs, repetition in itertools.product(counts, range(3))
    ]
    within, across = ask("all-to-all", made).figure("all-to-all").axes
    assert not np.isnan(drawn(within)["bridge"].get_ydata()).any()
    assert list(np.isnan(drawn(across)["overlay"].get_ydata())) == [False, True, False]
    assert within.get_xlim() == across.get_xlim()


def test_exchanges_with_and_without_containers_look_like_networks_with_and_without(ask):
    (ax,) = ask("all-to-all", asked.runs_of("all-to-all", 3)).figure("all-to-all-hosts").axes
    for kind, driver in (("with containers", "overlay"), ("without containers", "process")):
        assert drawn(ax)[kind].get_color() == style.driver_style(driver)["color"]


def test_spacings_of_starts_are_categories_with_drivers_beside_each_other(ask):
    figure = ask("starting", asked.runs_of("starting", 3)).figure("starting")
    for ax in figure.axes:
        assert [mark.get_text() for mark in ax.get_xticklabels()] == ["0 ms", "30 ms"]
        assert {line.get_linestyle() for line in drawn(ax).values()} == {"None"}
        places = np.concatenate([line.get_xdata() for line in drawn(ax).values()])
        assert np.diff(np.sort(places)).min() > 0.1


def test_messages_and_bulk_transfers_have_rows_of_their_own_and_latencies_are_linear_from_zero(ask):
    answer = ask("single-host-modes", asked.runs_of("single-host-modes", 3))
    rows = [ax.get_title() for ax in answer.figure("single-host-modes-throughput").axes]
    assert rows == ["netns, bulk transfers", "netns, messages of 1024 B"]
    (latency,) = answer.figure("single-host-modes-latency-sizes").axes
    assert (latency.get_yscale(), latency.get_ylim()[0]) == ("linear", 0)
    assert {line.get_linestyle() for line in drawn(latency).values()} == {"None"}


def test_mice_and_elephants_share_one_axis_of_times(ask):
    figure = ask("elephant-mice", asked.runs_of("elephant-mice", 2)).figure("elephant-mice-roles")
    assert len(figure.axes) > 1
    assert len({ax.get_xlim() for ax in figure.axes}) == 1


def test_places_are_in_the_same_order_in_both_figures_of_the_cost_of_a_transaction(ask):
    answer = ask("cost", asked.runs_of("cost", 3))
    of_layers, of_demand = (
        [ax.get_title().partition(": ")[2] for ax in answer.figure(f"cpu-overhead-{name}").axes]
        for name in ("layers", "demand")
    )
    assert of_layers == [place for place in of_demand if place in of_layers]


def test_an_axis_of_protocols_names_their_share_of_the_clients_where_there_are_two():
    places = [udp._place(*each) for each in (("tcp", 0, 0), ("udp", 1, 0), ("tcp", 0.25, 0), ("udp", 0.25, 1e8))]
    assert places == ["TCP", "UDP", "TCP\n75 % of clients", "UDP\n25 % of clients\nUDP at 100 Mbit/s"]


def drawn(ax):
    """The line of each driver."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
