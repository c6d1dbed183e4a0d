"""What holds of every figure that an analysis saves, checked in the notebook's own kernel: an IPython extension.

notebooks/conftest.py has the kernels of `pytest --nbval` load it. A figure that breaks a rule fails the cell that saves
it, with the figure's name.
"""

import functools
import itertools
import re

from matplotlib.text import Annotation

from pairlab import paths
from pairlab.analysis.figures import files, style
from pairlab.testbed import registry

#: An axis says its unit in brackets, or its marks do; or it shows one of these, which have none.
UNIT = re.compile(r"\((Gbit/s|s|ms|µs|%|µs/transaction|µs per transaction)\)")
UNIT_OF_MARKS = re.compile(r"^[\d.,]+ (B|KiB|MiB|ms)$")
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
    "Min/max",
    "Mean round\n(times one host)",
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
    "CPU limit (quota in CPUs or of the fair share)",
    "MTU of the containers' links",
)

#: So large a figure may be, for the notebook that shows it and for the page that loads it.
MOST_BYTES = 300_000


def load_ipython_extension(_shell):
    files.save = held_to_the_rules(files.save)


def held_to_the_rules(save):
    @functools.wraps(save)
    def saved(figure, name, origin):
        written = save(figure, name, origin)
        figure.draw_without_rendering()
        for rule in RULES:
            rule(figure, name)
        svg_is_small_and_needs_no_font(next(path for path in written if path.suffix == ".svg").read_text(), name)
        if origin.label == "reference":
            assert (paths.ROOT / "figures" / "reference" / f"{name}.svg").exists(), f"{name} is not committed"
        return written

    return saved


def axes_are_named(figure, name):
    """Every axis has its quantity and unit; each row and column of panels shows the name and marks of its axis."""
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        label = axis.label.get_text()
        of_marks = [mark.get_text() for mark in axis.get_ticklabels()]
        with_unit = UNIT.search(label) or (label and all(map(UNIT_OF_MARKS.match, of_marks)))
        assert label.startswith((*COUNTS, *RATIOS, *CATEGORIES)) or with_unit, (name, label)
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


def says_of_how_many(figure, name):
    assert re.search(r"\bn = \d+", figure.get_supxlabel()), f"{name} does not say of how many repetitions it is"


def drivers_are_named(figure, name):
    """At the ends of their lines, in a legend, not both, or in words."""
    told = [text.get_text() for text in texts(figure)]
    words = {word for text in told for word in re.findall(r"[a-z]+", text)}
    shown = {text for ax in figure.axes for text in ax.get_legend_handles_labels()[1]}
    assert shown <= words | {*told}, name
    # What sets apart is a driver, or whether there are containers (Suo et al. 2018, figure 9).
    assert words & {*registry.drivers.names(), "without"}, name
    assert not (figure.findobj(Annotation) and figure.legends), f"{name} names its lines twice"


def nothing_overlaps(figure, name):
    """No text lies over another or leaves its figure."""
    extents = {text: text.get_window_extent() for text in texts(figure)}
    for (one, of_one), (other, of_other) in itertools.combinations(extents.items(), 2):
        inner = of_one.padded(-0.5)
        assert not inner.overlaps(of_other.padded(-0.5)), (name, one.get_text(), other.get_text())
    for text, extent in extents.items():
        assert extent.x0 >= -1, (name, text.get_text())
        assert extent.x1 <= figure.bbox.x1 + 1, (name, text.get_text())


def one_or_two_columns_wide(figure, name):
    assert figure.get_figwidth() in (style.COLUMN_IN, style.PAGE_IN), name


#: Of a drawn figure and its name.
RULES = (axes_are_named, says_of_how_many, drivers_are_named, nothing_overlaps, one_or_two_columns_wide)


def svg_is_small_and_needs_no_font(svg, name):
    assert len(svg.encode()) < MOST_BYTES, name
    assert re.search(r"fill: (#\w+)", svg)[1] == "#ffffff", name  # what is drawn first lies behind all
    assert "<text" not in svg, name


def texts(figure):
    """All that is written in a figure and read straight."""
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
