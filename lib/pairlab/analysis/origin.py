"""Which runs a figure, table or number was made from: every file that leaves an analysis carries it."""

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from pairlab import paths
from pairlab.collection import Runs
from pairlab.errors import BadInput, StoreError

#: The testbed as the paper tells it: key, and where Run.facts has it.
FACTS = {
    "kernel": ("host", "kernel"),
    "cpu-model": ("host", "cpu_model"),
    "cpus": ("host", "cpus"),
    "memory": ("host", "memory_bytes"),
    "virtualization": ("host", "virtualization"),
    "datapath": ("network", "datapath"),
    "congestion-control": ("network", "tcp_congestion_control"),
}


@dataclass(frozen=True)
class Origin:
    """Where the data of one analysis came from.

    label names the output folders. folder is told relative to the checkout. runs is how many count. first and
    last are the days (UTC) of measuring. digest is over the keys and times of the runs that count: other
    runs, other digest.
    """

    label: str
    folder: str
    sweep: str
    runs: int
    first: str
    last: str
    digest: str

    def __str__(self) -> str:
        sweep = f", sweep {self.sweep}" if self.sweep else ""
        days = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.runs} runs of {self.folder}{sweep}, measured {days}, keys {self.digest}"

    def comment(self, what: str) -> str:
        """The first lines of a LaTeX file."""
        return f"% {what}: made from {self}.\n% Generated: change the notebook, not this file.\n"


def origin_of(runs: Runs, folder: str | Path, sweep: str = "") -> Origin:
    """The origin of what is made from `runs`, loaded from `folder` and, where told, of one `sweep`.

    The label is the sweep, else the folder's name. Raises BadInput where neither gives a name for a folder.
    """
    root = paths.within_root(folder) if folder else paths.runs()
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", sweep or root.name).strip("-.")
    if not label:
        raise BadInput(f"the runs folder {folder!r} has no name to label the figures with: give a folder below it")
    counted = [run for run in runs if run.status == "ok"]
    times = {run.key: run.measured_at.astimezone(UTC).isoformat() if run.measured_at else "" for run in counted}
    days = sorted(time[:10] for time in times.values() if time) or ["on an unknown day"]
    told = "\n".join(f"{key} {time}" for key, time in sorted(times.items()))
    return Origin(
        label=label,
        folder=str(root.relative_to(paths.ROOT)) if root.is_relative_to(paths.ROOT) else root.name,
        sweep=sweep,
        runs=len(counted),
        first=days[0],
        last=days[-1],
        digest=hashlib.sha256(told.encode()).hexdigest()[:16],
    )


def account(runs: Runs) -> str:
    """How many runs were read and how many count, and each one that does not, with its reason."""
    left_out = [run for run in runs if run.status != "ok"]
    total = len(runs) + len(runs.damaged)
    lines = [f"{total} runs read, {len(runs) - len(left_out)} count, {total - len(runs) + len(left_out)} left out"]
    lines += sorted(f"  {run.status}: {run.spec}: {'; '.join(run.reasons) or 'no reason given'}" for run in left_out)
    lines += [f"  damaged: {told}" for told in runs.damaged]
    return "\n".join(lines)


def facts_of(runs: Runs) -> dict[str, str]:
    """What the runs that count say of their testbed, by the keys of FACTS; several values are listed."""
    told = {}
    for key, (part, name) in FACTS.items():
        values = {(run.facts.get(part) or {}).get(name) for run in runs if run.status == "ok"} - {None, ""}
        shown = {f"{value / 2**30:.1f} GiB" if name == "memory_bytes" else str(value) for value in values}
        told[key] = ", ".join(sorted(shown)) or "not recorded"
    return told


def write_atomically(path: Path, content: bytes) -> Path:
    """Writes the file whole or not at all. Raises StoreError where it cannot be written."""
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError as error:
        if draft:
            Path(draft).unlink(missing_ok=True)
        raise StoreError(
            f"{paths.shown(path)} could not be written: {error.strerror or error}."
            " Make room or make the folder writable; PAIRLAB_OUT names another one"
        ) from error
    return path
