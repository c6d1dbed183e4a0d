"""What the host did meanwhile: CPU use per core, over time."""

import threading
import time
from collections.abc import Mapping

import psutil

#: Our columns, and the fields of proc_stat(5), as psutil names them, that make up each.
PARTS: Mapping[str, tuple[str, ...]] = {
    "usr": ("user", "nice"),
    "sys": ("system",),
    "softirq": ("softirq",),
    "irq": ("irq",),
    "iowait": ("iowait",),
    "idle": ("idle",),
    "steal": ("steal",),
}


class CpuTelemetry:
    """Samples every CPU's time at an interval, in a thread, while its block runs (a context manager).

    The kernel counts in ticks of 10 ms as a rule, so intervals below 0.1 s would say little. Guest time is part of
    user time already (proc_stat(5)) and is not counted again.
    """

    def __init__(self, interval_s: float):
        self._interval_s = interval_s
        self._samples: list[tuple[int, list]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_done, name="cpu-telemetry", daemon=True)

    def __enter__(self) -> "CpuTelemetry":
        self._sample()  # by us, so that what follows at once is not missed
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def rows(self, release_ns: int) -> list[dict]:
        """One row of the `cpu` table per CPU and interval, times from the release."""
        rows = []
        for (begun_ns, before), (ended_ns, after) in zip(self._samples, self._samples[1:], strict=False):
            for cpu, (old, new) in enumerate(zip(before, after, strict=True)):
                spent = {name: sum(getattr(new, f) - getattr(old, f) for f in parts) for name, parts in PARTS.items()}
                total = sum(spent.values())
                if total <= 0:
                    continue
                times = {"start_s": (begun_ns - release_ns) / 1e9, "end_s": (ended_ns - release_ns) / 1e9}
                rows.append({"cpu": cpu, **times, **{name: share / total for name, share in spent.items()}})
        return rows

    def _sample(self) -> None:
        self._samples.append((time.monotonic_ns(), psutil.cpu_times(percpu=True)))

    def _sample_until_done(self) -> None:
        """Samples on a fixed grid of times, so that a late sample does not shift the next; once more at the end."""
        begun = time.monotonic()
        for number in range(1, 1_000_000_000):
            done = self._done.wait(max(0.0, begun + number * self._interval_s - time.monotonic()))
            self._sample()
            if done:
                return
