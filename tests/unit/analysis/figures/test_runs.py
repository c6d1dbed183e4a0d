"""Pictures of chosen runs: what is drawn of them, in which looks, and what is said where there is nothing."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

from pairlab.analysis.figures import style
from pairlab.analysis.figures.files import as_svg, on_screen
from pairlab.analysis.figures.runs import pictures, values
from pairlab.analysis.figures.runs.series import choose
from pairlab.errors import NoRuns
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from tests.support.claimed import launching
from tests.support.synthetic import bulk, ending, run, transacting

PICTURES = ("cdf", "box", "time_series", "retransmits", "measures")


def over_time(rates_gbps, *, interval_s=0.5, warmup=0, skip=(), **spec) -> Run:
    """A run of clients with that rate in each interval; the first `warmup` intervals are warm-up."""
    steps = len(rates_gbps[0])
    made = run([np.mean(rates) for rates in rates_gbps], interval_s=interval_s, duration_s=interval_s * steps, **spec)
    rows = [
        {
            "pair": pair,
            "flow": 0,
            "start_s": at * interval_s,
            "end_s": (at + 1) * interval_s,
            "interval_bytes": rate * 1e9 / 8 * interval_s,
            "throughput_bps": rate * 1e9,
            "warmup": at < warmup,
        }
        for pair, rates in enumerate(rates_gbps)
        if pair not in skip
        for at, rate in enumerate(rates)
    ]
    return replace(made, intervals=table("intervals", rows))


def note(figure):
    return " ".join(figure._supxlabel.get_text().split())


def names(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()] if figure.legends else []


def words(figure):
    return " ".join(figure.axes[0].texts[0].get_text().split())


def lines(ax, color=None):
    return [line for line in ax.lines if len(line.get_xdata()) and color in (None, line.get_color())]


# --- what is drawn


@pytest.mark.parametrize("name", ["cdf", "box", "measures"])
def test_launches_are_drawn_by_the_times_that_they_took(name):
    figure = getattr(pictures, name)([launching(1.0), launching(2.0, driver="macvlan")])
    (ax, *_) = figure.axes
    drawn = {float(value) for line in lines(ax) for value in (line.get_xdata() if name == "cdf" else line.get_ydata())}
    assert {200.0, 400.0} <= {round(value, 6) for value in drawn}
    assert "launch" in (ax.get_xlabel() + ax.get_ylabel() + ax.get_title(loc="left")).lower()
    assert "no launches failed" in note(figure)


def test_launches_beside_flows_are_left_out_and_said_to_be():
    figure = pictures.cdf([bulk([1.0]), launching(1.0)])
    assert "1 of 2 runs have no flows and are not drawn" in note(figure)


def test_a_distribution_has_a_line_per_run_and_reads_its_quantiles():
    figure = pictures.cdf([run([1.0, 2.0, 3.0]), run([4.0, 5.0, 6.0], driver="macvlan")])
    bridge, macvlan = figure.axes[0].lines
    assert (bridge.get_color(), bridge.get_marker()) == (style.DRIVERS["bridge"][0].lower(), "o")
    assert macvlan.get_marker() == style.DRIVERS["macvlan"][1]
    assert bridge.get_drawstyle() == "steps-post"
    assert bridge.get_xdata()[np.searchsorted(bridge.get_ydata(), 0.5)] == 2.0
    assert figure.axes[0].get_xlabel() == "Throughput of a flow (Gbit/s)"
    assert names(figure) == ["bridge", "macvlan"]


def test_flows_with_an_end_are_shown_by_their_completion_times():
    figure = pictures.cdf(ending([0.010, 0.020, 0.030]))
    assert figure.axes[0].get_xlabel() == "Flow completion time (ms)"
    assert list(figure.axes[0].lines[0].get_xdata()) == pytest.approx([10, 10, 20, 30])
    assert list(figure.axes[0].lines[0].get_ydata()) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert pictures.box(ending([11, 12, 15])).axes[0].get_ylabel() == "Flow completion time (s)"


def test_transactions_are_shown_by_their_latencies_and_the_lost_took_longer_than_any():
    fast = transacting({10e-6: 2, 20e-6: 1}, lost=1)
    figure = pictures.cdf([fast, transacting({40e-6: 4}, driver="macvlan")])
    bridge, macvlan = figure.axes[0].lines
    assert figure.axes[0].get_xlabel() == "Latency of a transaction (µs)"
    assert figure.axes[0].get_ylabel() == "Share of transactions"
    assert list(bridge.get_xdata()) == pytest.approx([10, 10, 20])
    assert list(bridge.get_ydata()) == pytest.approx([0, 0.5, 0.75])
    assert macvlan.get_ydata()[-1] == 1
    assert "n = 4 transactions in each line" in note(figure)
    assert "1 were lost, and took longer than any" in note(figure)
    assert pictures.cdf([fast, run([1.0], driver="macvlan")]).axes[0].get_xlabel() == "Throughput of a flow (Gbit/s)"


def test_each_measure_of_runs_has_a_panel_with_a_mark_per_run():
    made = [transacting({10e-6 * (1 + at): 100}, driver=driver) for at, driver in enumerate(("bridge", "ovs"))]
    figure = pictures.measures(made)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    known = ["Median latency", "p90 latency", "p99 latency", "Longest latency"]  # of 100, no p99.9 is known
    assert titles == ["Total throughput", "Transactions per second", *known]
    median = figure.axes[2]
    assert median.get_ylabel() == "µs"
    assert [float(line.get_ydata()[0]) for line in lines(median)] == pytest.approx([10, 20])
    assert [text.get_text() for text in figure.axes[-1].get_xticklabels()] == ["bridge", "ovs"]


def test_values_that_lie_far_apart_get_a_logarithmic_axis():
    near, far = [ending([0.010, 0.020]), ending([0.08, 0.1], driver="ovs")], ending([1.0, 2.0], driver="macvlan")
    assert pictures.cdf(near).axes[0].get_xscale() == "linear"
    assert pictures.cdf([*near, far]).axes[0].get_xscale() == "log"
    assert pictures.box([*near, far]).axes[0].get_yscale() == "log"


@pytest.mark.parametrize(("count", "lines_of_a_box"), [(3, 0), (6, 5)])
def test_marks_stand_for_runs_and_from_six_of_them_on_a_box_for_their_series(count, lines_of_a_box):
    runs = [run([1.0, 2.0, 4.0 + at], repetition=at) for at in range(count)] + [run([5.0] * 3, driver="ovs")]
    figure = pictures.box(runs)
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["bridge", "ovs"]
    medians = [line for line in ax.lines if line.get_marker() in ("o", "^") and line.get_markersize() > 3]
    assert [len(line.get_ydata()) for line in medians] == [count, 1]
    assert list(medians[0].get_ydata()) == [2.0] * count
    assert len([line for line in ax.lines if line.get_marker() == ""]) == lines_of_a_box
    assert ("a box" in note(figure)) is (lines_of_a_box > 0)


def test_over_time_the_total_stands_above_and_the_clients_below():
    figure = pictures.time_series(over_time([[1.0, 2.0, 2.0], [3.0, 4.0, 4.0], [8.0, 8.0, 8.0]], warmup=1))
    above, below = figure.axes
    (total,) = above.patches[:1]
    assert list(total.get_data().values) == pytest.approx([12, 14, 14])
    assert list(total.get_data().edges) == pytest.approx([0, 0.5, 1, 1.5])
    assert len([line for line in below.lines if line.get_linewidth() < 0.5]) == 3
    assert list(below.patches[0].get_data().values) == pytest.approx([3, 4, 4])
    assert (above.get_ylabel(), below.get_xlabel()) == ("Total (Gbit/s)", "Time since the release (s)")


def test_the_warm_up_is_shaded_and_named():
    shaded = pictures.time_series(over_time([[1.0, 2.0, 2.0]], warmup=1))
    assert [text.get_text() for text in shaded.axes[0].texts] == ["warm-up"]
    assert shaded.axes[0].patches[-1].get_width() == pytest.approx(0.5)
    assert not pictures.time_series(over_time([[1.0, 2.0, 2.0]])).axes[0].texts


def test_retransmits_stand_against_throughput_with_the_rank_correlation():
    figure = pictures.retransmits(bulk([5, 4, 3, 2, 1.5, 1], retransmits=[0, 1, 2, 3, 9, 5]))
    assert names(figure) == ["bridge: ρ = −0.94"]
    assert "n = 6 clients in each run, 1 run" in note(figure)
    assert "Spearman" in note(figure)
    points = figure.axes[0].lines[0]
    assert list(points.get_xdata()) == [0, 1, 2, 3, 9, 5]
    assert list(points.get_ydata()) == [5, 4, 3, 2, 1.5, 1]


def test_several_runs_give_the_correlation_an_interval_and_few_clients_none():
    several = [bulk([5, 4, 3, 2, 1 + at], retransmits=[0, 1, 2, 3, 4], repetition=at) for at in range(3)]
    assert names(pictures.retransmits(several))[0].endswith("]")
    assert names(pictures.retransmits(bulk([5, 4, 3, 2], retransmits=[0, 1, 2, 3]))) == ["bridge: fewer than 5 clients"]
    assert names(pictures.retransmits(bulk([5, 4, 3, 2, 1], retransmits=[0] * 5))) == ["bridge: all alike"]


def test_the_kernel_counts_where_the_tool_does_not():
    made = run([3.0, 2.0])
    made.flows["netns_retransmits"] = [7.0, 8.0]
    figure = pictures.retransmits(made)
    assert list(figure.axes[0].lines[0].get_xdata()) == [7, 8]
    assert "counted by the kernel where the tool reports none" in note(figure)


# --- the look of several runs


def test_a_driver_keeps_its_own_look_and_its_series_differ_in_colour_dash_and_marks():
    chosen = choose([run([1.0] * pairs, driver=driver) for driver in ("ovs", "bridge") for pairs in (1, 2, 3)])
    assert [each.label for each in chosen.series] == [
        *("bridge, 1 pair", "bridge, 2 pairs", "bridge, 3 pairs"),
        *("ovs, 1 pair", "ovs, 2 pairs", "ovs, 3 pairs"),
    ]
    bridges = [each.style for each in chosen.series[:3]]
    assert {style["marker"] for style in bridges} == {"o"}
    assert all(len({str(style[what]) for style in bridges}) == 3 for what in ("color", "linestyle", "fillstyle"))
    (alone,) = choose(run([1.0])).series
    assert alone.style["color"] == style.DRIVERS["bridge"][0].lower()


def test_repetitions_are_one_series_and_what_differs_only_in_the_series_is_its_name():
    chosen = choose([run([1.0], repetition=at, message_bytes=size) for at in range(3) for size in (64, 1024)])
    assert [each.label for each in chosen.series] == ["bridge, message 64 B", "bridge, message 1,024 B"]
    assert [len(each.runs) for each in chosen.series] == [3, 3]
    assert chosen.common == "throughput, netns, bridge, 1 pair, flowgen, duration 2 s"


# --- what a reader must know


@pytest.mark.parametrize("picture", PICTURES)
def test_every_picture_says_what_its_runs_have_in_common_and_n(picture):
    made = over_time([[1.0, 2.0]] * 6)
    made.flows["retransmits"] = np.arange(6.0)
    assert note(getattr(pictures, picture)([made])).startswith(
        "throughput, netns, bridge, 6 pairs, flowgen, duration 1 s; "
    )
    assert "n = 6" in note(getattr(pictures, picture)([made]))


def test_flows_that_failed_and_runs_without_flows_are_told():
    lost = Run(Spec(driver="ovs"), "skipped", ("no ovs-vswitchd",))
    figure = pictures.cdf([run([1.0, 2.0, 3.0], failed=1), lost])
    assert "1 of 3 flows failed and are not shown" in note(figure)
    assert "1 of 2 runs have no flows and are not drawn (no ovs-vswitchd)" in note(figure)


def test_an_invalid_run_is_drawn_and_called_so():
    assert names(pictures.cdf(run([1.0, 2.0], status="invalid", reasons=("late",)))) == ["bridge (invalid)"]


def test_clients_without_intervals_are_said_not_to_be_in_the_total():
    figure = pictures.time_series(over_time([[1.0, 1.0], [2.0, 2.0]], skip=(1,)))
    assert "totals of those clients only, whose tool reports intervals" in note(figure)


@pytest.mark.parametrize(
    ("picture", "made", "told"),
    [
        ("time_series", run([1.0, 2.0]), "These runs have no intervals: their tool reports no throughput over time."),
        ("retransmits", run([1.0, 2.0]), "No client's retransmitted segments are known"),
        ("cdf", ending([0.1, 0.1], failed=2), "No flows of these runs have a completion time"),
        ("box", ending([0.1, 0.1], failed=2), "No flows of these runs have a completion time"),
        ("cdf", Run(Spec(), "skipped", ("no reason",)), "No flows of these runs have a throughput"),
    ],
)
def test_what_runs_do_not_have_is_a_picture_of_words(picture, made, told):
    assert words(getattr(pictures, picture)(made)).startswith(told)


@pytest.mark.parametrize("picture", PICTURES)
def test_without_any_run_there_is_an_error_that_says_so(picture):
    with pytest.raises(NoRuns, match="there is no run to draw"):
        getattr(pictures, picture)([])


# --- the values


def test_the_course_spreads_what_was_carried_over_the_steps():
    made = over_time([[1.0, 3.0]])
    made.intervals.loc[:, ["start_s", "end_s"]] = [[0.25, 0.75], [0.75, 1.25]]
    found = values.over_time(made)
    assert list(found.clients_bps[0]) == pytest.approx([0.5e9, 2e9])
    assert list(found.edges_s) == [0, 0.5, 1]


def test_the_course_of_flows_with_an_end_is_shown_in_steps_shorter_than_they_are():
    made = ending([0.1, 0.2])
    rows = [
        {"pair": pair, "flow": 0, "start_s": 0.0, "end_s": end_s, "interval_bytes": 1e6, "warmup": False}
        for pair, end_s in enumerate((0.1, 0.2))
    ]
    found = values.over_time(replace(made, intervals=table("intervals", rows)))
    assert found.edges_s[-1] == pytest.approx(0.2)
    assert found.total_bps[0] == pytest.approx(8e6 / 0.1 + 8e6 / 0.2)
    assert found.total_bps[-1] == pytest.approx(8e6 / 0.2)


def test_several_flows_of_a_client_are_one_client():
    made = over_time([[1.0, 1.0], [2.0, 2.0]])
    made.intervals["flow"], made.intervals["pair"] = made.intervals["pair"], 0
    assert values.over_time(made).clients_bps.tolist() == [[3e9, 3e9]]


# --- as files and in pages


def test_pictures_stand_outside_of_pyplot_and_have_the_house_style_wherever_they_are_rendered(tmp_path):
    before = plt.get_fignums()
    figure = pictures.cdf(run([1.0, 2.0]))
    assert plt.get_fignums() == before
    svg = as_svg(figure)
    assert svg.startswith("<svg")
    assert "STIX" in svg
    assert svg == as_svg(pictures.cdf(run([1.0, 2.0])))
    assert figure._repr_svg_() == on_screen(figure)
    with plt.rc_context({"font.family": "sans-serif", "savefig.bbox": "tight"}):
        figure.savefig(tmp_path / "inside.png")
    figure.savefig(tmp_path / "outside.png")
    assert (tmp_path / "inside.png").read_bytes() == (tmp_path / "outside.png").read_bytes()


@pytest.mark.whole
def test_hundreds_of_clients_do_not_make_a_picture_of_megabytes():
    made = over_time([[1.0, 2.0] * 20] * 300)
    assert len(as_svg(pictures.time_series(made))) < 500_000


def test_who_points_at_a_mark_is_told_which_run_it_is_and_where_the_mark_is_drawn():
    slow, fast = bulk([1, 2], driver="bridge", retransmits=[3, 7]), bulk([8, 9], driver="macvlan", retransmits=[3, 7])
    made = pictures.measures([slow, replace(fast, status="invalid")])
    made._repr_svg_()
    total = {words: (x, y) for x, y, words in made.places if words.endswith("Gbit/s")}
    (low,) = [place for words, place in total.items() if words == "bridge, repetition 0: 3 Gbit/s"]
    (high,) = [place for words, place in total.items() if words == "macvlan (invalid), repetition 0: 17 Gbit/s"]
    assert 0 < low[0] < high[0] < 1
    assert 0 < high[1] < low[1] < 1  # from above
    clients = [words for *_, words in pictures.retransmits([slow]).places]
    assert clients == ["bridge, repetition 0, client 0: 3, 1 Gbit/s", "bridge, repetition 0, client 1: 7, 2 Gbit/s"]
    for picture in (pictures.box, pictures.cdf):
        assert {words.split(":")[0] for *_, words in picture([slow, fast]).places} == {
            "bridge, repetition 0",
            "macvlan, repetition 0",
        }
