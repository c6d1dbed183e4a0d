"""The live view of a measurement under way: drawn twice a second, or once a second if it is long."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TypeVar

import ipywidgets
from IPython.display import display

from pairlab.analysis.figures.style import CPU_COLOURS, driver_style
from pairlab.base import charts, units
from pairlab.base.charts import Axis, Chart, axis, counted, scaled
from pairlab.measurement.in_subprocess import attend
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.progress.describe import status
from pairlab.statistics.intervals import jain_index
from pairlab.testbed.host.live_sampler import Sample
from pairlab.widgets.parts import frame, with_classes

#: How often a short measurement is drawn, and one of LONG_S or more. Each drawing costs a browser on the measured host
#: about 25 ms of CPU time (make bench), fifty times the cost here.
EVERY_S, EVERY_S_OF_LONG = 0.5, 1.0
LONG_S = 5.0
#: Samples arrive at the drawing interval; this covers the difference between the clocks of the two processes.
_SLACK_S = 0.1

#: A line has no more points than this; with more samples, some are left out.
MAX_POINTS = 120
#: The kinds of CPU time in a sample, and their colours.
PARTS = {part: CPU_COLOURS[part] for part in ("usr", "sys", "softirq")}
#: How much later than the end of sending a sample may end.
_TAIL_S = 0.1
#: Of the slower line.
_P99 = "var(--jp-ui-font-color2, #555)"
_ONE_STACK = "unavailable: clients share one network stack"
_OTHERS = "unavailable: other processes use the same network"
Value = TypeVar("Value")


class MeasurementState:
    """One measurement, from setup to cleanup: its phase, its samples, and how they are drawn."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.phase = "starting"
        self.done: float = 0
        self.total: float = 0
        self.ended = False
        self.samples: list[Sample] = []
        self._fairness: list[float | None] = []

    def on_phase(self, phase: str, done: float, total: float) -> None:
        """Reports progress, as contracts.Progress."""
        self.phase, self.done, self.total = phase, done, total

    def on_sample(self, sample: Sample) -> None:
        """Takes a sample. Samples after the end of sending are ignored: some clients have ended by then."""
        if self.samples and sample.elapsed_s > sample.total_s + _TAIL_S:
            return
        if self.samples:  # each client's rate is drawn of the latest only, and there may be thousands of samples
            self.samples[-1] = replace(self.samples[-1], client_bps=())
        self.samples.append(sample)
        self._fairness.append(_fairness(sample.client_bps))

    @property
    def phase_text(self) -> str:
        """The phase in words: "bringing up 31/50", "measuring 4.2/10 s"."""
        return status(self.phase, self.done, self.total)

    @property
    def sample_text(self) -> str:
        """The latest sample in words; empty before there is one."""
        if not self.samples:
            return ""
        last, fairness = self.samples[-1], self._fairness[-1]
        said = [
            f"total {units.with_prefix(last.total_bps, 'bit/s')}"
            if last.total_bps is not None
            else "total unavailable",
            f"Jain's fairness {fairness:.3f}" if fairness is not None else "fairness unavailable",
        ]
        latencies_s = {"p50": last.latency_p50_s, "p99": last.latency_p99_s}
        if known := [f"{name} {units.with_prefix(its, 's')}" for name, its in latencies_s.items() if its is not None]:
            said += [f"latency {', '.join(known)}", f"{last.transactions_per_s or 0:,.0f} transactions/s"]
        said.append("CPU " + ", ".join(f"{part} {getattr(last, part):.0%}" for part in PARTS))
        before = "at the last sample: " if self.ended else ""  # how it ended is said of all of it
        return before + "; ".join(said)

    def html(self) -> str:
        drawn = self.charts() if self.samples else ""
        bar = f"<progress max='{self.total:g}' value='{self.done:g}'></progress>" if self.total else ""
        return (
            f"<div class='pairlab-phase'><span class='pairlab-phase-name'>{escape(self.phase_text)}</span>{bar}"
            f"<span class='pairlab-numbers'>{escape(self.sample_text)}</span></div>{drawn}"
        )

    def charts(self) -> str:
        """Throughput of each client, the total, fairness and the CPUs' time; units on the axes."""
        color, shown = ink(self.spec.driver), self._shown(self.samples)
        times = [sample.elapsed_s for sample in shown]
        ends = None if self.spec.flows_end else self.spec.traffic_s  # finite flows end long before
        seconds = axis("s since the release", max(1.0, times[-1]), end=ends)
        rates, unit, most = scaled(shown[-1].client_bps, "bit/s")
        sender, count = "server" if self.spec.flow_sizes else "client", len(rates)
        senders = counted(f"{sender}, of {count}", count)
        totals, total_unit, most_total = scaled([sample.total_bps for sample in self.samples], "bit/s")
        each = Chart(f"Each {sender}", senders, axis(unit, most))
        total = Chart("Total", seconds, axis(total_unit, most_total))
        fair = Chart("Jain's fairness", seconds, axis("1: all equal", 1))
        fairness = fair.line(times, self._shown(self._fairness), color)
        drawn = [
            _unless_missing(each, rates, each.bars(rates, color), _ONE_STACK),
            _unless_missing(total, totals, total.line(times, self._shown(totals), color), _OTHERS),
            self._latency(seconds, times, color) or _unless_missing(fair, self._fairness, fairness, _ONE_STACK),
            _cpu(Chart("CPU", seconds, axis("% of all CPUs", 100)), times, shown),
        ]
        for host in shown[-1].hosts_busy:  # with a kernel of its own
            chart = Chart(host, seconds, axis("% of its CPU that is busy", 100))
            busy = [100 * sample.hosts_busy.get(host, math.nan) for sample in shown]
            drawn.append(chart.picture(chart.line(times, busy, PARTS["sys"])))
        return charts.side_by_side(f"{self.phase_text}: {self.sample_text}", drawn)

    def _shown(self, values: Sequence[Value]) -> Sequence[Value]:
        """As many of the samples, or of values of each, as are drawn; the latest is always among them."""
        step = math.ceil(len(values) / MAX_POINTS)
        return values[::-step][::-1]

    def _latency(self, seconds: Axis, times: Sequence[float], color: str) -> str:
        """Of the transactions between samples; empty where there are none, or their tool does not show them."""
        slower = [sample.latency_p99_s for sample in self.samples]
        both, unit, most = scaled([*(sample.latency_p50_s for sample in self.samples), *slower], "s")
        if not most:
            return ""
        chart, half = Chart("Latency", seconds, axis(unit, most)), len(slower)
        lines = {"p50": (both[:half], color), "p99": (both[half:], _P99)}
        drawn = "".join(chart.line(times, self._shown(values), ink_of) for values, ink_of in lines.values())
        return chart.picture(drawn + chart.legend([(name, ink_of) for name, (_, ink_of) in lines.items()]))


def _cpu(chart: Chart, times: Sequence[float], samples: Sequence[Sample]) -> str:
    areas, lows = [], [0.0] * len(times)
    for part, color in PARTS.items():
        highs = [low + 100 * getattr(sample, part) for low, sample in zip(lows, samples, strict=True)]
        areas.append(chart.area(times, lows, highs, color))
        lows = highs
    return chart.picture("".join(areas) + chart.legend(list(PARTS.items())))


def _unless_missing(chart: Chart, values: Sequence[float | None], marks: str, why: str) -> str:
    return chart.picture(chart.note(why) if all(value is None for value in values) else marks)


def _fairness(client_bps: Sequence[float | None]) -> float | None:
    known = [rate for rate in client_bps if rate is not None]
    found = jain_index(known) if known and len(known) == len(client_bps) else math.nan
    return units.none_if_nan(found)


def ink(driver: str) -> str:
    """The driver's colour as in every figure, lighter in a dark theme; black becomes the theme's text colour."""
    color = str(driver_style(driver)["color"])
    return "var(--jp-ui-font-color0, #000)" if color == "#000000" else charts.lifted(color)


class LiveView(ipywidgets.HTML):
    """Shows one measurement after the other: begin(spec), then on_phase and on_sample as it goes.

    state: of the last one. clock: in seconds, replaced in tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self.state: MeasurementState | None = None
        self._clock = clock
        self._drawn_s = float("-inf")
        with_classes(self, "pairlab-live")

    def begin(self, spec: Spec) -> None:
        self.state = MeasurementState(spec)
        self._draw(self.state)

    def on_phase(self, phase: str, done: float, total: float) -> None:
        """Reports progress, as contracts.Progress. A new phase is drawn at once."""
        if state := self.state:
            new = phase != state.phase
            state.on_phase(phase, done, total)
            self._draw(state, if_due=not new)

    def on_sample(self, sample: Sample) -> None:
        if state := self.state:
            state.on_sample(sample)
            self._draw(state, if_due=True)

    def end(self, text: str) -> None:
        """Shows how it ended; the charts stay."""
        if self.state:
            self.state.ended = True
            self.state.on_phase(text, 0, 0)
            self._draw(self.state)

    def _draw(self, state: MeasurementState, *, if_due: bool = False) -> None:
        now_s = self._clock()
        every_s = EVERY_S if state.spec.traffic_s < LONG_S else EVERY_S_OF_LONG
        if not if_due or now_s - self._drawn_s >= every_s - _SLACK_S:
            self._drawn_s = now_s
            self.value = state.html()


def live(spec: Spec, *, fresh: bool = False, wait: bool = True, root: Path | None = None) -> Run:
    """Measures `spec` and shows it live below the cell; stores and returns the run.

    The measurement runs in a separate process, so that drawing does not disturb it. Interrupting the kernel stops it
    and leaves the host clean. fresh, wait, root and exceptions: as for `pairlab.measure`.
    """
    view = LiveView()
    display(frame(view, name="live-cell"))
    view.begin(spec)
    try:
        run = attend(spec, fresh=fresh, wait=wait, root=root, on_phase=view.on_phase, on_sample=view.on_sample)
    except KeyboardInterrupt:
        view.end("stopped: the host is clean, nothing was stored")
        raise
    except Exception as error:
        view.end(f"measurement failed: {error}")
        raise
    view.end(": ".join(filter(None, (run.status, run.outcome))))
    return run
