"""Pictures of one or more chosen runs, overlaid: the distribution, boxes, throughput over time, retransmits.

Nothing is averaged over runs: pictures show the measured values and support no conclusion. A driver has its own colour
and marker; several series of one driver differ in shade and dash (series.py). If the runs lack the data, the picture
says so in words. Figures fit a notebook, and are outside of pyplot, so that a widget may make any number of them.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from pairlab.analysis.figures import estimates, grid, style
from pairlab.analysis.figures.cdf import steps
from pairlab.analysis.figures.files import on_screen
from pairlab.analysis.figures.runs import values as run_values
from pairlab.analysis.figures.runs.series import Chosen, Series, choose
from pairlab.analysis.figures.runs.values import FCT, LATENCY, LAUNCH, THROUGHPUT, OverTime, Plotted
from pairlab.analysis.figures.style import LEAST_IN_BOX, text
from pairlab.analysis.output.formatting import span
from pairlab.base import units
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.summaries import measures_of, summaries
from pairlab.statistics import distributions

#: The width of a notebook's output; the heights of single axes, of each of several axes, and of a line of text.
WIDTH_IN = 6.3
_ALONE_IN, _SEVERAL_IN, _LINE_IN = 2.5, 1.8, 0.15
_FAR = 30  # ratio of the largest value to the smallest from which an axis is logarithmic
_CLOUD = 300  # more points than this are a cloud: fainter, and rasterized
_NAMED = 20  # points of a line that have a tooltip
_LEGEND, _ROOM = 110, 90  # characters side by side in a legend, where a mark takes the room of six; below an axis

Runs = Run | Iterable[Run]


class Picture(Figure):
    """A figure that has the house style wherever it is rendered, and that a notebook shows as SVG.

    named: points of the axes, in units of the data, with the texts of their tooltips.
    """

    def __init__(self, **how: Any):
        super().__init__(**how)
        self.named: list[tuple[Axes, float, float, str]] = []

    @property
    def places(self) -> list[tuple[float, float, str]]:
        """The points of `named` as shares of the width from the left and of the height from above, after drawing."""
        pixels = [(*ax.transData.transform((x, y)), words) for ax, x, y, words in self.named]
        return [(x / self.bbox.width, 1 - y / self.bbox.height, words) for x, y, words in pixels]

    def draw(self, renderer) -> None:
        with style.context():
            super().draw(renderer)

    def savefig(self, *place, **how) -> None:
        with style.context():
            super().savefig(*place, **how)

    def _repr_svg_(self) -> str:
        return on_screen(self)


def cdf(runs: Runs) -> Picture:
    """The distribution over the flows of each run: completion times where all have an end, else throughput.

    Of launches, the distribution over these: the times that they took. Of transactions, their latencies. A line per
    run; flows that failed are in none, and are counted in the note. Transactions that were lost took longer than any,
    so that a line with some ends below 1.
    """
    chosen = choose(runs)
    quantity = _quantity(chosen)
    lines = [(series, run, run_values.of_flows(run, quantity), 0) for series, run in chosen.each]
    if chosen.each and all(latencies.timed(run.transactions, run.flows) for _, run in chosen.each):
        quantity = LATENCY
        answered = run_values.of_transactions
        lines = [(series, run, answered(run), latencies.lost(run.flows) or 0) for series, run in chosen.each]
    lines = [line for line in lines if len(line[2])]
    if not lines:
        return _words(
            f"No {quantity.items} of these runs have a {quantity.in_words}: there is no distribution to show.", chosen
        )
    scale, unit = quantity.scaled([values for *_, values, _ in lines])

    def draw(ax: Axes) -> None:
        _log_where_far(ax, "x", [values * scale for *_, values, _ in lines])
        for series, run, values, lost in lines:
            points = distributions.cdf(list(values * scale), lost=lost)
            # a few marks distinguish the lines in grey, too
            look = series.style | {"alpha": series.faintness, "markevery": 0.12}
            steps(ax, points["value"], points["share"], **look)
            few = points.iloc[:: max(1, len(points) // _NAMED)]
            _name(ax, _of(series, run), few["value"], few["share"], lambda x, y: f": {y:.0%} within {x:.4g} {unit}")
        ax.grid(True, axis="x")
        ax.set(ylim=(0, 1), xlabel=text(f"{quantity.label} ({unit})"), ylabel=f"Share of {quantity.items}")

    n = _span([len(values) + lost for *_, values, lost in lines])
    note = [
        f"a line per run, {chosen.counted(series for series, *_ in lines)}",
        f"n = {n} {quantity.items} in each line",
    ]
    if all_lost := sum(lost for *_, lost in lines):
        note.append(f"{all_lost:,} were lost, and took longer than any")
    return _figure([draw], chosen, [*note, chosen.failed], legend=_names(series for series, *_ in lines))


def measures(runs: Runs) -> Picture:
    """A panel for each summary measure of the runs and each metric of their workloads, a mark per run."""
    chosen = choose(runs)
    summarised = [(series, run, summaries(run)) for series, run in chosen.each]
    labels = list(_names(chosen.series))

    def panel(ax: Axes, quantity: Plotted, values: Sequence[tuple[Series, Run, float]], last: bool) -> None:
        scale, unit = quantity.scaled([np.array([value for *_, value in values])])
        for series, run, value in values:
            place = labels.index(series.label)
            ax.plot([place], [value * scale], **series.points, alpha=series.faintness)
            _name(ax, _of(series, run), [place], [value * scale], lambda x, y: f": {y:.4g} {unit}")
        _log_where_far(ax, "y", [np.array([value for *_, value in values]) * scale])
        _name_places(ax, labels)
        ax.tick_params(labelbottom=last)
        ax.set_title(text(quantity.label), loc="left", fontsize="medium")
        ax.set_ylabel(text(unit or "value"))

    draws: list[Callable[[Axes], None]] = []
    for name, measure in reversed(measures_of(run for _, run in chosen.each).items()):
        values = [(series, run, of_run[name]) for series, run, of_run in summarised if of_run.get(name, math.nan) >= 0]
        if values:
            draws.insert(0, partial(panel, quantity=run_values.shown(name, measure), values=values, last=not draws))
    if not draws:
        return _words("These runs have no measure that is known.", chosen)
    items, tables = chosen.measured
    n = _span([len(each) for each in tables])
    note = [f"a mark per run, {chosen.counted(series for series, _ in chosen.each)}, n = {n} {items} in each"]
    legend = {} if _names_fit(labels) else _names(chosen.series)
    return _figure(draws, chosen, [*note, chosen.failed], legend=legend, height_in=1 + 1.1 * len(draws))


def box(runs: Runs) -> Picture:
    """The flows of each series, with each run's median as a mark: completion times, or throughput, as in cdf.

    Each flow is a point. From style.LEAST_IN_BOX runs on there is a box, too: it spans the quartiles of all the series'
    flows, and the whiskers reach the extremes.
    """
    chosen = choose(runs)
    quantity = _quantity(chosen)
    boxes = []
    for series in chosen.series:
        by_run = [(run, run_values.of_flows(run, quantity)) for run in series.runs]
        if by_run := [(run, values) for run, values in by_run if len(values)]:
            boxes.append((series, by_run))
    if not boxes:
        return _words(
            f"No {quantity.items} of these runs have a {quantity.in_words}: there is nothing to show.", chosen
        )
    scale, unit = quantity.scaled([values for _, by_run in boxes for _, values in by_run])
    names = _names(series for series, _ in boxes)
    pooled = [np.concatenate([values for _, values in by_run]) * scale for _, by_run in boxes]

    def draw(ax: Axes) -> None:
        random = np.random.default_rng(0)  # spreads points sideways only
        for place, ((series, by_run), flows) in enumerate(zip(boxes, pooled, strict=True)):
            if len(by_run) >= LEAST_IN_BOX:
                estimates.box(ax, flows, place, 0.5, series.style["color"])
            cloud = len(flows) > _CLOUD
            points: dict[str, Any] = {"markersize": 2, "markeredgewidth": 0, "rasterized": cloud}
            spread = place + random.uniform(-0.2, 0.2, len(flows))
            ax.plot(spread, flows, "o", color=series.style["color"], alpha=0.12 if cloud else 0.4, **points)
            medians, beside = [np.median(values) * scale for _, values in by_run], [place + 0.36] * len(by_run)
            ax.plot(beside, medians, **series.points, clip_on=False, zorder=5)
            for (run, _), median in zip(by_run, medians, strict=True):
                _name(ax, _of(series, run), beside[:1], [median], lambda x, y: f": median {y:.4g} {unit}")
        _log_where_far(ax, "y", pooled)
        _name_places(ax, list(names))
        ax.set_ylabel(text(f"{quantity.label} ({unit})"))

    run_count = chosen.counted(series for series, by_run in boxes for _ in by_run)
    note = [f"the {quantity.items} of {run_count} as points, n = {_span([len(flows) for flows in pooled])}"]
    if any(len(by_run) >= LEAST_IN_BOX for _, by_run in boxes):
        note.append(f"a box (quartiles, median; whiskers: extremes) from {LEAST_IN_BOX} runs on")
    note += ["marks beside them: the median of each run", chosen.failed]
    return _figure([draw], chosen, note, legend={} if _names_fit(list(names)) else names)


def time_series(runs: Runs) -> Picture:
    """Throughput over time: above, the total of each run; below, each client (thin) and their median (thick).

    The warm-up, which is left out of totals, is shaded.
    """
    chosen = choose(runs)
    lines = [(series, run, rates) for series, run in chosen.each if (rates := run_values.over_time(run))]
    if not lines:
        return _words("These runs have no intervals: their tool reports no throughput over time.", chosen)
    warmup_s = max(run_values.warmup_end_s(run) for _, run, _ in lines)
    lengths_s = [rates.edges_s[-1] for *_, rates in lines]

    def stairs(ax: Axes, rates: OverTime, values: np.ndarray, series: Series, **line: float) -> None:
        look = {name: series.style[name] for name in ("color", "linestyle")} | {"alpha": series.faintness} | line
        ax.stairs(values, rates.edges_s, baseline=None, **look)
        every = max(1, len(values) // 10)  # a few marks distinguish the lines in grey, too
        marked = slice(every // 2, None, every)
        ax.plot(rates.middles_s[marked], values[marked], **series.points, alpha=series.faintness)

    def frame(ax: Axes) -> None:
        ax.set(xlim=(0, max(lengths_s)), ylim=(0, 1.05 * ax.get_ylim()[1]))
        if max(lengths_s) > _FAR * min(lengths_s):
            grid.logarithmic(ax.xaxis)
            ax.set_xlim(min(rates.edges_s[1] for *_, rates in lines), max(lengths_s))
        if warmup_s:
            ax.axvspan(0, warmup_s, color="0.92", zorder=0, linewidth=0)
            ax.annotate("warm-up", (warmup_s / 2, 0.05), xycoords=("data", "axes fraction"), ha="center", color="0.35")

    def draw_totals(ax: Axes) -> None:
        scale, unit = THROUGHPUT.scaled([rates.total_bps for *_, rates in lines])
        for series, run, rates in lines:
            totals = rates.total_bps * scale
            stairs(ax, rates, totals, series)
            few = slice(None, None, max(1, len(totals) // _NAMED))
            points = rates.middles_s[few], totals[few]
            _name(ax, _of(series, run), *points, lambda x, y: f", {x:.3g} s: {y:.4g} {unit}")
        frame(ax)
        ax.tick_params(labelbottom=False)
        ax.set_ylabel(f"Total ({unit})")

    def draw_clients(ax: Axes) -> None:
        scale, unit = THROUGHPUT.scaled([rates.clients_bps for *_, rates in lines])
        for series, _, rates in lines:
            clients = np.column_stack([rates.clients_bps, rates.clients_bps[:, -1]]).T * scale
            many = clients.shape[1] > _CLOUD // 5
            thin = {"linewidth": 0.4, "alpha": max(0.15, 0.6 / len(lines)), "rasterized": many}
            ax.plot(rates.edges_s, clients, color=series.style["color"], drawstyle="steps-post", **thin)
        for series, _, rates in lines:
            stairs(ax, rates, rates.median_bps * scale, series, linewidth=1.6)
        frame(ax)
        ax.set(xlabel="Time since the release (s)", ylabel=f"Each client ({unit})")

    n = _span([len(rates.clients_bps) for *_, rates in lines])
    widths_s = sorted({rates.edges_s[1] for *_, rates in lines})
    step = " to ".join(dict.fromkeys(units.with_prefix(width_s, "s", 2) for width_s in (widths_s[0], widths_s[-1])))
    note = [f"{chosen.counted(series for series, *_ in lines)}, n = {n} clients in each", f"means over {step}"]
    if any(len(rates.clients_bps) < len(run.flows["pair"].unique()) for _, run, rates in lines):
        note.append("totals of those clients only, whose tool reports intervals")
    note.append("below, thick: the median of the clients")
    return _figure([draw_totals, draw_clients], chosen, note, legend=_names(series for series, *_ in lines))


def retransmits(runs: Runs) -> Picture:
    """Retransmitted segments of each client against its throughput, and how they go together by ranks.

    The tool's count; where it reports none, the kernel's for the client's network namespace.
    """
    chosen = choose(runs)
    by_run = [(series, run, run_values.retransmits(run)) for series, run in chosen.each]
    by_run = [(series, run, clients) for series, run, clients in by_run if len(clients)]
    if not by_run:
        return _words("No client's retransmitted segments are known: neither tool nor kernel counted them.", chosen)
    all_clients = pd.concat([clients for *_, clients in by_run])
    scale, unit = THROUGHPUT.scaled([all_clients["throughput_bps"].to_numpy()])
    most = all_clients["retransmits"].max()

    def draw(ax: Axes) -> None:
        cloud = len(all_clients) > _CLOUD
        points = {"markersize": 3.2, "markeredgewidth": 0.5, "alpha": 0.35 if cloud else 0.7, "rasterized": cloud}
        for series, run, clients in by_run:
            counts, rates = clients["retransmits"], clients["throughput_bps"] * scale
            ax.plot(counts, rates, **series.points | points)
            for pair in () if cloud else clients.index:
                name = f"{_of(series, run)}, client {pair}"
                _name(ax, name, [counts[pair]], [rates[pair]], lambda x, y: f": {x:.0f}, {y:.4g} {unit}")
        if most > _FAR:
            ax.set_xscale("symlog", linthresh=1)
            ax.xaxis.set_major_formatter(ScalarFormatter())
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlim(*((-0.3, 1.4 * most) if most > _FAR else (-0.1, 1.04 * max(most, 5))))
        _log_where_far(ax, "y", [all_clients["throughput_bps"].to_numpy() * scale])
        ax.grid(True, axis="x")
        ax.set(xlabel="Retransmitted segments of a client", ylabel=f"Throughput of a client ({unit})")

    legend = {}
    for series in chosen.series:
        if of_series := [clients for of, _, clients in by_run if of is series]:
            legend[series.label] = f"{series.label}: {run_values.rank_correlation(of_series)}"
    n = _span([len(clients) for *_, clients in by_run])
    note = [f"a point per client, n = {n} clients in each run, {chosen.counted(series for series, *_ in by_run)}"]
    note.append("ρ: Spearman's rank correlation over the clients of a run [95 % interval over several runs]")
    if missing := [series.label for series in chosen.series if series.label not in legend]:
        note.append(f"no counts of {', '.join(missing)}")
    if all_clients["of_kernel"].any():
        note.append("counted by the kernel where the tool reports none")
    return _figure([draw], chosen, note, legend=legend)


def _of(series: Series, run: Run) -> str:
    """The name of a run in a tooltip; the label has the verdict if that is not ok."""
    return f"{series.label}, repetition {run.spec.repetition}"


def _name(ax: Axes, name: str, xs: Iterable[float], ys: Iterable[float], words: Callable[[float, float], str]) -> None:
    """Adds a tooltip to each point: the name, then the words for x and y."""
    if isinstance(ax.figure, Picture):
        ax.figure.named += [(ax, float(x), float(y), name + words(x, y)) for x, y in zip(xs, ys, strict=True)]


def _figure(
    draws: Sequence[Callable[[Axes], None]],
    chosen: Chosen,
    note: Sequence[str],
    *,
    legend: Mapping[str, str] = MappingProxyType({}),
    height_in: float = 0.0,
) -> Picture:
    """A picture in the house style: a legend above, axes one below the other, and a note below.

    draws: a function for each of the axes. note: the caption's parts, besides the common fields of the runs. legend:
    the text for each series in the legend, by label. height_in: of the axes.
    """
    entries = [(series, text(legend[series.label])) for series in chosen.series if series.label in legend]
    across = max(1, _LEGEND // (6 + max((len(name) for _, name in entries), default=0)))
    below = text(style.wrapped(grid.with_conditions(chosen.common, *note, chosen.left_out), WIDTH_IN))
    height_in = height_in or (_ALONE_IN if len(draws) == 1 else _SEVERAL_IN * len(draws))
    height_in += _LINE_IN * (-(-len(entries) // across) + below.count("\n") + 1)
    with style.context():
        picture = Picture(figsize=(WIDTH_IN, height_in), layout="constrained", dpi=style.STYLE["figure.dpi"])
        for draw, ax in zip(draws, np.ravel(picture.subplots(len(draws))), strict=True):
            draw(ax)
        if entries:
            grid.add_legend(picture, [Line2D([], [], **series.style, label=name) for series, name in entries], across)
        picture.supxlabel(below, **style.NOTE)
    return picture


def _words(reason: str, chosen: Chosen) -> Picture:
    """A picture that gives the reason why nothing is drawn."""

    def draw(ax: Axes) -> None:
        ax.axis("off")
        ax.text(0.5, 0.5, textwrap.fill(reason, 80), ha="center", va="center", fontsize=10)

    return _figure([draw], chosen, [], height_in=0.8)


def _log_where_far(ax: Axes, axis: str, values: Sequence[np.ndarray]) -> None:
    """Makes the axis logarithmic if the values are far apart; else it begins at zero."""
    least, most = min(part.min() for part in values), max(part.max() for part in values)
    far = least > 0 and most > _FAR * least
    if far:
        grid.logarithmic(getattr(ax, f"{axis}axis"))
    ax.set(**{f"{axis}lim": (least / 1.15, most * 1.15) if far else (0, most * 1.05 or 1)})


def _names_fit(labels: Sequence[str]) -> bool:
    """Whether the names of the series, broken at commas, fit below an axis."""
    return max(len(part) for label in labels for part in label.split(", ")) <= _ROOM / max(len(labels), 3)


def _name_places(ax: Axes, labels: Sequence[str]) -> None:
    """Puts the names of the series below the axis if they fit; else the legend has them."""
    names = [text(label.replace(", ", ",\n")) for label in labels] if _names_fit(labels) else [""] * len(labels)
    ax.set_xticks(range(len(labels)), names)
    spare = max(0.0, 3 - len(labels)) / 2  # one box is no wall
    ax.set_xlim(-0.6 - spare, len(labels) - 0.4 + spare)
    ax.tick_params(axis="x", length=0)


def _quantity(chosen: Chosen) -> Plotted:
    if chosen.measured[0] == LAUNCH.items:
        return LAUNCH
    return FCT if chosen.each and all(run.spec.flows_end for _, run in chosen.each) else THROUGHPUT


def _names(drawn: Iterable[Series]) -> dict[str, str]:
    """A legend that names each series by its label."""
    return {series.label: series.label for series in drawn}


def _span(counts: Sequence[int]) -> str:
    return span(pd.Series(counts))
