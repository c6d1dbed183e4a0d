"""What the store has of a spec on the ground it would be measured on now: one way to ask, for all who measure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pairlab import store
from pairlab.model.ground import Ground
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


def statuses_of(outcomes: Mapping[Spec, Sequence[tuple[str, Ground]]]) -> dict[Spec, str | None]:
    """The same from what `store.outcomes` has returned."""
    return store.statuses_of(outcomes, ground.here)


def measured_elsewhere(outcomes: Mapping[Spec, Sequence[tuple[str, Ground]]]) -> list[str]:
    """Of how many specs there are only runs of another ground, and what is another here: a line for each change.

    outcomes: what `store.outcomes` has returned.
    """
    changes: Counter[str] = Counter()
    for spec, status in statuses_of(outcomes).items():
        elsewhere = [its for of_run, its in outcomes[spec] if of_run == "ok"] if status != "ok" else []
        if elsewhere:
            changes[elsewhere[-1].changes(ground.here(spec))] += 1
    return [
        f"{count} cell{'s were' if count != 1 else ' was'} measured before, with {what}: measured again, beside that"
        for what, count in changes.items()
    ]
