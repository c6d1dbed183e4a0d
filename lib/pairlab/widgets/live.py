"""The live view: what a measurement does while it runs, drawn twice a second, or once where it lasts."""

import time
from collections.abc import Callable
from pathlib import Path

import ipywidgets
from IPython.display import display

from pairlab.attended import attend
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.testbed.live import Sample
from pairlab.widgets.course import Course
from pairlab.widgets.style import dressed, frame

#: How often a short measurement is drawn, and one that lasts for LONG_S. To draw takes a browser on the measured host
#: some 25 ms of CPU time (make bench), fifty times what it takes us.
EVERY_S, EVERY_S_OF_LONG = 0.5, 1.0
LONG_S = 5.0
#: Samples come as far apart as we draw at most, give or take what the clocks of two processes differ.
_SLACK_S = 0.1


class LiveView(ipywidgets.HTML):
    """Shows one measurement after the other: begin(spec), then on_phase and on_sample as it goes.

    course: what was heard of the last one. clock: seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self.course: Course | None = None
        self._clock = clock
        self._drawn_s = float("-inf")
        self._every_s = EVERY_S
        dressed(self, "pairlab-live")

    def begin(self, spec: Spec) -> None:
        self.course = Course(spec)
        self._every_s = EVERY_S if spec.total_s < LONG_S else EVERY_S_OF_LONG
        self._draw()

    def on_phase(self, phase: str, done: float, total: float) -> None:
        """A contracts.Progress. A new phase is drawn at once."""
        new = phase != self.course.phase
        self.course.on_phase(phase, done, total)
        self._draw() if new else self._draw_in_time()

    def on_sample(self, sample: Sample) -> None:
        """A live.Watch."""
        self.course.on_sample(sample)
        self._draw_in_time()

    def end(self, words: str) -> None:
        """Says how it ended; the picture stays as it was."""
        self.course.on_phase(words, 0, 0)
        self._draw()

    def _draw_in_time(self) -> None:
        if self._clock() - self._drawn_s >= self._every_s - _SLACK_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn_s = self._clock()
        self.value = self.course.html()


def live(spec: Spec, *, fresh: bool = False, wait: bool = True, root: Path | None = None) -> Run:
    """Measures `spec` and shows it live below the cell; returns the run, stored as any other.

    The measurement runs in a process of its own, so that drawing does not disturb it. Interrupting the kernel stops it
    and leaves the host clean. fresh, wait, root, and what is raised: as of `pairlab.measure`.
    """
    view = LiveView()
    display(frame(view, name="live-cell"))
    view.begin(spec)
    try:
        run = attend(spec, fresh=fresh, wait=wait, root=root, on_phase=view.on_phase, on_sample=view.on_sample)
    except KeyboardInterrupt:
        view.end("stopped: the host is as it was, and nothing was stored")
        raise
    except Exception as error:
        view.end(f"not measured: {error}")
        raise
    view.end(f"{run.status}: {run.outcome}" if len(run.flows) else run.status)
    return run
