"""The live view of a measurement under way: drawn twice a second, or once a second if it is long."""

import time
from collections.abc import Callable
from pathlib import Path

import ipywidgets
from IPython.display import display

from pairlab.measurement.in_subprocess import attend
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed.host.live_sampler import Sample
from pairlab.widgets.live_view.state import MeasurementState
from pairlab.widgets.style import frame, with_classes

#: How often a short measurement is drawn, and one of LONG_S or more. Each drawing costs a browser on the measured host
#: about 25 ms of CPU time (make bench), fifty times the cost here.
EVERY_S, EVERY_S_OF_LONG = 0.5, 1.0
LONG_S = 5.0
#: Samples arrive at the drawing interval; this covers the difference between the clocks of the two processes.
_SLACK_S = 0.1


class LiveView(ipywidgets.HTML):
    """Shows one measurement after the other: begin(spec), then on_phase and on_sample as it goes.

    state: of the last one. clock: in seconds, replaced in tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self.state: MeasurementState | None = None
        self._clock = clock
        self._drawn_s = float("-inf")
        self._every_s = EVERY_S
        with_classes(self, "pairlab-live")

    def begin(self, spec: Spec) -> None:
        self.state = MeasurementState(spec)
        self._every_s = EVERY_S if spec.traffic_s < LONG_S else EVERY_S_OF_LONG
        self._draw()

    def on_phase(self, phase: str, done: float, total: float) -> None:
        """Reports progress, as contracts.Progress. A new phase is drawn at once."""
        new = phase != self.state.phase
        self.state.on_phase(phase, done, total)
        self._draw() if new else self._draw_if_due()

    def on_sample(self, sample: Sample) -> None:
        """Takes a sample."""
        self.state.on_sample(sample)
        self._draw_if_due()

    def end(self, words: str) -> None:
        """Shows how it ended; the charts stay."""
        self.state.on_phase(words, 0, 0)
        self._draw()

    def _draw_if_due(self) -> None:
        if self._clock() - self._drawn_s >= self._every_s - _SLACK_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn_s = self._clock()
        self.value = self.state.html()


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
