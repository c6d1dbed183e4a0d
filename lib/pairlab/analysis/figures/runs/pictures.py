"""Pictures of one or more chosen runs, overlaid: the distribution, boxes, throughput over time, retransmits.

Nothing is averaged over runs: these show what was measured, and decide nothing. A driver has its own colour and
marker, and several series of one driver differ in shade and dash (run_series.py). What the runs do not have is a
picture of words. Figures fit a notebook, and stand outside of pyplot, so that a widget may make any number of them.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, SymmetricalLogLocator

from pairlab.analysis.figures import style
from pairlab.analysis.figures.runs import values as run_values
from pairlab.analysis.figures.runs.frame import (
    FAR,
    Picture,
    figure,
    log_where_far,
    logarithmic,
    name_places,
    names_fit,
    words,
)
from pairlab.analysis.figures.runs.series import Chosen, Series, choose
from pairlab.analysis.figures.runs.values import FCT, LATENCY, THROUGHPUT, Quantity
from pairlab.analysis.figures.style import LEAST_IN_BOX
from pairlab.base import units
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.summaries import measures_of, summaries
from pairlab.statistics import distributions

#: More points than this are a cloud: fainter, and pixels where the rest is lines.
CLOUD = 300

Runs = Run | Iterable[Run]


def cdf(runs: Runs) -> Picture:
    """The distribution over the flows of each run: completion times where all have an end, else throughput.

    Of transactions, the distribution over these: their latencies. A line per run; flows that failed are in none, and
    are counted in the note. Transactions that were lost took longer than any, so that a line with some ends below 1.
    """
    chosen = choose(runs)
    if chosen.each and all(latencies.timed(run.transactions, run.flows) for _, run in chosen.each):
        what, one = LATENCY, "transaction"
        found = [
            (series, run_values.of_transactions(run), latencies.lost(run.flows) or 0) for series, run in chosen.each
        ]
    else:
        what, one = _quantity(chosen), "flow"
        found = [(series, run_values.of_flows(run, what), 0) for series, run in chosen.each]
    known = [(series, values, lost) for series, values, lost in found if len(values)]
    if not known:
        return words(f"No {one} of these runs has a {what.in_words}: there is no distribution to show.", chosen)
    scale, unit = what.unit([values for _, values, _ in known])

    def draw(ax: Axes) -> None:
        for series, values, lost in known:
            points = distributions.cdf(values * scale, lost=lost)
            # A few marks distinguish the lines in grey, too.
            every = max(1, (len(points) - 1) // 6)
            ax.plot(points["value"], points["share"], **series.style, markevery=every, alpha=series.faintness)
        log_where_far(ax.xaxis, [values * scale for _, values, _ in known])
        ax.grid(True, axis="x")
        ax.set_ylim(0, 1)
        ax.set_xlabel(style.text(f"{what.label} ({unit})"))
        ax.set_ylabel(f"Share of {one}s")

    drawn = _span([len(values) + lost for _, values, lost in known])
    note = [f"a line per run, {chosen.count(series for series, *_ in known)}", f"n = {drawn} {one}s in each line"]
    if without := sum(lost for *_, lost in known):
        note.append(f"{without:,} were lost, and took longer than any")
    return figure([draw], chosen, [*note, chosen.failed], legend=_names(series for series, *_ in known))


def measures(runs: Runs) -> Picture:
    """Every measure that these runs are summarised to, and their workloads' metrics: a panel each, a mark per run."""
    chosen = choose(runs)
    found = [(series, summaries(run)) for series, run in chosen.each]
    drawn = []
    for name, measure in measures_of(run for _, run in chosen.each).items():
        values = [(series, of_run[name]) for series, of_run in found if of_run.get(name, math.nan) >= 0]
        if values:
            drawn.append((run_values.shown(name, measure), values))
    if not drawn:
        return words("These runs have no measure that is known.", chosen)
    labels = list(_names(chosen.series))

    def panel(what: Quantity, values: Sequence[tuple[Series, float]], last: bool) -> Callable[[Axes], None]:
        def draw(ax: Axes) -> None:
            scale, unit = what.unit([np.array([value for _, value in values])])
            for series, value in values:
                ax.plot([labels.index(series.label)], [value * scale], **series.points, alpha=series.faintness)
            log_where_far(ax.yaxis, [np.array([value for _, value in values]) * scale])
            name_places(ax, labels)
            ax.tick_params(labelbottom=last)
            ax.set_title(style.text(what.label), loc="left", fontsize="medium")
            ax.set_ylabel(style.text(unit or "value"))

        return draw

    draws = [panel(*each, last=number == len(drawn) - 1) for number, each in enumerate(drawn)]
    flows = _span([len(run.flows) for _, run in chosen.each])
    note = [f"a mark per run, {chosen.count(series for series, _ in chosen.each)}, n = {flows} flows in each"]
    legend = {} if names_fit(labels) else _names(chosen.series)
    return figure(draws, chosen, [*note, chosen.failed], legend=legend, height_in=1 + 1.1 * len(draws))


def box(runs: Runs) -> Picture:
    """The flows of each series, with each run's median as a mark: completion times, or throughput, as in cdf.

    Each flow is a point. From style.LEAST_IN_BOX runs on there is a box, too: it spans the quartiles of all the series'
    flows, and the whiskers reach the extremes.
    """
    chosen = choose(runs)
    what = _quantity(chosen)
    known = [(series, [run_values.of_flows(run, what) for run in series.runs]) for series in chosen.series]
    known = [(series, [values for values in by_run if len(values)]) for series, by_run in known]
    known = [(series, by_run) for series, by_run in known if by_run]
    if not known:
        return words(f"No flow of these runs has a {what.in_words}: there is nothing to show.", chosen)
    scale, unit = what.unit([values for _, by_run in known for values in by_run])
    names = _names(series for series, _ in known)
    pooled = [np.concatenate(by_run) * scale for _, by_run in known]

    def draw(ax: Axes) -> None:
        random = np.random.default_rng(0)  # spreads points sideways, and nothing else
        for place, ((series, by_run), flows) in enumerate(zip(known, pooled, strict=True)):
            color = series.style["color"]
            if len(by_run) >= LEAST_IN_BOX:
                _box(ax, flows, place, color)
            cloud = len(flows) > CLOUD
            points = {"markersize": 2, "markeredgewidth": 0, "alpha": 0.12 if cloud else 0.4, "rasterized": cloud}
            ax.plot(place + random.uniform(-0.2, 0.2, len(flows)), flows, "o", color=color, **points)
            medians = [np.median(values) * scale for values in by_run]
            ax.plot([place + 0.36] * len(medians), medians, **series.points, clip_on=False, zorder=5)
        log_where_far(ax.yaxis, pooled)
        name_places(ax, list(names))
        ax.set_ylabel(style.text(f"{what.label} ({unit})"))

    flows = _span([len(flows) for flows in pooled])
    drawn = chosen.count(series for series, by_run in known for _ in by_run)
    note = [f"a point per flow of {drawn}, n = {flows} flows", "marks beside them: the median of each run"]
    if any(len(by_run) >= LEAST_IN_BOX for _, by_run in known):
        note.insert(1, f"a box (quartiles, median; whiskers: extremes) from {LEAST_IN_BOX} runs on")
    return figure([draw], chosen, [*note, chosen.failed], legend={} if names_fit(list(names)) else names)


def time_series(runs: Runs) -> Picture:
    """Throughput over time: above, the total of each run; below, each client (thin) and their median (thick).

    The warm-up, which is left out of totals, is shaded.
    """
    chosen = choose(runs)
    known = [(series, run, found) for series, run in chosen.each if (found := run_values.over_time(run))]
    if not known:
        return words("These runs have no intervals: their tool reports no throughput over time.", chosen)
    scales = [
        THROUGHPUT.unit([part for *_, found in known for part in [getattr(found, name)]])
        for name in ("total_bps", "clients_bps")
    ]
    warmup_s = max(run_values.warmup_end_s(run) for _, run, _ in known)

    lengths_s = [found.edges_s[-1] for *_, found in known]
    far = max(lengths_s) > FAR * min(lengths_s)

    def frame(ax: Axes) -> None:
        ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
        ax.set_xlim(0, max(lengths_s))
        if far:
            logarithmic(ax.xaxis, min(found.edges_s[1] for *_, found in known), max(lengths_s))
        if warmup_s:
            ax.axvspan(0, warmup_s, color="0.92", zorder=0, linewidth=0)
            ax.annotate("warm-up", (warmup_s / 2, 0.05), xycoords=("data", "axes fraction"), ha="center", color="0.35")

    def draw_totals(ax: Axes) -> None:
        scale, unit = scales[0]
        for series, _, found in known:
            _stairs(ax, found.edges_s, found.total_bps * scale, series)
        frame(ax)
        ax.tick_params(labelbottom=False)
        ax.set_ylabel(f"Total ({unit})")

    def draw_clients(ax: Axes) -> None:
        scale, unit = scales[1]
        faint = max(0.15, 0.6 / len(known))
        for series, _, found in known:
            steps = np.column_stack([found.clients_bps, found.clients_bps[:, -1]]).T * scale
            thin = {"linewidth": 0.4, "alpha": faint, "rasterized": steps.shape[1] > CLOUD // 5}
            ax.plot(found.edges_s, steps, color=series.style["color"], drawstyle="steps-post", **thin)
        for series, _, found in known:
            _stairs(ax, found.edges_s, found.median_bps * scale, series, linewidth=1.6)
        frame(ax)
        ax.set_ylabel(f"Each client ({unit})")
        ax.set_xlabel("Time since the release (s)")

    clients = _span([len(found.clients_bps) for *_, found in known])
    steps = sorted({found.edges_s[1] for *_, found in known})
    step = " to ".join(dict.fromkeys(units.with_prefix(each, "s", 2) for each in (steps[0], steps[-1])))
    note = [f"{chosen.count(series for series, *_ in known)}, n = {clients} clients in each", f"means over {step}"]
    if any(len(found.clients_bps) < len(run.flows["pair"].unique()) for _, run, found in known):
        note.append("totals of those clients only, whose tool reports intervals")
    note.append("below, thick: the median of the clients")
    return figure([draw_totals, draw_clients], chosen, note, legend=_names(series for series, *_ in known))


def retransmits(runs: Runs) -> Picture:
    """Retransmitted segments of each client against its throughput, and how they go together by ranks.

    The tool's count; where it reports none, the kernel's for the client's network namespace.
    """
    chosen = choose(runs)
    known = [(series, run_values.retransmits(run)) for series, run in chosen.each]
    known = [(series, clients) for series, clients in known if len(clients)]
    if not known:
        return words("No client's retransmitted segments are known: neither tool nor kernel counted them.", chosen)
    scale, unit = THROUGHPUT.unit([clients["throughput_bps"].to_numpy() for _, clients in known])
    counts = [clients["retransmits"].to_numpy() for _, clients in known]

    def draw(ax: Axes) -> None:
        cloud = sum(map(len, counts)) > CLOUD
        for series, clients in known:
            points = {"markersize": 3.2, "markeredgewidth": 0.5, "alpha": 0.35 if cloud else 0.7, "rasterized": cloud}
            ax.plot(clients["retransmits"], clients["throughput_bps"] * scale, **series.points | points)
        most = max(part.max() for part in counts)
        if most > FAR:
            ax.set_xscale("symlog", linthresh=1)
            ax.xaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1))
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlim(*((-0.3, 1.4 * most) if most > FAR else (-0.1, 1.04 * max(most, 5))))
        log_where_far(ax.yaxis, [clients["throughput_bps"].to_numpy() * scale for _, clients in known])
        ax.grid(True, axis="x")
        ax.set_xlabel("Retransmitted segments of a client")
        ax.set_ylabel(f"Throughput of a client ({unit})")

    legend = {}
    for each in chosen.series:
        if mine := [clients for series, clients in known if series is each]:
            legend[each.label] = f"{each.label}: {run_values.rank_correlation(mine)}"
    clients = _span([len(part) for part in counts])
    note = [f"a point per client, n = {clients} clients in each run, {chosen.count(series for series, _ in known)}"]
    note.append("ρ: Spearman's rank correlation over the clients of a run [95 % interval over several runs]")
    if missing := [each.label for each in chosen.series if each.label not in legend]:
        note.append(f"no counts of {', '.join(missing)}")
    if any(clients["of_kernel"].any() for _, clients in known):
        note.append("counted by the kernel where the tool reports none")
    return figure([draw], chosen, note, legend=legend)


def _quantity(chosen: Chosen) -> Quantity:
    return FCT if chosen.each and all(run.spec.flows_end for _, run in chosen.each) else THROUGHPUT


def _box(ax: Axes, flows: np.ndarray, place: int, color: str) -> None:
    lines = {f"{part}props": {"color": color, "linewidth": 0.9} for part in ("box", "median", "whisker", "cap")}
    ax.boxplot([flows], positions=[place], widths=0.5, whis=(0, 100), showfliers=False, manage_ticks=False, **lines)


def _stairs(ax: Axes, edges: np.ndarray, values: np.ndarray, series: Series, **line: float) -> None:
    """Steps, with a few marks in their middles."""
    line_style = {name: series.style[name] for name in ("color", "linestyle")} | {"alpha": series.faintness} | line
    ax.stairs(values, edges, baseline=None, **line_style)
    every = max(1, len(values) // 10)
    middles = (edges[:-1] + edges[1:]) / 2
    ax.plot(middles[every // 2 :: every], values[every // 2 :: every], **series.points, alpha=series.faintness)


def _names(drawn: Iterable[Series]) -> dict[str, str]:
    """What a legend calls each series: its label."""
    return {series.label: series.label for series in drawn}


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
