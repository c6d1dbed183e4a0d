"""Blocks: runs that were measured side by side, directly after each other, and so can be compared in pairs.

A machine drifts and has more than one speed: two runs an hour apart can differ by a fifth without any cause. So a sweep
measures what is compared in blocks, in random order, and a run records its block. What no block has in common is not
paired, and what was measured one after the other, first all of one side and then all of the other, decides nothing, as
drift alone may be the difference.
Source: Abedi and Brecht 2017, "Conducting Repeatable Experiments in Highly Variable Cloud Computing Environments":
randomised multiple interleaved trials.
"""

import itertools
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from pairlab.model.records import Run

#: Runs further apart than this are not of one block, in seconds.
LONGEST_S = 600.0
_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


def begun(name: str) -> str:
    """The label of a block that begins now; labels sort by time. name: what measures it, such as a sweep."""
    return f"{datetime.now(UTC):{_FORMAT}} {name}".strip()


def label_of(run: Run) -> str:
    """The block that a run was measured in, in stretches of LONGEST_S, and its repetition, of which a block by hand can
    have several; without a block, a label that no other run has.
    """
    if run.measured_at is None:
        return f"{run.key} {run.spec.repetition}"
    block = str(run.facts.get("block") or "")
    at = began_at(block)
    if at is None:
        return f"{run.measured_at.astimezone(UTC):{_FORMAT}} {run.key} {run.spec.repetition}"
    late = max(0, int((run.measured_at - at).total_seconds() // LONGEST_S))
    return f"{block} {run.spec.repetition}" + (f" +{late}" if late else "")


def began_at(label: object) -> datetime | None:
    """When a block began; None where its label does not say."""
    try:
        return datetime.strptime(str(label).partition(" ")[0], _FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None


def sessions(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs in the order of measuring, in stretches without a pause longer than LONGEST_S."""
    stretches: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: run.age_key):
        before = stretches[-1][-1].measured_at if stretches else None
        if before and run.measured_at and (run.measured_at - before).total_seconds() <= LONGEST_S:
            stretches[-1].append(run)
        else:
            stretches.append([run])
    return stretches


def apart(first: Collection[object], second: Collection[object]) -> bool:
    """Whether two sides were measured one after the other, so that drift of the machine may be all that they differ by.

    first, second: the labels of their runs. They are not apart where all lie within LONGEST_S, or they take turns, as
    where each repetition of a sweep has both: as often at least as the smaller side has runs, and each of these, but
    for one of several, has a neighbour of the other side, in time, that no other run has. Without the latter, a random
    walk makes a difference of AAABABABBB in one case of seven.
    """
    times = [(began_at(label), side) for side, labels in enumerate((first, second)) for label in labels]
    begun = sorted((at, side) for at, side in times if at is not None)
    if len(begun) < len(times) or not (len(first) and len(second)):
        return False
    if (begun[-1][0] - begun[0][0]).total_seconds() <= LONGEST_S:
        return False
    turns, neighbours, alone = 0, 0, None
    for (_, before), (_, side) in itertools.pairwise([(None, None), *begun]):
        met = alone not in (None, side)
        turns, neighbours, alone = turns + (before not in (None, side)), neighbours + met, None if met else side
    smaller = min(len(first), len(second))
    return turns < smaller or neighbours < smaller - (smaller > 2)
