"""What the kernel of a notebook hears from the process that runs it, through its environment, and tells it.

How often it may make a measurement that only the machine spoilt: by other load, late samples, a clock that was set. And
which specs it measured: else a stored run of another spec could be taken for its result.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from pairlab.base.environment import setting
from pairlab.model.spec import Spec

#: How many attempts the processes that run a notebook for us have.
VARIABLE = "PAIRLAB_ATTEMPTS"


def allowed() -> int:
    """How many attempts whoever started this process lets a measurement have."""
    given = os.environ.get(VARIABLE, "")
    return max(1, int(given)) if given.isdecimal() else 1


def allowing(attempts: int) -> AbstractContextManager[None]:
    """In the block, processes that are started have so many attempts at a measurement."""
    return setting(**{VARIABLE: str(attempts)})


#: The path of the list, for processes that are started meanwhile: a line for each, its key and what it is in words.
MEASURED = "PAIRLAB_MEASURED"


def record(spec: Spec) -> None:
    """Tells the process that started this one that `spec` is measured, or taken from the store."""
    if path := os.environ.get(MEASURED):
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{spec.key} {spec}\n")


@contextlib.contextmanager
def recording(folder: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """In the block, processes that are started record what they measure; yields what reads that, words by key."""
    path = folder / "measured"

    def read() -> dict[str, str]:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return {key: words for key, _, words in (line.partition(" ") for line in lines)}

    with setting(**{MEASURED: str(path)}):
        yield read
