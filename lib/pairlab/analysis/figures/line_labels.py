"""A driver's name at the end of its line, where that beats a legend: few lines, whose ends lie apart.

label_ends tries it and checks the outcome: names that would hide or cross something are taken away again.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.text import Annotation
from scipy.optimize import isotonic_regression

from pairlab.analysis.figures.style import ink, text

_MOST = 5  # lines of a panel that still can be named at their ends
_BESIDE_PT = 4.5  # from the end of the line to its name
_ALIGN_PT = 7  # more, for names of lines that end nearly at the same place to begin at the same
_ASIDE_PT = 7.5  # that a name may lie above or below its line's end: less than the height of a line of text
_LINE_PT = 8.5  # from one name to the next


def label_ends(figure: Figure) -> bool:
    """Names each driver at the end of its line; returns whether that names all, so that no legend is needed.

    Lines are those of figures.lines. Panels above each other may share names: those that crowd are left without, if
    another panel of the column has them all. Where some driver has no name then, all names are taken away again.
    """
    panels = {ax: lines for ax in figure.axes if (lines := _lines(ax))}
    if len(panels) < len(figure.axes):
        return False
    labels = {ax: _label(ax, lines) for ax, lines in panels.items() if len(lines) <= _MOST}
    figure.draw_without_rendering()
    for named in labels.values():
        _spread(named.values())
    figure.draw_without_rendering()
    for ax in [ax for ax, named in labels.items() if not _clear(ax, named.values())]:
        _remove(labels.pop(ax))
    if _all_named(panels, labels):
        return True
    for named in labels.values():
        _remove(named)
    return False


def _lines(ax: Axes) -> dict[str, Line2D]:
    """The line of each driver by its name."""
    bars = [each for each in ax.containers if isinstance(each, ErrorbarContainer)]
    return {each.get_label(): each[0] for each in bars if each[0].get_linestyle() != "None" and len(_points(each[0]))}


def _points(line: Line2D) -> np.ndarray:
    points = np.asarray(line.get_xydata())
    return points[np.isfinite(points).all(axis=1)]


def _label(ax: Axes, lines: dict[str, Line2D]) -> dict[str, Annotation]:
    return {
        driver: ax.annotate(
            text(driver),
            _points(line)[-1],
            xycoords=line.get_transform(),
            xytext=(_BESIDE_PT, 0),
            textcoords="offset points",
            va="center_baseline",
            annotation_clip=False,
            color=ink(driver),
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3},
            zorder=1.5,  # above the grid, below the lines
        )
        for driver, line in lines.items()
    }


def _spread(labels: Iterable[Annotation]) -> None:
    """Aligns names, and moves them up or down where they would overlap, as little as keeps them apart, and none below
    the x axis."""
    for beside in _beside_each_other(labels):
        px_per_pt = beside[0].figure.dpi / 72
        beside.sort(key=lambda label: _end_px(label)[1])
        right_pt, up_pt = np.array([_end_px(label) for label in beside]).T / px_per_pt
        lowest_pt = beside[0].axes.bbox.y0 / px_per_pt + _LINE_PT / 2
        aside_pt = spread(up_pt, _LINE_PT, lowest_pt) - up_pt
        beside_pt = np.minimum(right_pt.max() - right_pt, _ALIGN_PT) + _BESIDE_PT
        for label, *moved in zip(beside, beside_pt, aside_pt, strict=True):
            label.set_position(moved)


def spread(places: Sequence[float], gap: float, lowest: float) -> np.ndarray:
    """The places nearest to these (least squares) that are `gap` apart or more and not below `lowest`.

    places: sorted. Places less their number of gaps must not fall, which is isotonic regression (Barlow et al. 1972).
    """
    gaps = gap * np.arange(len(places))
    return np.maximum(isotonic_regression(np.asarray(places) - gaps).x, lowest) + gaps


def _end_px(label: Annotation) -> np.ndarray:
    """Where the line ends that the label names."""
    return label.xycoords.transform(label.xy)


def _beside_each_other(labels: Iterable[Annotation]) -> list[list[Annotation]]:
    """The labels in groups, of which none overlaps another's horizontally."""
    groups: list[list[Annotation]] = []
    reached = -np.inf
    for label in sorted(labels, key=lambda each: each.get_window_extent().x0):
        extent = label.get_window_extent()
        if extent.x0 > reached:
            groups.append([])
        groups[-1].append(label)
        reached = max(reached, extent.x1)
    return groups


def _clear(ax: Axes, labels: Iterable[Annotation]) -> bool:
    """Whether each label is near its line's end, within the figure, and over nothing that is drawn."""
    extents = [label.get_window_extent() for label in labels]
    near = all(abs(label.get_position()[1]) <= _ASIDE_PT for label in labels)
    within = all(ax.figure.bbox.x0 <= each.x0 and each.x1 <= ax.figure.bbox.x1 for each in extents)
    apart = not any(one.overlaps(other) for number, one in enumerate(extents) for other in extents[:number])
    title = ax.title.get_window_extent()
    hit = any(path.intersects_bbox(each, filled=False) for path in _drawn(ax) for each in extents)
    return near and within and apart and not hit and not any(title.overlaps(each) for each in extents)


def _drawn(ax: Axes) -> Iterable[Path]:
    """The lines and bars of a panel, in pixels."""
    for container in ax.containers:
        line, _, bars = container
        yield line.get_transform().transform_path(line.get_path())
        for each in bars:
            yield from map(each.get_transform().transform_path, each.get_paths())


def _all_named(panels: dict[Axes, dict[str, Line2D]], labels: dict[Axes, dict[str, Annotation]]) -> bool:
    """Whether each driver of a column of panels is named in one of them."""
    shown, named = set(), set()
    for ax, lines in panels.items():
        column = ax.get_subplotspec().colspan.start
        shown |= {(column, driver) for driver in lines}
        named |= {(column, driver) for driver in labels.get(ax, ())}
    return shown == named


def _remove(labels: dict[str, Annotation]) -> None:
    for label in labels.values():
        label.remove()
