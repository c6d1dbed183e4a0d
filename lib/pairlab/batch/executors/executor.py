"""What measures the cells of a sweep, one at a time: this host, or a worker on another one."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec


class CellOutcome(NamedTuple):
    """What became of a cell. state: done, stored (done before), invalid, failed or skipped.

    text: its result, or why there is none. run: where there is one that counts or was spoilt. not_retried: it was not
    tried, as it failed before.
    """

    state: str
    text: str
    run: Run | None = None
    not_retried: bool = False


class WorkerLost(Exception):
    """A worker can measure no more: it died or left, or its host is not fit for it. Says why.

    measuring: it had been asked for a cell, which may be why.
    """

    def __init__(self, why: str, *, measuring: bool = True):
        super().__init__(why)
        self.measuring = measuring


class Executor(Protocol):
    """Measures cells on one host.

    name: for people. facts: of its host, as runs have them. host: its host and kernel, without versions of tools.
    lost: why it can measure no more; empty while it can.
    """

    name: str
    facts: Mapping[str, Any]
    host: Ground
    lost: str

    def measure_cell(self, spec: Spec) -> CellOutcome:
        """Measures the cell, unless it is done, so that the store has what came of it.

        Raises WorkerLost, after which the cell may be measured elsewhere, and HostBusy or StoreError where no other
        cell would fare better.
        """


def stored_outcome(stored: Run | None, retry: bool) -> CellOutcome | None:
    """How a cell has ended of which there is that run; None where it is to be measured (again)."""
    if stored and stored.status == "ok":
        return CellOutcome("stored", result_text(stored), stored)
    if stored and stored.status in ("failed", "invalid") and not retry:
        return CellOutcome(stored.status, f"kept from before ({'; '.join(stored.reasons)})", stored, not_retried=True)
    return None


def result_text(run: Run) -> str:
    """The result of a run in a few words."""
    failed = f", {run.failed_flows} of {len(run.flows)} flows failed" if run.failed_flows else ""
    return f"{run.outcome}{failed}"
