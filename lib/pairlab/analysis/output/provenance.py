"""Which runs a figure, table or number was made from: every file that leaves an analysis carries it."""

import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from pairlab import paths
from pairlab.analysis.comparison import spec_text
from pairlab.analysis.selection import beyond_alike, congestion_control, in_force, usual_value
from pairlab.errors import BadInput, StoreError
from pairlab.model import reasons
from pairlab.store.dataset import Runs

#: The testbed as the paper describes it: key, and where Run.facts has it.
FACTS = {
    "kernel": ("host", "kernel"),
    "cpu-model": ("host", "cpu_model"),
    "cpus": ("host", "cpus"),
    "memory": ("host", "memory_bytes"),
    "virtualization": ("host", "virtualization"),
    "datapath": ("network", "datapath"),
}


#: How a datapath in the kernel is called here, by Open vSwitch's name.
KERNEL = {"system": "kernel"}

#: An Origin's text, as it stands in a comment or in a figure's metadata.
_STAMP = re.compile(
    rb"made from \d+ runs of [^\n]*?(?:, experiment ([a-z0-9_+-]+))?, measured [^\n]*?, keys ([0-9a-f]{16})"
)


@dataclass(frozen=True)
class Origin:
    """Where the data of one analysis came from.

    label names the output folders. folder is relative to the checkout. experiments are those that were loaded
    (none named: all). runs is how many count. first and last are the days (UTC) of measuring. digest is over the keys
    and times of the loaded runs that count: other runs, other digest. conditions is how these were measured.
    """

    label: str
    folder: str
    sweep: str
    runs: int
    first: str
    last: str
    digest: str
    experiments: tuple[str, ...] = ()
    conditions: str = ""

    def __str__(self) -> str:
        sweep = f", sweep {self.sweep}" if self.sweep else ""
        sweep += f", experiment {'+'.join(self.experiments)}" if self.experiments else ""
        days = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.runs} runs of {self.folder}{sweep}, measured {days}, keys {self.digest}"

    def comment(self, what: str) -> str:
        """The first lines of a LaTeX file."""
        return f"% {what}: made from {self}.\n% Generated: change the notebook, not this file.\n"


def origin_of(runs: Runs, folder: str | Path | None, sweep: str = "") -> Origin:
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
        conditions=conditions(runs),
    )


def account(runs: Runs) -> str:
    """How many runs were read and how many count, and those that do not, by reason, whatever its numbers.

    A line for each reason, and one for each run that could have counted: not for what was skipped.
    """
    left_out = [run for run in runs if run.status != "ok"]
    total = len(runs) + len(runs.unread)
    lines = [f"{total} runs read, {len(runs) - len(left_out)} count, {total - len(runs) + len(left_out)} left out"]
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for run in left_out:
        why = f"{run.status}: {'; '.join(run.reasons) or 'no reason given'}"
        by_reason.setdefault(reasons.same(why), []).append((str(run.spec), why))
    for kind, which in sorted(by_reason.items()):
        same = len({why for _, why in which}) == 1
        lines.append(f"  {len(which)} {which[0][1] if same else kind}")
        if not kind.startswith("skipped"):
            lines += [f"    {spec}" if same else f"    {spec}: {why}" for spec, why in sorted(which)]
    lines += [f"  damaged: {why}" for why in runs.damaged]
    lines += [f"  newer: {why}" for why in runs.newer]
    lines += [f"  {why}" for why in (*runs.elsewhere, runs.places) if why]
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
    """What the runs that count record of their testbed, by the keys of FACTS; several values are listed.

    congestion-control is the one in force in those runs with TCP that do not vary it.
    """
    counted = [run for run in runs if run.status == "ok"]
    asked = [run.spec.congestion_control for run in counted if congestion_control(run)]
    usual = usual_value("congestion_control", asked)
    found = {key: {(run.facts.get(part) or {}).get(name) for run in counted} for key, (part, name) in FACTS.items()}
    found["memory"] = {f"{size / 2**30:.1f} GiB" for size in found["memory"] if size}
    found["congestion-control"] = {congestion_control(run) for run in counted if run.spec.congestion_control == usual}
    return {key: _listed(values) or "not recorded" for key, values in found.items()}


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted({str(value) for value in values} - {"None", ""}))


def conditions(runs: Runs) -> str:
    """How the runs that count were measured, for the note of a figure or table: what differs between hosts and sweeps.

    What all of them ask for beyond the papers, TCP's congestion control in force, how long flows without an end were
    measured, the CPUs, the hosts that are no
    machines of their own, and the datapath of a driver's switch: "ovs (netdev)", or "ovs (kernel)", which Open vSwitch
    calls system.
    """
    counted = [run for run in runs if run.status == "ok"]
    datapaths = {(run.spec.driver, in_force(run)["datapath"]) for run in counted}
    seconds = sorted({run.spec.duration_s for run in counted if not run.spec.flows_end})
    unsteady = sum(run.steadiness_unknown for run in counted)
    named = [
        ("{}", ", ".join(spec_text.named(*each) for each in beyond_alike([run.spec for run in counted]).items())),
        ("TCP {}", _listed(congestion_control(run) for run in counted if run.spec.udp_share < 1)),
        ("{} s each", " or ".join(f"{each:g}" for each in seconds)),
        ("{} CPUs", facts_of(runs)["cpus"]),
        ("{} hosts that share a kernel", _listed(run.namespace_hosts or "" for run in counted)),
        ("{}", _listed(f"{driver} ({KERNEL.get(path, path)})" for driver, path in datapaths if path)),
        (f"steadiness unknown of {{}} of {len(counted)} runs", str(unsteady or "")),
    ]
    return ", ".join(form.format(value) for form, value in named if value not in ("", "not recorded"))


def write_atomically(path: Path, content: bytes, *, remedy: str = "PAIRLAB_OUT names another one") -> Path:
    """Writes the file whole or not at all. Raises StoreError with the remedy where it cannot be written."""
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        with unfinished.open("xb") as file:  # who may read it is the umask's to say
            draft = unfinished
            file.write(content)
        os.replace(draft, path)
    except OSError as error:
        if draft:
            draft.unlink(missing_ok=True)
        raise StoreError(
            f"{path} could not be written: {error.strerror or error}. Make room or make the folder writable; {remedy}"
        ) from error
    return path
