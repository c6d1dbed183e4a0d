"""How far a long command of ours is, on a terminal; the time left is by how long each part took the last time."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console

from pairlab.progress import terminal


def paced(parts: Iterable[str], kept: Path, console: Console) -> Iterator[str]:
    """Each part in its turn. kept: the file that keeps how long each takes, in seconds by its name.

    Where not all that is left has been done before, no time is told: parts have nothing in common.
    """
    parts, took_s = list(parts), _read(kept)
    with terminal.bars(console) as shown:
        task = shown.add_task("", total=len(parts))
        for number, part in enumerate(parts):
            shown.update(task, completed=number, description=f"{number} of {len(parts)} done: {part}")
            left = parts[number:]
            terminal.expect(shown, task, sum(took_s[each] for each in left) if took_s.keys() >= set(left) else None)
            begun = time.monotonic()
            yield part
            took_s[part] = round(time.monotonic() - begun, 3)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(took_s, indent=1) + "\n")


def _read(kept: Path) -> dict[str, float]:
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # spoilt is as good as none
        return {str(name): float(seconds) for name, seconds in json.loads(kept.read_text()).items()}
    return {}
