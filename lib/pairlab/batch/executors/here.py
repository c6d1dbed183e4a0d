"""Cells measured on this host, by papermill on the experiment's notebook."""

from collections.abc import Callable, Mapping
from typing import Any

from pairlab import store
from pairlab.batch import experiments
from pairlab.batch.executors.places import Ended, already, figures
from pairlab.errors import BadSpec, HostBusy, PairlabError, StoreError, Unavailable
from pairlab.measurement import in_store
from pairlab.measurement.measure import check, note
from pairlab.model import ground as grounds
from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.contracts import Progress, silent
from pairlab.testbed.host import facts

#: Measures one cell and returns its run, which is stored, or raises why not.
Executor = Callable[[Spec], Run]


def execute(
    spec: Spec,
    *,
    wait: bool = True,
    attempts: int = 1,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
) -> Run:
    """The executor of every sweep: papermill on the experiment's notebook."""
    values = spec.model_dump(include=set(experiments.defaults(spec.experiment)))
    return experiments.run(spec.experiment, values, wait=wait, attempts=attempts, say=say, progress=progress)


class Here:
    """This host, as a place where cells are measured."""

    name = "here"
    lost = ""

    def __init__(self, execute: Executor, retry: bool):
        self.facts: Mapping[str, Any] = facts.host()
        self.host: Ground = grounds.of_host(self.facts)
        self._execute = execute
        self._retry = retry
        self._available: set[str] = set()

    def finish(self, spec: Spec) -> Ended:
        stored = in_store.find(spec)
        if ended := already(stored, self._retry):
            return ended
        try:
            _check_host(spec)
            self._available.add(spec.backend)
            run = self._execute(spec)
        except Unavailable as error:
            if spec.backend in self._available and registry.backends.get(spec.backend)().lacks():
                return self._failed(spec, stored, f"backend {spec.backend!r} is no longer available: {error}")
            if not stored or (stored.status, stored.reasons) != ("skipped", (str(error),)):
                note(spec, "skipped", str(error))
            return Ended("skipped", str(error))
        except (HostBusy, StoreError):  # the next cell would end the same
            raise
        except PairlabError as error:
            return self._failed(spec, stored, str(error))
        if run.status == "ok":
            return Ended("done", figures(run), run)
        return Ended(run.status, "; ".join(run.reasons), run)

    def _failed(self, spec: Spec, before: Run | None, reason: str) -> Ended:
        now = store.latest(spec)
        measured = now is not None and not (before and now.measured_at == before.measured_at)
        if now is None or not measured or now.status == "skipped":  # otherwise measure() has stored it
            note(spec, "failed", reason)
        return Ended("failed", reason)


def _check_host(spec: Spec) -> None:
    """Raises Unavailable where this host cannot do it: also for more cores than it has, as the cell as such is fine."""
    try:
        check(spec)
    except BadSpec as error:
        raise Unavailable(str(error)) from error
