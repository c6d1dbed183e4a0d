import re
import shutil

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from PIL import Image

from pairlab.analysis import figure_files, figures, grids, look, panels, published, stats
from pairlab.collection import load_runs

pytestmark = pytest.mark.usefixtures("closes_figures")


@pytest.fixture(scope="module")
def repetitions(campaign):
    return stats.throughput_by_repetition(load_runs(campaign).flows)


@pytest.fixture(scope="module")
def cells(campaign):
    return stats.throughput_by_cell(load_runs(campaign).flows)


def of_netns(frame):
    return frame[frame["backend"] == "netns"]


def lines(ax):
    return {container.get_label(): container for container in ax.containers}


def test_each_line_goes_through_the_estimates_and_its_bars_end_at_the_bounds(cells):
    ax = figures.total_by_pairs(of_netns(cells))
    for driver, mine in of_netns(cells).groupby("driver"):
        line, _, (bars,) = lines(ax)[driver]
        assert list(line.get_xdata()) == list(mine["pairs"])
        assert list(line.get_ydata()) == pytest.approx(list(mine["total_bps"] / 1e9))
        for segment, cell in zip(bars.get_segments(), mine.itertuples(), strict=True):
            assert segment[0][1] == pytest.approx(cell.total_low_bps / 1e9)
            assert segment[1][1] == pytest.approx(cell.total_high_bps / 1e9)


def test_every_panel_starts_at_zero_and_shows_its_highest_value(cells, repetitions):
    for figure in (
        figures.by_system(cells, figures.total_by_pairs),
        figures.by_system(repetitions, figures.box_by_pairs, wide=True),
    ):
        highest = repetitions["total_bps"].max() / 1e9
        assert len(figure.axes) == 2
        for ax in figure.axes:
            assert ax.get_ylim()[0] == 0
            assert ax.get_ylim()[1] > cells["total_bps"].max() / 1e9
        assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
        assert figure.axes[0].get_ylim()[1] < 2 * highest


def test_every_repetition_is_a_point_in_the_box_plot(repetitions):
    ax = figures.box_by_pairs(of_netns(repetitions))
    points = {line.get_label(): line for line in ax.lines if line.get_label() in look.DRIVERS}
    for driver, mine in of_netns(repetitions).groupby("driver"):
        assert sorted(points[driver].get_ydata()) == pytest.approx(sorted(mine["total_bps"] / 1e9))


def test_a_driver_looks_the_same_whoever_else_is_in_the_figure(cells):
    every = lines(figures.total_by_pairs(of_netns(cells)))["ovs"]
    alone = lines(figures.total_by_pairs(of_netns(cells)[of_netns(cells)["driver"] == "ovs"]))["ovs"]
    for line in (every[0], alone[0]):
        assert (line.get_color(), line.get_marker()) == look.DRIVERS["ovs"][:2]


def test_the_note_tells_n_and_what_the_bars_are(cells, repetitions):
    assert figures.note(cells) == "mean of n = 2 to 3 repetitions; bars: 95 % interval of the mean"
    assert figures.note(repetitions) == "a point per repetition, n = 2 to 3 for each box"
    assert figures.note(cells.assign(repetitions=1)) == "n = 1 repetition, which has no interval"


def test_published_and_own_shapes_share_their_axes(repetitions):
    theirs = stats.normalised_shape(published.load("throughput"), by=["paper"]).cells
    ours = stats.normalised_shape(repetitions).cells
    figure = figures.published_shape(ours, theirs)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["paper E, means", "here: docker, flowgen", "here: netns, flowgen"]
    assert len({ax.get_xlim() for ax in figure.axes}) == len({ax.get_ylim() for ax in figure.axes}) == 1
    ovs = lines(figure.axes[0])["ovs"][0]
    assert ovs.get_ydata()[0] == pytest.approx(71.4690 / 56.3890)


def test_saving_again_gives_the_same_bytes(cells, origin, out):
    first = {
        path.name: path.read_bytes()
        for path in figures.save(figures.by_system(cells, figures.total_by_pairs), "total", origin)
    }
    again = figures.save(figures.by_system(cells, figures.total_by_pairs), "total", origin)
    assert {"total.pdf", "total.png", "total.svg"} <= set(first)
    for path in again:
        assert path.parent == out / "figures" / "made-up"
        assert path.read_bytes() == first[path.name], path.name


def test_every_format_says_which_runs_it_was_made_from(cells, origin, out):
    files = {
        path.suffix: path for path in figures.save(figures.by_system(cells, figures.total_by_pairs), "total", origin)
    }
    told = "total: made from 12 runs of runs/made-up, measured 2024-05-01 to 2024-05-02, keys 0123456789abcdef"
    assert f"({told})".encode() in files[".pdf"].read_bytes()
    with Image.open(files[".png"]) as image:
        assert image.text == {"Description": told}
    assert f"<dc:description>{told}</dc:description>" in files[".svg"].read_text()
    if ".pgf" in files:
        assert files[".pgf"].read_text().startswith(f"% {told}.\n")


def test_without_latex_pgf_is_left_out_with_one_line_and_one_of_other_runs_removed(
    cells, origin, out, monkeypatch, capsys
):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    place = out / "figures" / "made-up"
    place.mkdir(parents=True)
    figure = figures.by_system(cells, figures.total_by_pairs)
    (place / "total.pgf").write_text(origin.comment("total") + "picture")
    assert [path.suffix for path in figures.save(figure, "total", origin)] == [".pdf", ".png", ".svg"]
    assert (place / "total.pgf").exists()
    (place / "total.pgf").write_text("% made from others\npicture")
    figures.save(figure, "total", origin)
    assert not (place / "total.pgf").exists()
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("total.pgf left out: pdflatex is not on PATH")


def test_fonts_are_embedded_as_outlines_and_never_as_type_three(cells, origin, out):
    pdf = figures.save(figures.by_system(cells, figures.total_by_pairs), "total", origin)[0].read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf


@pytest.mark.parametrize("wide", [False, True])
def test_a_long_note_stays_within_its_figure(cells, wide):
    note = "a change, paired by repetition, of n = 2 to 3 repetitions; bars: 95 % interval; " * 4
    panels = [("netns, flowgen", of_netns(cells))]
    figure = grids.grid(panels, figures.total_by_pairs, note=note, wide=wide)
    figure.draw_without_rendering()
    extent = figure._supxlabel.get_window_extent()
    assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width
    assert 2 * extent.width > figure.bbox.width  # and makes use of its width


def test_a_notebook_shows_a_figure_in_the_size_of_the_page_times_a_factor(cells):
    figure = figures.by_system(cells, figures.total_by_pairs)
    width, height = (
        float(size) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', figure_files.on_screen(figure))
    )
    assert width == pytest.approx(1.35 * 72 * look.PAGE_IN, abs=0.1)
    assert height / width == pytest.approx(look.HEIGHT_IN / look.PAGE_IN, rel=1e-3)


def test_whatever_style_came_before_a_figure_is_black_on_white(cells):
    with plt.style.context("dark_background"):
        svg = figure_files.as_svg(figures.by_system(cells, figures.total_by_pairs))
    assert re.search(r"fill: (#\w+)", svg)[1] == "#ffffff"
    plain = figure_files.as_svg(figures.by_system(cells, figures.total_by_pairs))
    assert svg == plain


def test_pairs_are_on_the_axis_that_sets_them_more_evenly_apart():
    for counts, scale in (([1, 5, 10, 50], "log"), ([10, 20, 30, 40, 50], "linear"), ([10], "linear")):
        ax = plt.subplots()[1]
        figures.count_axis(ax, pd.Series(counts))
        assert ax.get_xscale() == scale
        assert [mark for mark in ax.get_xticks() if ax.get_xlim()[0] <= mark <= ax.get_xlim()[1]] == counts


def test_very_many_points_are_an_image_and_the_paper_takes_the_pdf(origin, out, capsys):
    clients = pd.DataFrame({"driver": "bridge", "backend": "netns", "workload": "iperf"}, index=range(20_000))
    clients = clients.assign(throughput_bps=clients.index * 1e5, retransmits=clients.index % 97)
    axes = {"x": "throughput_bps", "y": "retransmits", "x_label": "Throughput (Gbit/s)", "y_label": "Retransmits"}
    figure = panels.by_system(clients, panels.scatter, note="n = 1 repetition", **axes)
    files = {path.suffix: path for path in figures.save(figure, "many", origin)}
    assert set(files) == {".pdf", ".png", ".svg"}
    assert "it has so many points" in capsys.readouterr().err
    assert files[".svg"].stat().st_size < 300_000
