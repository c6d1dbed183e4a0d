"""What the store has of a spec on the ground it would be measured on now: one way to ask, for all who measure."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import ground


def find(spec: Spec, root: Path | None = None) -> Run | None:
    """The stored run of that spec on this ground: of several the last that is ok; without any such, the last."""
    return store.find(spec, root, ground.here(spec))


def status(spec: Spec, root: Path | None = None) -> str | None:
    """The status of the run that `find` finds, without reading its tables."""
    return store.status(spec, root, ground.here(spec))


def statuses(specs: Iterable[Spec], root: Path | None = None) -> dict[Spec, str | None]:
    """The same of many specs."""
    return store.statuses(specs, root, ground.here)


def measured_elsewhere(specs: Iterable[Spec], root: Path | None = None) -> list[str]:
    """Of how many specs there are only runs of another ground, and what is another here: a line for each change."""
    changes: Counter[str] = Counter()
    open_here = [spec for spec, status in statuses(specs, root).items() if status != "ok"]
    for spec, outcomes in store.outcomes(open_here, root).items():
        if elsewhere := [its for status, its in outcomes if status == "ok"]:
            changes[elsewhere[-1].changes(ground.here(spec))] += 1
    return [
        f"{count} cell{'s were' if count != 1 else ' was'} measured before, with {what}: measured again, beside that"
        for what, count in changes.items()
    ]
