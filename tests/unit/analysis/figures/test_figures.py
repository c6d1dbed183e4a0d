import locale
import os
import re
import shutil
from functools import partial
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from PIL import Image

from pairlab.analysis import cell_estimates, published
from pairlab.analysis import repetitions as runs_as_rows
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import estimates, files, grid, style
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.questions import throughput
from pairlab.analysis.selection import CELL
from pairlab.base.temporary_folder import PREFIX
from pairlab.errors import BadInput
from pairlab.store.dataset import load_runs
from tests.conftest import mostly_whole
from tests.support.styles import OTHERS

pytestmark = pytest.mark.usefixtures("closes_figures")


@pytest.fixture(scope="module")
def repetitions(campaign):
    return runs_as_rows.table(load_runs(campaign))


@pytest.fixture(scope="module")
def cells(repetitions):
    return cell_estimates.means(repetitions, CELL, "total_bps")


def of_netns(frame):
    return frame[frame["backend"] == "netns"]


def alone():
    """Axes that are a whole figure."""
    return plt.subplots()[1]


def total(cells, ax=None):
    return estimates.by_number(cells, ax or alone(), measure=throughput.TOTAL)


def by_system(cells):
    return estimates.by_system(cells, total)


def points(repetitions, ax=None):
    return estimates.repetitions_by_pairs(repetitions, ax or alone(), value="total_bps", measure=throughput.TOTAL)


def lines(ax):
    """The line of each driver."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def bars(ax, driver):
    """The lower and upper ends of a driver's intervals, from left to right."""
    color = lines(ax)[driver].get_color()
    mine = [line for line in ax.lines if line.get_marker() == "None" and line.get_color() == color]
    return sorted(
        (np.nanmean(line.get_xdata()), np.nanmin(line.get_ydata()), np.nanmax(line.get_ydata())) for line in mine
    )


@pytest.mark.parametrize(("high", "low", "scale"), [(40e9, 1e9, "log"), (20e9, 1e9, "linear"), (40e9, -1e9, "linear")])
def test_one_wide_interval_does_not_press_the_categories_of_any_panel_onto_the_axis(high, low, scale):
    values = [("docker", "ovs", 10e9, low, high), ("netns", "ovs", 5e9, 4e9, 6e9), ("netns", "bridge", 8e9, 7e9, 9e9)]
    cells = pd.DataFrame(values, columns=["backend", "driver", "value", "low", "high"])
    cells = cells.assign(workload="flowgen", place="here", n=3, confidence=0.95)
    how = {"measure": throughput.TOTAL, "category": "place", "order": ["here"], "name": "Place"}
    how["measure"] = how["measure"]._replace(change=low < 0)
    figure = estimates.by_system(cells, estimates.by_category, **how)
    assert {ax.get_yscale() for ax in figure.axes} == {scale}
    bottom, top = figure.axes[0].get_ylim()
    assert bottom <= low / 1e9
    assert top >= high / 1e9
    assert bool(bottom > 0) is (scale == "log")


@pytest.mark.parametrize(("least", "scale"), [(1e6, "log"), (0.0, "linear")])
def test_values_that_span_decades_are_on_a_logarithmic_axis_unless_one_is_zero(least, scale):
    rows = [(64, "64 B", least), (65_536, "64 KiB", 40e9)]
    cells = pd.DataFrame(rows, columns=["message_bytes", "place", "value"])
    cells = cells.assign(low=0.9 * cells["value"], high=1.1 * cells["value"], driver="bridge", n=3, confidence=0.95)
    how = {"measure": throughput.TOTAL, "log_y": True}
    by_category = estimates.by_category(cells, alone(), category="place", order=["64 B", "64 KiB"], name="Size", **how)
    for ax in (estimates.by_number(cells, alone(), number="message_bytes", name="Size", **how), by_category):
        assert ax.get_yscale() == scale
        bottom, top = ax.get_ylim()
        assert bottom <= least / 1e9 < 40 < top


def test_clients_of_one_repetition_have_one_shade_and_its_number_and_other_repetitions_others():
    clients = pd.DataFrame({"driver": "bridge", "repetition": [0, 0, 1, 1, 2, 2], "x": [1.0, 1.1, 2, 2.1, 3, 3.1]})
    ax = estimates.scatter(clients.assign(y=clients["x"]), alone(), x="x", y="y", x_label="X", y_label="Y")
    (drawn,) = ax.collections
    assert list(drawn.get_offsets()[:, 0]) == list(clients["x"])
    shades = [tuple(each) for each in drawn.get_facecolors()]
    assert shades[::2] == shades[1::2]
    assert len(set(shades)) == 3
    assert [(text.get_text(), *text.get_position()) for text in ax.texts] == [
        ("0", *[pytest.approx(1.05)] * 2),
        ("1", *[pytest.approx(2.05)] * 2),
        ("2", *[pytest.approx(3.05)] * 2),
    ]
    left, right = ax.get_xlim()
    assert 0.5 < left < 1
    assert right > 3.1


def test_each_line_goes_through_the_estimates_and_its_bars_end_at_the_bounds(cells):
    ax = total(of_netns(cells))
    for driver, mine in of_netns(cells).groupby("driver"):
        line = lines(ax)[driver]
        assert list(line.get_xdata()) == pytest.approx(list(mine["pairs"]), rel=0.03)
        assert list(line.get_ydata()) == pytest.approx(list(mine["value"] / 1e9))
        several = mine[mine["n"] > 2]  # one run is invalid, and two repetitions have no interval
        for (x, low, high), cell in zip(bars(ax, driver), several.itertuples(), strict=True):
            assert x == pytest.approx(cell.pairs, rel=0.03)
            assert (low, high) == pytest.approx((cell.low / 1e9, cell.high / 1e9))


def test_a_line_is_broken_where_its_driver_was_not_measured_and_estimates_without_an_interval_are_hollow(cells):
    mine = of_netns(cells)
    second = sorted(mine["pairs"].unique())[1]
    bare = mine[(mine["driver"] != "ovs") | (mine["pairs"] != second)].assign(low=np.nan, high=np.nan)
    ax = total(bare)
    gaps = {driver: list(np.isnan(line.get_ydata())) for driver, line in lines(ax).items()}
    assert gaps["ovs"][1]
    assert not any(gaps["bridge"])
    assert [line.get_markerfacecolor() for line in ax.lines].count("white") == len(gaps)
    assert "white" not in [line.get_markerfacecolor() for line in total(bare.assign(n=np.nan)).lines], "of a paper"


def test_every_panel_starts_at_zero_and_shows_its_highest_value(cells, repetitions):
    for figure in (by_system(cells), estimates.by_system(repetitions, points, wide=True)):
        highest = repetitions["total_bps"].max() / 1e9
        assert len(figure.axes) == 2
        for ax in figure.axes:
            assert ax.get_ylim()[0] == 0
            assert ax.get_ylim()[1] > cells["value"].max() / 1e9
        assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
        assert figure.axes[0].get_ylim()[1] < 2 * highest


def test_fewer_than_six_repetitions_are_points_and_six_are_a_box_from_their_least_to_their_most(repetitions):
    ax = points(of_netns(repetitions))
    assert not ax.patches
    shown = sorted(value for points_drawn in ax.collections for _, value in points_drawn.get_offsets())
    assert shown == pytest.approx(sorted(of_netns(repetitions)["total_bps"] / 1e9))
    first = of_netns(repetitions).query("driver == 'bridge' and pairs == 5")
    many = pd.concat([first.assign(repetition=number) for number in (10, 20)])
    assert len(many) == 6
    ax = points(many)
    assert len(ax.patches) == 1
    assert len(ax.collections[0].get_offsets()) == 6
    heights = [value for line in ax.lines for value in line.get_ydata()]
    assert (min(heights), max(heights)) == pytest.approx((many["total_bps"].min() / 1e9, many["total_bps"].max() / 1e9))


def test_a_driver_looks_the_same_whoever_else_is_in_the_figure(cells):
    every = lines(total(of_netns(cells)))["ovs"]
    alone = lines(total(of_netns(cells)[of_netns(cells)["driver"] == "ovs"]))["ovs"]
    for line in (every, alone):
        assert (line.get_color(), line.get_marker()) == style.DRIVERS["ovs"][:2]


def test_several_drivers_have_one_legend_and_one_alone_is_named_in_the_note(cells):
    figure = by_system(cells)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bridge", "macvlan", "ovs"]
    alone = by_system(cells[cells["driver"] == "ovs"])
    assert not alone.legends
    assert alone.get_supxlabel().startswith("ovs; mean of n = 3")


def test_networks_one_below_the_other_keep_their_colours_markers_and_order(cells):
    draw = partial(estimates.below_each_other, measure=throughput.TOTAL)
    rows = ["backend", "workload", "pairs"]
    figure = grid.facets(cells.assign(place="here"), draw, column="place", rows=rows, share_x=True, note="n")
    of_pairs = cells.groupby(["backend", "workload", "pairs"])["driver"].unique()
    assert len(figure.axes) == len(of_pairs)
    for ax, drivers in zip(figure.axes, of_pairs, strict=True):
        assert [mark.get_text() for mark in ax.get_yticklabels()] == ordered(drivers)
        filled = [line for line in ax.lines if line.get_marker() not in ("None", "") and line.get_mfc() != "white"]
        drawn = [(line.get_color(), line.get_marker()) for line in filled]
        assert drawn == [style.DRIVERS[driver][:2] for driver in ordered(drivers)]
        assert ax.get_xlim()[0] == 0


def test_the_note_tells_n_and_what_the_bars_are(cells, repetitions):
    assert (
        estimates.caption(cells) == "mean of n = 2 to 3 repetitions; bars: 95 % interval; hollow: no interval (n < 3)"
    )
    assert estimates.caption(cells[cells["n"] > 2]) == "mean of n = 3 repetitions; bars: 95 % interval"
    bare = cells[cells["n"] > 2].assign(low=float("nan"), high=float("nan"))
    for pairing, why in (
        ("measured apart", "sides were measured apart"),
        ("attempts differ", "more of one side's measurements did not count"),
    ):
        assert estimates.caption(bare.assign(pairing=pairing)).endswith(
            f"n = 3 repetitions; hollow: no interval ({why})"
        )
        some = pd.concat([cells[cells["n"] > 2], bare]).assign(pairing=pairing)
        assert "; bars: 95 % interval; hollow: no interval (" in estimates.caption(some)
    two = cells[cells["n"] == 2]
    assert estimates.caption(two).endswith("mean of n = 2 repetitions; hollow: no interval (n < 3)")
    assert estimates.caption(repetitions) == "a point per repetition, n = 2 to 3 in each column"
    assert estimates.caption(cells.assign(n=1)) == "mean of n = 1 repetition, which has no interval"
    many = pd.concat([repetitions, repetitions.assign(repetition=repetitions["repetition"] + 10)])
    told = "a point per repetition, and from n = 6 on a box (quartiles, median; whiskers: extremes); n = 4 to 6"
    assert estimates.caption(many) == f"{told} repetitions"


def test_published_and_own_shapes_share_their_axes(repetitions):
    theirs = throughput.normalised_shape(published.load("throughput"), by=["paper"]).cells
    ours = throughput.normalised_shape(repetitions).cells
    figure = estimates.published_shape(ours, theirs, measure=throughput.RELATIVE)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["paper E, means", "here: docker, flowgen", "here: netns, flowgen"]
    assert len({ax.get_xlim() for ax in figure.axes}) == len({ax.get_ylim() for ax in figure.axes}) == 1
    ovs = lines(figure.axes[0])["ovs"]
    assert ovs.get_ydata()[0] == pytest.approx(71.4690 / 56.3890)


def test_every_format_says_which_runs_it_was_made_from_and_has_the_same_bytes_again(cells, origin, out):
    saved = {path.suffix: path for path in files.save(by_system(cells), "total", origin)}
    assert {".pdf", ".png", ".svg"} <= set(saved)
    stamp = "total: made from 12 runs of runs/made-up, measured 2024-05-01 to 2024-05-02, keys 0123456789abcdef"
    assert f"({stamp})".encode() in saved[".pdf"].read_bytes()
    with Image.open(saved[".png"]) as image:
        assert image.text == {"Description": stamp}
    assert f"<dc:description>{stamp}</dc:description>" in saved[".svg"].read_text()
    if ".pgf" in saved:
        assert saved[".pgf"].read_text().startswith(f"% {stamp}.\n")
    assert b"/FontFile2" in saved[".pdf"].read_bytes()  # fonts are outlines
    assert b"/Type3" not in saved[".pdf"].read_bytes()
    first = {path: path.read_bytes() for path in saved.values()}
    for path in files.save(by_system(cells), "total", origin):
        assert path.parent == out / "figures" / "made-up"
        assert path.read_bytes() == first[path], path.name


def test_without_latex_pgf_is_left_out_with_one_line_and_one_of_other_runs_removed(
    cells, origin, out, monkeypatch, capsys
):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    place = out / "figures" / "made-up"
    place.mkdir(parents=True)
    figure = by_system(cells)
    (place / "total.pgf").write_text(origin.comment("total") + "picture")
    assert [path.suffix for path in files.save(figure, "total", origin)] == [".pdf", ".png", ".svg"]
    assert (place / "total.pgf").exists()
    (place / "total.pgf").write_text("% made from others\npicture")
    files.save(figure, "total", origin)
    assert not (place / "total.pgf").exists()
    lines_said = capsys.readouterr().err.splitlines()
    assert len(lines_said) == 2
    assert lines_said[0].startswith("total.pgf left out: pdflatex is not on PATH")


def test_latex_works_where_clean_finds_what_a_killed_kernel_leaves(cells, monkeypatch, tmp_path):
    program = tmp_path / "pdflatex"
    program.write_text(f"#!/bin/sh\npwd > {tmp_path}/where; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    files.backend_pgf.LatexManager._get_cached_or_new_impl.cache_clear()
    with plt.rc_context(style.STYLE):
        content, why = files.as_pgf(by_system(cells))
    assert content is None
    assert why.startswith("LaTeX did not set its text")
    assert PREFIX in (tmp_path / "where").read_text()


@pytest.mark.parametrize("wide", [False, True])
def test_a_long_note_stays_within_its_figure(cells, wide):
    note = "a change, paired by repetition, of n = 2 to 3 repetitions; bars: 95 % interval; " * 4
    panels = [("netns, flowgen", of_netns(cells))]
    figure = grid.grid(panels, total, note=note, wide=wide)
    figure.draw_without_rendering()
    extent = figure._supxlabel.get_window_extent()
    assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width
    assert 2 * extent.width > figure.bbox.width  # and makes use of its width


def test_a_notebook_shows_a_figure_in_the_size_of_the_page_times_a_factor(cells):
    figure = by_system(cells)
    width, height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', files.on_screen(figure)))
    assert width == pytest.approx(1.35 * 72 * style.PAGE_IN, abs=0.1)
    assert height / width == pytest.approx(style.HEIGHT_IN / style.PAGE_IN, rel=1e-3)


@pytest.mark.parametrize("named", mostly_whole(["total", "points"], but=["total"]))
def test_a_figure_depends_to_the_byte_on_its_data_alone(named, cells, repetitions, origin, out, monkeypatch):
    frame, draw = (of_netns(cells), total) if named == "total" else (repetitions, points)

    def saved():
        made = files.save(estimates.by_system(frame, draw), named, origin)
        return {path.name: path.read_bytes() for path in made}

    plain = saved()
    monkeypatch.setitem(locale._override_localeconv, "decimal_point", ",")
    with plt.rc_context(OTHERS):
        amid_others = saved()
    assert [name for name in plain if plain[name] != amid_others.get(name)] == []


def test_the_parts_of_a_legend_are_of_the_style_too():
    with plt.rc_context(OTHERS):
        (patch,) = grid.patches({"sys": "0.5"})
    assert patch.get_sketch_params() is None


def test_a_notebook_that_uses_the_style_has_nothing_of_another():
    with plt.rc_context(OTHERS):
        files.use_style()
        others = {name for name in OTHERS if plt.rcParams[name] != plt.rcParamsDefault[name]}
        assert others <= {*style.STYLE}


def test_whatever_style_came_before_a_figure_is_black_on_white(cells):
    with plt.style.context("dark_background"):
        svg = files.as_svg(by_system(cells))
    assert re.search(r"fill: (#\w+)", svg)[1] == "#ffffff"
    plain = files.as_svg(by_system(cells))
    assert svg == plain


def of_systems(**pairs_by_backend):
    rows = [
        {"backend": backend, "workload": "iperf", "driver": "bridge", "pairs": pairs, "size": size, "value": size * 1e9}
        for backend, pairs in pairs_by_backend.items()
        for size in (1, 2)
    ]
    return pd.DataFrame(rows).assign(low=0.5e9, high=2.5e9, n=3, confidence=0.95, gap="")


def by_size(cells, ax):
    return estimates.by_number(cells, ax, measure=throughput.TOTAL, number="size", name="Size")


def test_systems_with_different_numbers_of_pairs_say_so_and_others_leave_it_to_the_note():
    figure = estimates.by_system(of_systems(docker=5, netns=20), by_size)
    assert [ax.get_title() for ax in figure.axes] == ["docker, iperf: 5 pairs", "netns, iperf: 20 pairs"]
    assert "pairs" not in figure._supxlabel.get_text()
    figure = estimates.by_system(of_systems(docker=5, netns=5), by_size)
    assert [ax.get_title() for ax in figure.axes] == ["docker, iperf", "netns, iperf"]
    assert "5 pairs" in figure._supxlabel.get_text()


def test_lines_in_an_svg_have_hundredths_of_a_point(cells):
    paths = re.findall(r' d="([^"]*)"', files.as_svg(by_system(cells)))
    assert any(re.search(r"\.\d\d\b", path) for path in paths)
    assert not any(re.search(r"\.\d{3}", path) for path in paths)


def test_of_measures_above_each_other_a_system_keeps_its_column_where_one_lacks_it():
    upper, lower = of_systems(docker=5, netns=20), of_systems(netns=20)
    figure = estimates.above_each_other([(upper, by_size), (lower, by_size)])
    left, right, below = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["docker, iperf: 5 pairs", "netns, iperf: 20 pairs", ""]
    assert below.get_position().x0 == pytest.approx(right.get_position().x0, abs=0.02)
    assert [ax.xaxis.label.get_visible() for ax in (left, right, below)] == [True, False, True]


def test_pairs_are_on_the_axis_that_sets_them_more_evenly_apart():
    many = [1, 2, 3, 5, 10, 20, 50, 100, 150]
    for counts, scale in (([1, 5, 10, 50], "log"), (many, "log"), ([10, 20, 30, 40, 50], "linear"), ([10], "linear")):
        ax = alone()
        estimates.count_axis(ax, counts)
        assert ax.get_xscale() == scale
        assert [mark for mark in ax.get_xticks() if ax.get_xlim()[0] <= mark <= ax.get_xlim()[1]] == counts
        ax.figure.canvas.draw()
        assert [mark.get_text() for mark in ax.get_xticklabels()][-len(counts) :] == [str(count) for count in counts]


@pytest.mark.whole
def test_very_many_points_are_an_image_and_the_paper_takes_the_pdf(origin, out, capsys):
    clients = pd.DataFrame(
        {"driver": "bridge", "backend": "netns", "workload": "iperf", "repetition": 0}, index=range(20_000)
    )
    clients = clients.assign(throughput_bps=clients.index * 1e5, retransmits=clients.index % 97)
    axes = {"x": "throughput_bps", "y": "retransmits", "x_label": "Throughput (Gbit/s)", "y_label": "Retransmits"}
    figure = estimates.by_system(clients, estimates.scatter, note="n = 1 repetition", **axes)
    saved = {path.suffix: path for path in files.save(figure, "many", origin)}
    assert set(saved) == {".pdf", ".png", ".svg"}
    assert "a part of it is an image" in capsys.readouterr().err
    assert saved[".svg"].stat().st_size < 300_000


needs_latex = pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not here")


def labelled(text, **kind):
    ax = plt.subplots(figsize=(2, 2))[1]
    ax.plot([0, 1])
    ax.set_xlabel(text, **kind)
    return ax.figure


@needs_latex
@pytest.mark.parametrize(
    ("text", "in_pgf"),
    [
        ("a & b, #1, one $, 5 % {", r"a \& b, \#1, one \$, 5 \% \{"),
        (r"≤ μs \foo a_b", r"\ensuremath{\leq} µs \textbackslash{}foo a\_b"),
        (r"a_b & $\mu_1 ≤ −é$, 5 \$", r"a\_b \& $\mu_1 \ensuremath{\leq} -\mbox{\'{e}}$, 5 \$"),
    ],
)
def test_a_label_reads_in_pgf_as_in_other_formats_and_formulas_stay_formulas(origin, out, text, in_pgf):
    saved = files.save(labelled(text), "label", origin)
    assert in_pgf in saved[-1].read_text()


@needs_latex
def test_a_formula_that_latex_does_not_know_leaves_pgf_out_with_latexs_reason(origin, out, capsys):
    place = out / "figures" / "made-up" / "label.pgf"
    place.parent.mkdir(parents=True)
    place.write_text(origin.comment("label") + "an older picture of the same runs")
    saved = files.save(labelled(r"$a \barwedge b$"), "label", origin)
    assert [path.suffix for path in saved] == [".pdf", ".png", ".svg"]
    assert capsys.readouterr().err == "label.pgf left out: LaTeX did not set its text: Undefined control sequence.\n"
    assert not place.exists()


def test_what_is_no_formula_is_refused_with_what_to_write(origin, out):
    with pytest.raises(BadInput, match=r"no formula, although .*: Unknown symbol: \\foo.* Write \\\$ for a dollar"):
        files.save(labelled(r"$5 or \foo$"), "label", origin)
    assert files.save(labelled(style.text(r"$5 or \foo$")), "label", origin)


@pytest.mark.parametrize("draw", ["imshow", "figimage"])
def test_of_a_figure_with_an_image_the_paper_takes_the_pdf(draw):
    figure = labelled("x")
    getattr(figure.axes[0] if draw == "imshow" else figure, draw)([[0, 1], [1, 0]])
    assert files.as_pgf(figure) == (None, "a part of it is an image, as very many points are; the paper takes the PDF")


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
def test_a_label_with_control_characters_leaves_svg_that_browsers_read():
    ElementTree.fromstring(files.as_svg(labelled(style.text("a\x07b\x1b\udc80 --"))))


def test_what_is_beside_has_open_points_and_stands_beside_the_filled_ones_that_come_first():
    rows = pd.DataFrame(
        {"driver": driver, "value": value, "beside": beside}
        for driver in ("bridge", "macvlan")
        for beside in ("alone", "with others", "zero others")
        for value in (1.0, 2.0)
    )
    ax = estimates.repetitions_by_driver(
        rows, alone(), value="value", measure=throughput.TOTAL, beside="beside", filled="with others"
    )
    found = [
        (float(np.mean(each.get_offsets()[:, 0])), bool((each.get_facecolor()[:, :3] == 1).all()))
        for each in ax.collections
        if isinstance(each, PathCollection) and len(each.get_offsets())
    ]
    assert len(found) == 6
    places = [place for place, _ in found]
    assert places == sorted(places)
    assert [is_open for _, is_open in found] == [False, True, True] * 2


def test_no_repetition_hides_another_with_the_same_value():
    rows = pd.DataFrame({"driver": "bridge", "value": [2.0, 2.0, 2.0], "beside": "alone"})
    ax = estimates.repetitions_by_driver(rows, alone(), value="value", measure=throughput.TOTAL)
    (points,) = ax.collections
    at = points.get_offsets()[:, 0]
    assert np.diff(at).min() > 0.05
    assert np.abs(at).max() < 0.31


def test_panels_that_are_compared_have_one_order_with_gaps_where_one_lacks_a_driver(cells):
    rows = pd.DataFrame({"driver": ["macvlan", "nat"], "value": [1.0, 2.0]})
    order = ["bridge", "macvlan", "process", "nat"]
    ax = estimates.repetitions_by_driver(rows, alone(), value="value", measure=throughput.TOTAL, order=order)
    assert [mark.get_text() for mark in ax.get_xticklabels()] == order
    assert [float(x) for each in ax.collections for x in each.get_offsets()[:, 0]] == [1, 3]
    mine = cells[(cells["backend"] == "netns") & (cells["pairs"] == 10) & (cells["driver"] == "macvlan")]
    ax = estimates.below_each_other(mine, alone(), measure=throughput.TOTAL, order=order)
    assert [mark.get_text() for mark in ax.get_yticklabels()] == order
    assert {float(y) for line in ax.lines if line.get_marker() == "s" for y in line.get_ydata()} == {1}


def test_on_an_axis_of_ratios_half_as_much_is_as_far_from_none_as_twice():
    change = pd.DataFrame({"driver": "nat", "value": [-50.0], "low": [-100.0], "high": [300.0], "n": 3})
    measure = Quantity("Against alone (%)", "change", 1, change=True)
    ax = estimates.below_each_other(change, alone(), measure=measure, ratios=True)
    half, none, twice = ax.transData.transform([(x, 0) for x in (-50, 0, 100)])[:, 0]
    assert none - half == pytest.approx(twice - none)
    assert ax.get_xlabel() == "Against alone (%), logarithmic"


def scaled(*parts, label="Latency (µs)"):
    """A figure with a panel for each of these axes: (its highest value, whether it is logarithmic)."""

    def draw(part, ax):
        ax.plot([0, 1], [1, part["high"].iloc[0]])
        ax.set(xlabel="Pairs", ylabel=label)
        if part["log"].iloc[0]:
            grid.logarithmic(ax.yaxis)
        return ax

    panels = [(str(high), pd.DataFrame({"driver": ["bridge"], "high": high, "log": log})) for high, log in parts]
    figure = grid.grid(panels, draw, note="n = 1", across=1, share_y=False)
    figure.draw_without_rendering()
    return figure


def marks(ax):
    low, high = ax.get_ylim()
    return [mark.get_text() for mark in ax.get_yticklabels() if low <= mark.get_position()[1] <= high]


def test_an_axis_that_reaches_a_thousand_has_the_larger_unit_and_says_so_if_it_alone_is_logarithmic():
    small, large = scaled((200, False), (20_000, True)).axes
    assert (small.get_ylabel(), large.get_ylabel()) == ("Latency (µs)", "Latency (ms),\nlogarithmic")
    assert {"0.1", "10"} <= {*marks(large)}
    assert scaled((200, True)).axes[0].get_ylabel() == "Latency (µs)"
    short, long = scaled((900, False), (25_000, False)).axes
    assert (short.get_ylabel(), long.get_ylabel()) == ("Latency (µs)", "Latency (ms)")
    assert float(marks(short)[-1]) > 100
    assert {"0", "10", "20"} <= {*marks(long)}


@pytest.mark.parametrize(
    ("high", "shown"),
    [(5000, ["1", "10", "100", "1,000"]), (50, ["1", "3", "10", "30"]), (8, ["1", "2", "5"]), (4, ["1", "2", "3"])],
)
def test_a_logarithmic_axis_has_the_coarsest_steps_of_which_three_are_in_view(high, shown):
    assert marks(scaled((high, True), label="Rate (Gbit/s)").axes[0]) == shown


@pytest.mark.parametrize(("names", "turned"), [(["bridge", "nat"], 0), ([f"a long name, {n}" for n in range(9)], 65)])
def test_names_below_an_axis_are_turned_only_where_they_would_overlap(names, turned):
    def draw(part, ax):
        grid.name_categories(ax, names, "Driver")
        return ax

    (ax,) = grid.grid([("", pd.DataFrame({"driver": ["bridge"]}))], draw, note="n = 1").axes
    assert {mark.get_rotation() for mark in ax.get_xticklabels()} == {turned}


def test_the_rows_of_a_legend_read_in_order():
    figure = plt.figure(figsize=(3.4, 2))
    grid.add_legend(figure, grid.patches(dict.fromkeys("abcdefg", "red")), across=3)
    figure.draw_without_rendering()
    boxes = [(text.get_window_extent(), text.get_text()) for text in figure.legends[0].get_texts()]
    assert "".join(text for _, text in sorted(boxes, key=lambda box: (-round(box[0].y0), box[0].x0))) == "abcdefg"


def test_names_of_one_line_stand_beside_the_first_line_of_others():
    ax = alone()
    grid.name_categories(ax, ["no limit", "20 % with\nshares"], "Limit")
    assert [mark.get_text() for mark in ax.get_xticklabels()] == ["no limit\n", "20 % with\nshares"]


@needs_latex
def test_names_below_an_axis_stand_on_one_line_in_pgf(origin, out):
    ax = plt.subplots(figsize=(3, 2))[1]
    grid.name_categories(ax, ["nat", "host"], "Driver")
    written = files.save(ax.figure, "names", origin)[-1].read_text()
    heights = [re.search(rf"y=([\d.]+)in, left, base\]{{.*{name}}}", written) for name in ("nat", "host")]
    assert heights[0][1] == heights[1][1]
