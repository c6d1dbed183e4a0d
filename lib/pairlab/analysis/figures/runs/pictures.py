"""Pictures of one or more chosen runs, overlaid: the distribution, boxes, throughput over time, retransmits.

Nothing is averaged over runs: these show what was measured, and decide nothing. A driver has its own colour and
marker, and several series of one driver differ in shade and dash (series.py). What the runs do not have is a picture of
words. Figures fit a notebook, and stand outside of pyplot, so that a widget may make any number of them.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
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
from pairlab.analysis.figures.runs.values import FCT, LATENCY, THROUGHPUT, Quantity
from pairlab.analysis.figures.style import LEAST_IN_BOX, text
from pairlab.analysis.output.formatting import span
from pairlab.base import units
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.summaries import measures_of, summaries
from pairlab.statistics import distributions

#: Fits the output of a notebook; and the height of axes that are alone, of each of several, of a line of words.
WIDTH_IN = 6.3
_ALONE_IN, _SEVERAL_IN, _LINE_IN = 2.5, 1.8, 0.15
_FAR = 30  # where the largest value is so many times the least, an axis is logarithmic
_CLOUD = 300  # more points than this are a cloud: fainter, and pixels where the rest is lines
_LEGEND, _ROOM = 110, 90  # characters side by side in a legend, where a mark takes the room of six; below an axis

Runs = Run | Iterable[Run]


class Picture(Figure):
    """A figure that has the house style wherever it is rendered, and that a notebook shows as SVG."""

    def draw(self, renderer) -> None:
        with mpl.rc_context(style.STYLE):
            super().draw(renderer)

    def _repr_svg_(self) -> str:
        return on_screen(self)


def cdf(runs: Runs) -> Picture:
    """The distribution over the flows of each run: completion times where all have an end, else throughput.

    Of transactions, the distribution over these: their latencies. A line per run; flows that failed are in none, and
    are counted in the note. Transactions that were lost took longer than any, so that a line with some ends below 1.
    """
    chosen = choose(runs)
    what, one = _quantity(chosen), "flow"
    found = [(series, run_values.of_flows(run, what), 0) for series, run in chosen.each]
    if chosen.each and all(latencies.timed(run.transactions, run.flows) for _, run in chosen.each):
        what, one = LATENCY, "transaction"
        lost_of = [latencies.lost(run.flows) or 0 for _, run in chosen.each]
        answered = [(series, run_values.of_transactions(run)) for series, run in chosen.each]
        found = [(*each, lost) for each, lost in zip(answered, lost_of, strict=True)]
    known = [each for each in found if len(each[1])]
    if not known:
        return _words(f"No {one} of these runs has a {what.in_words}: there is no distribution to show.", chosen)
    scale, unit = what.unit([values for _, values, _ in known])

    def draw(ax: Axes) -> None:
        _log_where_far(ax, "x", [values * scale for _, values, _ in known])
        for series, values, lost in known:
            points = distributions.cdf(list(values * scale), lost=lost)
            look = series.style | {
                "alpha": series.faintness,
                "markevery": 0.12,
            }  # a few marks are told apart in grey, too
            steps(ax, points["value"], points["share"], **look)
        ax.grid(True, axis="x")
        ax.set(ylim=(0, 1), xlabel=text(f"{what.label} ({unit})"), ylabel=f"Share of {one}s")

    drawn = _span([len(values) + lost for _, values, lost in known])
    note = [f"a line per run, {chosen.counted(series for series, *_ in known)}", f"n = {drawn} {one}s in each line"]
    if without := sum(lost for *_, lost in known):
        note.append(f"{without:,} were lost, and took longer than any")
    return _figure([draw], chosen, [*note, chosen.failed], legend=_names(series for series, *_ in known))


def measures(runs: Runs) -> Picture:
    """Every measure that these runs are summarised to, and their workloads' metrics: a panel each, a mark per run."""
    chosen = choose(runs)
    found = [(series, summaries(run)) for series, run in chosen.each]
    labels = list(_names(chosen.series))

    def panel(ax: Axes, what: Quantity, values: Sequence[tuple[Series, float]], last: bool) -> None:
        scale, unit = what.unit([np.array([value for _, value in values])])
        for series, value in values:
            ax.plot([labels.index(series.label)], [value * scale], **series.points, alpha=series.faintness)
        _log_where_far(ax, "y", [np.array([value for _, value in values]) * scale])
        _name_places(ax, labels)
        ax.tick_params(labelbottom=last)
        ax.set_title(text(what.label), loc="left", fontsize="medium")
        ax.set_ylabel(text(unit or "value"))

    draws: list[Callable[[Axes], None]] = []
    for name, measure in reversed(measures_of(run for _, run in chosen.each).items()):
        values = [(series, of_run[name]) for series, of_run in found if of_run.get(name, math.nan) >= 0]
        if values:
            draws.insert(0, partial(panel, what=run_values.shown(name, measure), values=values, last=not draws))
    if not draws:
        return _words("These runs have no measure that is known.", chosen)
    flows = _span([len(run.flows) for _, run in chosen.each])
    note = [f"a mark per run, {chosen.counted(series for series, _ in chosen.each)}, n = {flows} flows in each"]
    legend = {} if _names_fit(labels) else _names(chosen.series)
    return _figure(draws, chosen, [*note, chosen.failed], legend=legend, height_in=1 + 1.1 * len(draws))


def box(runs: Runs) -> Picture:
    """The flows of each series, with each run's median as a mark: completion times, or throughput, as in cdf.

    Each flow is a point. From style.LEAST_IN_BOX runs on there is a box, too: it spans the quartiles of all the series'
    flows, and the whiskers reach the extremes.
    """
    chosen = choose(runs)
    what = _quantity(chosen)
    found = [(each, [run_values.of_flows(run, what) for run in each.runs]) for each in chosen.series]
    known = [(series, kept) for series, by_run in found if (kept := [values for values in by_run if len(values)])]
    if not known:
        return _words(f"No flow of these runs has a {what.in_words}: there is nothing to show.", chosen)
    scale, unit = what.unit([values for _, by_run in known for values in by_run])
    names = _names(series for series, _ in known)
    pooled = [np.concatenate(by_run) * scale for _, by_run in known]

    def draw(ax: Axes) -> None:
        random = np.random.default_rng(0)  # spreads points sideways, and nothing else
        for place, ((series, by_run), flows) in enumerate(zip(known, pooled, strict=True)):
            if len(by_run) >= LEAST_IN_BOX:
                estimates.box(ax, flows, place, 0.5, series.style["color"])
            cloud = len(flows) > _CLOUD
            points: dict[str, Any] = {
                "markersize": 2,
                "markeredgewidth": 0,
                "alpha": 0.12 if cloud else 0.4,
                "rasterized": cloud,
            }
            spread = place + random.uniform(-0.2, 0.2, len(flows))
            ax.plot(spread, flows, "o", color=series.style["color"], **points)
            medians = [np.median(values) * scale for values in by_run]
            ax.plot([place + 0.36] * len(medians), medians, **series.points, clip_on=False, zorder=5)
        _log_where_far(ax, "y", pooled)
        _name_places(ax, list(names))
        ax.set_ylabel(text(f"{what.label} ({unit})"))

    drawn = chosen.counted(series for series, by_run in known for _ in by_run)
    note = [f"a point per flow of {drawn}, n = {_span([len(flows) for flows in pooled])} flows"]
    if any(len(by_run) >= LEAST_IN_BOX for _, by_run in known):
        note.append(f"a box (quartiles, median; whiskers: extremes) from {LEAST_IN_BOX} runs on")
    note += ["marks beside them: the median of each run", chosen.failed]
    return _figure([draw], chosen, note, legend={} if _names_fit(list(names)) else names)


def time_series(runs: Runs) -> Picture:
    """Throughput over time: above, the total of each run; below, each client (thin) and their median (thick).

    The warm-up, which is left out of totals, is shaded.
    """
    chosen = choose(runs)
    known = [(series, run, found) for series, run in chosen.each if (found := run_values.over_time(run))]
    if not known:
        return _words("These runs have no intervals: their tool reports no throughput over time.", chosen)
    warmup_s = max(run_values.warmup_end_s(run) for _, run, _ in known)
    lengths_s = [found.edges_s[-1] for *_, found in known]

    def stairs(ax: Axes, edges_s: np.ndarray, values: np.ndarray, series: Series, **line: float) -> None:
        look = {name: series.style[name] for name in ("color", "linestyle")} | {"alpha": series.faintness} | line
        ax.stairs(values, edges_s, baseline=None, **look)
        every = max(1, len(values) // 10)  # a few marks distinguish the lines in grey, too
        middles = (edges_s[:-1] + edges_s[1:]) / 2
        ax.plot(middles[every // 2 :: every], values[every // 2 :: every], **series.points, alpha=series.faintness)

    def frame(ax: Axes) -> None:
        ax.set(xlim=(0, max(lengths_s)), ylim=(0, 1.05 * ax.get_ylim()[1]))
        if max(lengths_s) > _FAR * min(lengths_s):
            grid.logarithmic(ax.xaxis)
            ax.set_xlim(min(found.edges_s[1] for *_, found in known), max(lengths_s))
        if warmup_s:
            ax.axvspan(0, warmup_s, color="0.92", zorder=0, linewidth=0)
            ax.annotate("warm-up", (warmup_s / 2, 0.05), xycoords=("data", "axes fraction"), ha="center", color="0.35")

    def draw_totals(ax: Axes) -> None:
        scale, unit = THROUGHPUT.unit([found.total_bps for *_, found in known])
        for series, _, found in known:
            stairs(ax, found.edges_s, found.total_bps * scale, series)
        frame(ax)
        ax.tick_params(labelbottom=False)
        ax.set_ylabel(f"Total ({unit})")

    def draw_clients(ax: Axes) -> None:
        scale, unit = THROUGHPUT.unit([found.clients_bps for *_, found in known])
        for series, _, found in known:
            each = np.column_stack([found.clients_bps, found.clients_bps[:, -1]]).T * scale
            thin = {"linewidth": 0.4, "alpha": max(0.15, 0.6 / len(known)), "rasterized": each.shape[1] > _CLOUD // 5}
            ax.plot(found.edges_s, each, color=series.style["color"], drawstyle="steps-post", **thin)
        for series, _, found in known:
            stairs(ax, found.edges_s, found.median_bps * scale, series, linewidth=1.6)
        frame(ax)
        ax.set(xlabel="Time since the release (s)", ylabel=f"Each client ({unit})")

    clients = _span([len(found.clients_bps) for *_, found in known])
    widths_s = sorted({found.edges_s[1] for *_, found in known})
    step = " to ".join(dict.fromkeys(units.with_prefix(each, "s", 2) for each in (widths_s[0], widths_s[-1])))
    note = [f"{chosen.counted(series for series, *_ in known)}, n = {clients} clients in each", f"means over {step}"]
    if any(len(found.clients_bps) < len(run.flows["pair"].unique()) for _, run, found in known):
        note.append("totals of those clients only, whose tool reports intervals")
    note.append("below, thick: the median of the clients")
    return _figure([draw_totals, draw_clients], chosen, note, legend=_names(series for series, *_ in known))


def retransmits(runs: Runs) -> Picture:
    """Retransmitted segments of each client against its throughput, and how they go together by ranks.

    The tool's count; where it reports none, the kernel's for the client's network namespace.
    """
    chosen = choose(runs)
    found = [(series, run_values.retransmits(run)) for series, run in chosen.each]
    known = [(series, clients) for series, clients in found if len(clients)]
    if not known:
        return _words("No client's retransmitted segments are known: neither tool nor kernel counted them.", chosen)
    every = pd.concat([clients for _, clients in known])
    scale, unit = THROUGHPUT.unit([every["throughput_bps"].to_numpy()])
    most = every["retransmits"].max()

    def draw(ax: Axes) -> None:
        cloud = len(every) > _CLOUD
        points = {"markersize": 3.2, "markeredgewidth": 0.5, "alpha": 0.35 if cloud else 0.7, "rasterized": cloud}
        for series, clients in known:
            ax.plot(clients["retransmits"], clients["throughput_bps"] * scale, **series.points | points)
        if most > _FAR:
            ax.set_xscale("symlog", linthresh=1)
            ax.xaxis.set_major_formatter(ScalarFormatter())
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlim(*((-0.3, 1.4 * most) if most > _FAR else (-0.1, 1.04 * max(most, 5))))
        _log_where_far(ax, "y", [every["throughput_bps"].to_numpy() * scale])
        ax.grid(True, axis="x")
        ax.set(xlabel="Retransmitted segments of a client", ylabel=f"Throughput of a client ({unit})")

    legend = {}
    for each in chosen.series:
        if mine := [clients for series, clients in known if series is each]:
            legend[each.label] = f"{each.label}: {run_values.rank_correlation(mine)}"
    clients = _span([len(part) for _, part in known])
    note = [f"a point per client, n = {clients} clients in each run, {chosen.counted(series for series, _ in known)}"]
    note.append("ρ: Spearman's rank correlation over the clients of a run [95 % interval over several runs]")
    if missing := [each.label for each in chosen.series if each.label not in legend]:
        note.append(f"no counts of {', '.join(missing)}")
    if every["of_kernel"].any():
        note.append("counted by the kernel where the tool reports none")
    return _figure([draw], chosen, note, legend=legend)


def _figure(
    draws: Sequence[Callable[[Axes], None]],
    chosen: Chosen,
    note: Sequence[str],
    *,
    legend: Mapping[str, str] = MappingProxyType({}),
    height_in: float = 0.0,
) -> Picture:
    """A picture in the house style: a legend above, axes one below the other, and a note below.

    draws: draw one of the axes each. note: what a reader must know, beside what the runs have in common. legend: by the
    label of each series that is in it, what it says. height_in: of the axes.
    """
    shown = [(series, text(legend[series.label])) for series in chosen.series if series.label in legend]
    across = max(1, _LEGEND // (6 + max((len(name) for _, name in shown), default=0)))
    below = text(style.wrapped(grid.noted(chosen.common, *note, chosen.left_out), WIDTH_IN))
    height_in = height_in or (_ALONE_IN if len(draws) == 1 else _SEVERAL_IN * len(draws))
    height_in += _LINE_IN * (-(-len(shown) // across) + below.count("\n") + 1)
    with mpl.rc_context(style.STYLE):
        made = Picture(figsize=(WIDTH_IN, height_in), layout="constrained", dpi=style.STYLE["figure.dpi"])
        for draw, ax in zip(draws, np.ravel(made.subplots(len(draws))), strict=True):
            draw(ax)
        if shown:
            grid.add_legend(made, [Line2D([], [], **series.style, label=name) for series, name in shown], across)
        made.supxlabel(below, **style.NOTE)
    return made


def _words(told: str, chosen: Chosen) -> Picture:
    """A picture that says why there is nothing to see."""

    def draw(ax: Axes) -> None:
        ax.axis("off")
        ax.text(0.5, 0.5, textwrap.fill(told, 80), ha="center", va="center", fontsize=10)

    return _figure([draw], chosen, [], height_in=0.8)


def _log_where_far(ax: Axes, axis: str, values: Sequence[np.ndarray]) -> None:
    """Logarithmic where the values lie far apart, else from zero."""
    least, most = min(part.min() for part in values), max(part.max() for part in values)
    far = least > 0 and most > _FAR * least
    if far:
        grid.logarithmic(getattr(ax, f"{axis}axis"), many=3)
    ax.set(**{f"{axis}lim": (least / 1.15, most * 1.15) if far else (0, most * 1.05 or 1)})


def _names_fit(labels: Sequence[str]) -> bool:
    """Whether the series' names have room below an axis, broken at commas."""
    return max(len(part) for label in labels for part in label.split(", ")) <= _ROOM / max(len(labels), 3)


def _name_places(ax: Axes, labels: Sequence[str]) -> None:
    """Places side by side, with the series' names below them where these fit: else a legend has them."""
    names = [text(label.replace(", ", ",\n")) for label in labels] if _names_fit(labels) else [""] * len(labels)
    ax.set_xticks(range(len(labels)), names)
    spare = max(0.0, 3 - len(labels)) / 2  # one box is no wall
    ax.set_xlim(-0.6 - spare, len(labels) - 0.4 + spare)
    ax.tick_params(axis="x", length=0)


def _quantity(chosen: Chosen) -> Quantity:
    return FCT if chosen.each and all(run.spec.flows_end for _, run in chosen.each) else THROUGHPUT


def _names(drawn: Iterable[Series]) -> dict[str, str]:
    """What a legend calls each series: its label."""
    return {series.label: series.label for series in drawn}


def _span(counts: Sequence[int]) -> str:
    return span(pd.Series(counts))
