"""What the analysis notebooks show of runs/reference, and what holds of every figure that they make."""

import itertools
import json
import re

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Annotation

from pairlab import paths
from pairlab.analysis.figures import files, style
from pairlab.testbed import registry
from tests.support.executed import committed_outputs, outputs_of, shell

#: An axis says its unit in brackets, or its marks do; or it shows one of these, which have none.
UNIT = re.compile(r"\((Gbit/s|s|ms|µs|%|µs/transaction|µs per transaction)\)")
UNIT_OF_MARKS = re.compile(r"^[\d.,]+ (B|KiB|MiB)$")
COUNTS = (
    "Pairs",
    "Flows per pair",
    "Retransmitted segments",
    "Containers per core",
    "Containers",
    "Idle pairs",
    "Launched at once",
)
RATIOS = (
    "Share of ",
    "Times one host",
    "Mean latency (times alone)",
    "Jain's index",
    "Total throughput\n(bridge at 10 pairs = 1)",
)
CATEGORIES = (
    "What is measured",
    "Driver",
    "Network",
    "Allocation",
    "Pinning",
    "Congestion control",
    "Protocol",
    "Limit (quota in CPUs, shares as weight)",
    "MTU of the containers' links",
)

#: So large a figure may be, for the notebook that shows it and for the page that loads it.
MOST_BYTES = 300_000


NOTEBOOKS = sorted(paths.ANALYSES.glob("[0-9]*.ipynb"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Each figure of runs/reference by its name, and what each notebook printed and showed by its stem."""
    figures, outputs = {}, {}

    def keep(figure, name, origin):
        figure.draw_without_rendering()
        figures[name] = figure
        return []

    with pytest.MonkeyPatch.context() as patch, shell() as python:
        patch.setenv("PAIRLAB_OUT", str(tmp_path_factory.mktemp("out")))
        patch.setattr(files, "save", keep)
        for path in NOTEBOOKS:
            outputs[path.stem] = outputs_of(path, python, runs=str(paths.ROOT / "runs" / "reference"))
            plt.close("all")
    return figures, outputs


@pytest.fixture(scope="module")
def drawn(reference):
    return reference[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_shows_in_the_repository(path, reference):
    """Without pytest --nbval, which has a kernel for each notebook, and which CI runs."""
    committed = committed_outputs(path)
    assert len(committed) > 1
    found = reference[1][path.stem]
    for cell in committed:
        assert found[cell] == committed[cell], cell


def texts(figure):
    """All that is written in a figure and read straight, by its extent."""
    titles = [ax.title for ax in figure.axes]
    names = [ax.xaxis.label for ax in figure.axes]
    marks = [mark for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for mark in shown_marks(axis)]
    ends = figure.findobj(Annotation)
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    every = [*titles, *names, *marks, *ends, *legends, figure._supxlabel]
    return [text for text in every if text.get_visible() and text.get_text() and not text.get_rotation()]


def shown_marks(axis):
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 for tick in ticks if tick.label1.get_visible()]


def axes_of(drawn):
    for name, figure in drawn.items():
        for ax in figure.axes:
            for axis in (ax.xaxis, ax.yaxis):
                yield name, axis


def test_there_is_a_figure_for_every_file_of_the_reference(drawn):
    assert set(drawn) == {path.stem for path in (paths.ROOT / "figures" / "reference").glob("*.png")}


def test_every_axis_tells_its_quantity_and_its_unit(drawn):
    for name, axis in axes_of(drawn):
        label = axis.label.get_text()
        plain = label.startswith((*COUNTS, *RATIOS, *CATEGORIES))
        of_marks = [mark.get_text() for mark in axis.get_ticklabels()]
        with_unit = UNIT.search(label) or (label and all(map(UNIT_OF_MARKS.match, of_marks)))
        assert plain or with_unit, (name, label)


def test_in_every_figure_each_row_and_column_shows_the_name_of_its_axis(drawn):
    for name, figure in drawn.items():
        for place in {ax.get_subplotspec().colspan.start for ax in figure.axes}:
            column = [ax for ax in figure.axes if ax.get_subplotspec().colspan.start == place]
            lowest = max(column, key=lambda ax: ax.get_subplotspec().rowspan.start)
            assert lowest.xaxis.label.get_visible(), name
            assert shown_marks(lowest.xaxis), name
        for place in {ax.get_subplotspec().rowspan.start for ax in figure.axes}:
            row = [ax for ax in figure.axes if ax.get_subplotspec().rowspan.start == place]
            first = min(row, key=lambda ax: ax.get_subplotspec().colspan.start)
            assert first.yaxis.label.get_visible(), name
            assert shown_marks(first.yaxis), name


def test_every_figure_tells_of_how_many_repetitions_it_is(drawn):
    for name, figure in drawn.items():
        assert re.search(r"\bn = \d+", figure.get_supxlabel()), name


def test_every_figure_names_its_drivers_at_their_lines_in_a_legend_or_in_words(drawn):
    for name, figure in drawn.items():
        told = [text.get_text() for text in texts(figure)]
        words = {word for text in told for word in re.findall(r"[a-z]+", text)}
        shown = {text for ax in figure.axes for text in ax.get_legend_handles_labels()[1]}
        assert shown <= words | {*told}, name
        # What sets apart is a driver, or whether there are containers (paper S, figure 9).
        assert words & {*registry.drivers.names(), "without"}, name


def test_no_text_lies_over_another_or_leaves_its_figure(drawn):
    for name, figure in drawn.items():
        extents = {text: text.get_window_extent() for text in texts(figure)}
        for (one, of_one), (other, of_other) in itertools.combinations(extents.items(), 2):
            inner = of_one.padded(-0.5)
            assert not inner.overlaps(of_other.padded(-0.5)), (name, one.get_text(), other.get_text())
        for text, extent in extents.items():
            assert extent.x0 >= -1, (name, text.get_text())
            assert extent.x1 <= figure.bbox.x1 + 1, (name, text.get_text())


def test_names_at_the_ends_of_lines_are_used_where_they_beat_a_legend(drawn):
    labelled = {name for name, figure in drawn.items() if figure.findobj(Annotation)}
    assert "message-size" in labelled
    assert drawn["throughput-total"].legends  # whose lines end too close together
    assert not any(drawn[name].legends for name in labelled)


def test_every_figure_is_one_or_two_columns_wide(drawn):
    for name, figure in drawn.items():
        assert figure.get_figwidth() in (style.COLUMN_IN, style.PAGE_IN), name


def test_as_svg_every_figure_is_small_black_on_white_and_needs_no_font(drawn, record_property):
    largest = 0
    for name, figure in drawn.items():
        svg = files.on_screen(figure)
        largest = max(largest, len(svg.encode()))
        assert len(svg.encode()) < MOST_BYTES, name
        assert re.search(r"fill: (#\w+)", svg)[1] == "#ffffff", name  # what is drawn first lies behind all
        assert "<text" not in svg
        assert "\n" not in svg.strip()
    record_property("largest_svg_bytes", largest)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebooks_show_svg_and_stay_below_a_megabyte(notebook):
    assert notebook.stat().st_size < 1_000_000
    cells = json.loads(notebook.read_text())["cells"]
    shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    pictures = [data for data in shown if any(kind.startswith("image/") for kind in data)]
    assert all("image/svg+xml" in data and "image/png" not in data for data in pictures)
