"""Which runs a figure, table or number was made from: every file that leaves an analysis carries it."""

import os
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from pairlab import paths
from pairlab.errors import BadInput, StoreError
from pairlab.store.dataset import Runs

#: The testbed as the paper describes it: key, and where Run.facts has it.
FACTS = {
    "kernel": ("host", "kernel"),
    "cpu-model": ("host", "cpu_model"),
    "cpus": ("host", "cpus"),
    "memory": ("host", "memory_bytes"),
    "virtualization": ("host", "virtualization"),
    "datapath": ("network", "datapath"),
    "congestion-control": ("network", "tcp_congestion_control"),
}


#: An Origin's text, as it stands in a comment or in a figure's metadata.
_STAMP = re.compile(
    rb"made from \d+ runs of [^\n]*?(?:, experiment ([a-z0-9_+-]+))?, measured [^\n]*?, keys ([0-9a-f]{16})"
)


@dataclass(frozen=True)
class Origin:
    """Where the data of one analysis came from.

    label names the output folders. folder is relative to the checkout. experiments are those that were loaded
    (none named: all). runs is how many count. first and last are the days (UTC) of measuring. digest is over the keys
    and times of the loaded runs that count: other runs, other digest.
    """

    label: str
    folder: str
    sweep: str
    runs: int
    first: str
    last: str
    digest: str
    experiments: tuple[str, ...] = ()

    def __str__(self) -> str:
        sweep = f", sweep {self.sweep}" if self.sweep else ""
        sweep += f", experiment {'+'.join(self.experiments)}" if self.experiments else ""
        days = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.runs} runs of {self.folder}{sweep}, measured {days}, keys {self.digest}"

    def comment(self, what: str) -> str:
        """The first lines of a LaTeX file."""
        return f"% {what}: made from {self}.\n% Generated: change the notebook, not this file.\n"


def origin_of(runs: Runs, folder: str | Path, sweep: str = "") -> Origin:
    """The origin of what is made from `runs`, loaded from `folder` and, if named, of one `sweep`.

    The label is the sweep, else the folder's name. Raises BadInput where neither gives a name for a folder.
    """
    root = paths.existing(folder) if folder else paths.runs()
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", sweep or root.name).strip("-.")
    if not label:
        raise BadInput(f"the runs folder {folder!r} has no name to label the figures with: give a folder below it")
    counted = [run for run in runs if run.status == "ok"]
    days = sorted(f"{run.measured_at.astimezone(UTC):%Y-%m-%d}" for run in counted if run.measured_at)
    days = days or ["on an unknown day"]
    return Origin(
        label=label,
        folder=paths.from_root(root) if root.is_relative_to(paths.ROOT) else root.name,
        sweep=sweep,
        runs=len(counted),
        first=days[0],
        last=days[-1],
        digest=runs.digest,
        experiments=runs.experiments,
    )


#: What differs between reasons of one kind.
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*%?")


def account(runs: Runs) -> str:
    """How many runs were read and how many count, and those that do not, by reason, whatever its numbers."""
    left_out = [run for run in runs if run.status != "ok"]
    total = len(runs) + len(runs.unread)
    lines = [f"{total} runs read, {len(runs) - len(left_out)} count, {total - len(runs) + len(left_out)} left out"]
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for run in left_out:
        why = f"{run.status}: {'; '.join(run.reasons) or 'no reason given'}"
        by_reason.setdefault(_NUMBER.sub("…", why), []).append((str(run.spec), why))
    for kind, which in sorted(by_reason.items()):
        same = len({why for _, why in which}) == 1
        lines.append(f"  {len(which)} {which[0][1] if same else kind}")
        lines += [f"    {spec}" if same else f"    {spec}: {why}" for spec, why in sorted(which)]
    lines += [f"  damaged: {why}" for why in runs.damaged]
    lines += [f"  newer: {why}" for why in runs.newer]
    lines += [f"  {why}" for why in runs.elsewhere]
    return "\n".join(lines)


@dataclass(frozen=True)
class Stamp:
    """What a generated file says of its runs: the experiments (none named: all) and their digest."""

    experiments: tuple[str, ...]
    digest: str


def stamp_of(file: Path) -> Stamp | None:
    """The stamp in a .tex, .pgf, .pdf or .png that an analysis wrote; None where the file has none."""
    found = _STAMP.search(file.read_bytes())
    if not found:
        return None
    return Stamp(tuple(found[1].decode().split("+")) if found[1] else (), found[2].decode())


def facts_of(runs: Runs) -> dict[str, str]:
    """What the runs that count record of their testbed, by the keys of FACTS; several values are listed."""
    found = {}
    for key, (part, name) in FACTS.items():
        values = {(run.facts.get(part) or {}).get(name) for run in runs if run.status == "ok"} - {None, ""}
        shown = {f"{value / 2**30:.1f} GiB" if name == "memory_bytes" else str(value) for value in values}
        found[key] = ", ".join(sorted(shown)) or "not recorded"
    return found


def conditions(runs: Runs) -> str:
    """How the runs that count were measured, for a figure's note: what differs between hosts and sweeps."""
    counted, facts = [run.spec for run in runs if run.status == "ok"], facts_of(runs)
    switches = {run.spec.driver for run in runs if (run.facts.get("network") or {}).get("datapath")}
    seconds = sorted({spec.duration_s for spec in counted if not spec.flow_bytes})
    unsteady = sum(run.steadiness_unknown for run in runs if run.status == "ok")
    named = {
        "TCP {}": ", ".join(sorted({spec.congestion_control or facts["congestion-control"] for spec in counted})),
        "{} s each": " or ".join(f"{each:g}" for each in seconds),
        "{} CPUs": facts["cpus"],
        f"{', '.join(sorted(switches))} datapath {{}}": facts["datapath"],
        f"steadiness unknown of {{}} of {len(counted)} runs": str(unsteady or ""),
    }
    return ", ".join(form.format(value) for form, value in named.items() if value not in ("", "not recorded"))


def write_atomically(path: Path, content: bytes, *, remedy: str = "PAIRLAB_OUT names another one") -> Path:
    """Writes the file whole or not at all. Raises StoreError with the remedy where it cannot be written."""
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
            f"{path} could not be written: {error.strerror or error}. Make room or make the folder writable; {remedy}"
        ) from error
    return path
