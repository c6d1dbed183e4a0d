"""The state of a measurement under way, from its progress reports and samples; and how it is drawn."""

import math
from collections.abc import Sequence
from html import escape

from pairlab.analysis.figures.cpu import COLOURS
from pairlab.analysis.figures.style import driver_style
from pairlab.base import units
from pairlab.model.spec import Spec
from pairlab.progress.words import status
from pairlab.statistics.intervals import jain_index
from pairlab.testbed.host.live_sampler import Sample
from pairlab.widgets.live_view import charts
from pairlab.widgets.live_view.charts import Chart, axis

WIDTH, HEIGHT = 1040, 400
#: A line has no more points than this; with more samples, some are left out.
MAX_POINTS = 120
#: The kinds of CPU time in a sample, and their colours.
PARTS = {part: COLOURS[part] for part in ("usr", "sys", "softirq")}
#: How much later than the end of sending a sample may end.
_TAIL_S = 0.1


class MeasurementState:
    """One measurement, from setup to cleanup."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.phase = "starting"
        self.done: float = 0
        self.total: float = 0
        self.last: Sample | None = None
        self._elapsed_s: list[float] = []
        self._total_bps: list[float | None] = []
        self._fairness: list[float | None] = []
        self._parts: dict[str, list[float]] = {part: [] for part in PARTS}

    def on_phase(self, phase: str, done: float, total: float) -> None:
        """Reports progress, as contracts.Progress."""
        self.phase, self.done, self.total = phase, done, total

    def on_sample(self, sample: Sample) -> None:
        """Takes a sample. Samples after the end of sending are ignored: some clients have ended by then."""
        if self.last and sample.elapsed_s > sample.total_s + _TAIL_S:
            return
        self.last = sample
        self._elapsed_s.append(sample.elapsed_s)
        self._total_bps.append(sample.total_bps)
        self._fairness.append(_fairness(sample.client_bps))
        for part, shares in self._parts.items():
            shares.append(getattr(sample, part))

    @property
    def phase_text(self) -> str:
        """The phase in words: "bringing up 31/50", "measuring 4.2/10 s"."""
        return status(self.phase, self.done, self.total)

    @property
    def sample_text(self) -> str:
        """The latest sample in words; empty before there is one."""
        if not self.last:
            return ""
        total, fairness = self._total_bps[-1], self._fairness[-1]
        parts = ", ".join(f"{part} {shares[-1]:.0%}" for part, shares in self._parts.items())
        return "; ".join(
            [
                f"total {units.with_prefix(total, 'bit/s')}" if total is not None else "total unavailable",
                f"Jain's fairness {fairness:.3f}" if fairness is not None else "fairness unavailable",
                f"CPU {parts}",
            ]
        )

    def html(self) -> str:
        """The phase, its progress, and the charts."""
        bar = f"<progress max='{self.total:g}' value='{self.done:g}'></progress>" if self.total else ""
        return (
            f"<div class='pairlab-phase'><span class='pairlab-phase-name'>{escape(self.phase_text)}</span>{bar}"
            f"<span class='pairlab-numbers'>{escape(self.sample_text)}</span></div>{self.svg() if self.last else ''}"
        )

    def svg(self) -> str:
        """Throughput of each client, the total, fairness and the CPUs' time; units on the axes."""
        rates_bps = self.last.client_bps if self.last else ()
        color, across, down = ink(self.spec.driver), WIDTH / 2, HEIGHT / 2
        step = math.ceil(len(self._elapsed_s) / MAX_POINTS) or 1
        times = self._elapsed_s[::-step][::-1]  # the latest is always kept
        ends = None if self.spec.flows_end else self.spec.traffic_s  # finite flows end long before
        seconds = axis("s since the release", max(1.0, times[-1]), end=ends)
        parts = [
            self._clients(Chart(0, 0, across, down, *self._axes_of_clients(rates_bps)), rates_bps, color),
            self._over_time(across, 0, "Total", self._total_bps, times, step, seconds, color),
            self._jain(
                Chart(0, down, across, down, "Jain's fairness", seconds, axis("1: all equal", 1)), times, step, color
            ),
            self._cpu(Chart(across, down, across, down, "CPU", seconds, axis("% of all CPUs", 100)), times, step),
        ]
        return charts.picture(WIDTH, HEIGHT, f"{self.phase_text}: {self.sample_text}", parts)

    def _axes_of_clients(self, rates_bps: Sequence[float | None]):
        rates = [rate for rate in rates_bps if rate is not None]
        factor, unit = _scale(max(rates, default=0))
        count = len(rates_bps)
        end = "server" if self.spec.flow_sizes else "client"  # who sends
        return f"Each {end}", axis(f"{end}, of {count}", count, end=count), axis(unit, max(rates, default=0) / factor)

    def _clients(self, chart: Chart, rates: Sequence[float | None], color: str) -> str:
        if all(rate is None for rate in rates):
            return chart.frame() + chart.note("unavailable: clients share one network stack")
        factor, _ = _scale(max(rate for rate in rates if rate is not None))
        return chart.frame() + chart.bars([None if rate is None else rate / factor for rate in rates], color)

    def _over_time(self, left, top, title, values, times, step, seconds, color) -> str:
        most = max((value for value in values if value is not None), default=0)
        factor, unit = _scale(most)
        chart = Chart(left, top, WIDTH / 2, HEIGHT / 2, title, seconds, axis(unit, most / factor))
        if all(value is None for value in values):
            return chart.frame() + chart.note("unavailable: other processes use the same network")
        shown = [None if value is None else value / factor for value in values[::-step][::-1]]
        return chart.frame() + chart.line(times, shown, color)

    def _jain(self, chart: Chart, times: Sequence[float], step: int, color: str) -> str:
        shown = self._fairness[::-step][::-1]
        if all(value is None for value in shown):
            return chart.frame() + chart.note("unavailable: clients share one network stack")
        return chart.frame() + chart.line(times, shown, color)

    def _cpu(self, chart: Chart, times: Sequence[float], step: int) -> str:
        drawn, lows = [], [0.0] * len(times)
        for part, color in PARTS.items():
            highs = [low + 100 * share for low, share in zip(lows, self._parts[part][::-step][::-1], strict=True)]
            drawn.append(chart.area(times, lows, highs, color))
            lows = highs
        return chart.frame() + "".join(drawn) + chart.legend(list(PARTS.items()))


def ink(driver: str) -> str:
    """The driver's colour as in every figure, lighter in a dark theme; black becomes the theme's text colour."""
    color = str(driver_style(driver)["color"])
    return "var(--jp-ui-font-color0, #000)" if color == "#000000" else charts.lifted(color)


def _scale(most_bps: float) -> tuple[float, str]:
    return next(
        (factor, unit)
        for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s"))
        if most_bps >= factor or factor == 1
    )


def _fairness(client_bps: Sequence[float | None]) -> float | None:
    known = [rate for rate in client_bps if rate is not None]
    if not known or len(known) < len(client_bps):
        return None
    found = jain_index(known)
    return None if found != found else found
