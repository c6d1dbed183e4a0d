"""Cells measured on this host."""

from collections.abc import Callable, Mapping
from typing import Any

from pairlab import store
from pairlab.batch.executors.executor import CellOutcome, result_text, stored_outcome
from pairlab.errors import HostBusy, PairlabError, StoreError, Unavailable
from pairlab.measurement.measure import Cell, note
from pairlab.model import ground as grounds
from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.host import facts


class LocalExecutor:
    """This host as an executor. measure: measures a cell and returns its run, which is stored, or raises why not."""

    name = "here"
    lost = ""

    def __init__(self, measure: Callable[[Cell], Run], retry: bool):
        self.facts: Mapping[str, Any] = facts.host()
        self.host: Ground = grounds.of_host(self.facts)
        self._measure = measure
        self._retry = retry
        self._available: set[str] = set()

    def measure_cell(self, spec: Spec) -> CellOutcome:
        cell = Cell(spec)
        if outcome := stored_outcome(cell.stored, self._retry):
            return outcome
        if cell.missing:  # also more cores than this host has: the cell as such is fine
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
        """Skipped; but failed where its backend was there for an earlier cell."""
        spec = cell.spec
        if spec.backend in self._available and registry.backends.get(spec.backend)().lacks():
            return self._failed(cell, f"backend {spec.backend!r} is no longer available: {why}")
        if not cell.stored or (cell.stored.status, cell.stored.reasons) != ("skipped", (why,)):
            note(spec, "skipped", why)
        return CellOutcome("skipped", why)

    def _failed(self, cell: Cell, why: str) -> CellOutcome:
        """Failed, which is stored, unless what measures it has stored what became of it."""
        latest = store.latest(cell.spec)
        before = cell.stored.measured_at if cell.stored else None
        if latest is None or latest.status == "skipped" or latest.measured_at == before:
            note(cell.spec, "failed", why)
        return CellOutcome("failed", why)
