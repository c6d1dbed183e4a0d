"""Outcomes of a sweep's cells, and the measurement of cells on this host; for other hosts, see workers."""

from collections.abc import Callable
from typing import NamedTuple

from pairlab import store
from pairlab.errors import HostBusy, PairlabError, StoreError, Unavailable
from pairlab.measurement.measure import Cell, note
from pairlab.model import environment as environments
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.host import facts


class CellOutcome(NamedTuple):
    """The outcome of a cell. state: done, stored (done before), invalid, failed or skipped.

    text: the result, or the reason for having none. run: if one counts or was disturbed. not_retried: the cell was not
    tried, as it failed before.
    """

    state: str
    text: str
    run: Run | None = None
    not_retried: bool = False

    @property
    def measured(self) -> bool:
        return self.state in ("done", "invalid", "failed") and not self.not_retried


class WorkerLost(Exception):
    """A worker can measure no more: it died or left, or the host is unfit. The message says why.

    measuring: it was measuring a cell, which may be the cause.
    """

    def __init__(self, why: str, *, measuring: bool = True):
        super().__init__(why)
        self.measuring = measuring


def stored_outcome(stored: Run | None, retry: bool) -> CellOutcome | None:
    """The outcome of a cell with this stored run; None: to be measured (again)."""
    if stored and stored.status == "ok":
        return CellOutcome("stored", result_text(stored), stored)
    if stored and stored.status in ("failed", "invalid") and not retry:
        return CellOutcome(stored.status, f"kept from before ({'; '.join(stored.reasons)})", stored, not_retried=True)
    return None


def result_text(run: Run) -> str:
    failed = f", {run.failed_flows} of {len(run.flows)} flows failed" if run.failed_flows else ""
    return f"{run.outcome}{failed}"


class LocalExecutor:
    """Measures cells on this host, one at a time. measure: returns the stored run of a cell, or raises the reason."""

    def __init__(self, measure: Callable[[Cell], Run], retry: bool):
        self.host = environments.of_host(facts.host())
        self._measure = measure
        self._retry = retry
        self._available: set[str] = set()

    def measure_cell(self, spec: Spec) -> CellOutcome:
        """Measures the cell, unless it is done, and stores the outcome.

        Raises HostBusy and StoreError, as every other cell would end the same.
        """
        cell = Cell(spec)
        if outcome := stored_outcome(cell.stored, self._retry):
            return outcome
        if cell.missing:  # also more cores than this host has: the cell itself is valid
            return self._unavailable(cell, str(cell.missing))
        self._available.add(spec.backend)
        try:
            run = self._measure(cell)
        except Unavailable as error:
            return self._unavailable(cell, str(error))
        except (HostBusy, StoreError):  # the next cell would end the same
            raise
        except PairlabError as error:
            return self._failed(cell, str(error))
        done = run.status == "ok"
        return CellOutcome("done" if done else run.status, result_text(run) if done else "; ".join(run.reasons), run)

    def _unavailable(self, cell: Cell, why: str) -> CellOutcome:
        """The outcome `skipped`; but `failed` if the backend was available for an earlier cell."""
        spec = cell.spec
        if spec.backend in self._available and registry.backends.get(spec.backend)().missing():
            return self._failed(cell, f"backend {spec.backend!r} is no longer available: {why}")
        if not cell.stored or (cell.stored.status, cell.stored.reasons) != ("skipped", (why,)):
            note(spec, "skipped", why)
        return CellOutcome("skipped", why)

    def _failed(self, cell: Cell, why: str) -> CellOutcome:
        """The outcome `failed`; stored, unless the measurement has already stored a run."""
        latest = store.latest(cell.spec)
        before = cell.stored.measured_at if cell.stored else None
        if latest is None or latest.status == "skipped" or latest.measured_at == before:
            note(cell.spec, "failed", why)
        return CellOutcome("failed", why)
