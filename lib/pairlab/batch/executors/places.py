"""A place where cells are measured, one at a time: this host, or a worker on another one."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec

#: Why a place is lost when nothing is to be measured any more.
SWEEP_ENDED = "the sweep has ended"


class Ended(NamedTuple):
    """What became of a cell. state: done, stored (done before), invalid, failed or skipped.

    text: its result, or why there is none. run: where there is one that counts or was spoilt. kept: it was not tried,
    as it failed before.
    """

    state: str
    text: str
    run: Run | None = None
    kept: bool = False


class PlaceLost(Exception):
    """A place can measure no more: its worker died or left, or its host is not fit for it. Says why.

    measuring: it had been asked for a cell, which may be why.
    """

    def __init__(self, why: str, *, measuring: bool = True):
        super().__init__(why)
        self.measuring = measuring


class Place(Protocol):
    """One cell at a time is measured there.

    name: for people. facts: of its host, as runs have them. host: its host and kernel, without versions of tools.
    lost: why it can measure no more; empty while it can.
    """

    name: str
    facts: Mapping[str, Any]
    host: Ground
    lost: str

    def finish(self, spec: Spec) -> Ended:
        """Measures the cell, unless it is done, so that the store has what came of it.

        Raises PlaceLost, after which the cell may be measured elsewhere, and HostBusy or StoreError where no other
        cell would fare better.
        """


class Places(Protocol):
    """Places that come and go.

    address: of the scheduler that has them. credentials: the file by which it is reached, if named.
    dashboard: for a browser; empty: none.
    """

    address: str
    credentials: str
    dashboard: str

    def arrived(self, say: Callable[[str], None]) -> list[Place]:
        """Those that have come since the last call; say is called with who was refused, and why.

        Raises Unavailable where there was no place at all for longer than one waits.
        """

    def leave(self, place: Place) -> None:
        """That place measures no more."""

    def stop(self) -> None:
        """Each place that is measuring raises PlaceLost at once."""


def already(stored: Run | None, retry: bool) -> Ended | None:
    """How a cell has ended of which there is that run; None where it is to be measured (again)."""
    if stored and stored.status == "ok":
        return Ended("stored", figures(stored), stored)
    if stored and stored.status in ("failed", "invalid") and not retry:
        return Ended(stored.status, f"kept from before ({'; '.join(stored.reasons)})", stored, kept=True)
    return None


def figures(run: Run) -> str:
    """The result of a run in a few words."""
    failed = f", {run.failed_flows} of {len(run.flows)} flows failed" if run.failed_flows else ""
    return f"{run.outcome}{failed}"
