"""Which specs a notebook measured, for who runs it: it could take a stored run of another spec for that otherwise."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pairlab.base.environment import setting
from pairlab.model.spec import Spec

#: The path of the list, for processes that are started meanwhile: a line for each, its key and what it is in words.
VARIABLE = "PAIRLAB_MEASURED"


def record(spec: Spec) -> None:
    """Tells the process that started this one that `spec` is measured, or taken from the store."""
    if path := os.environ.get(VARIABLE):
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{spec.key} {spec}\n")


@contextlib.contextmanager
def recording(folder: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """In the block, processes that are started record what they measure; yields what reads that, words by key."""
    path = folder / "measured"

    def read() -> dict[str, str]:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return {key: words for key, _, words in (line.partition(" ") for line in lines)}

    with setting(**{VARIABLE: str(path)}):
        yield read
