"""The runs behind a figure, table or number: every file that leaves an analysis names them."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import pandas as pd

from pairlab import paths
from pairlab.analysis.comparison.cells import named
from pairlab.analysis.selection import SYSTEM, beyond_alike, in_force, usual_value
from pairlab.base.atomic import give_to_owner, make_directory
from pairlab.errors import BadInput, StoreError
from pairlab.model import reasons
from pairlab.model.environment import host_names
from pairlab.model.records import Run
from pairlab.store.dataset import Runs

#: The testbed as the paper describes it: recorded facts (recorded.FACTS) by key.
FACTS = {
    **{name: name for name in ("kernel", "cpus", "virtualization", "datapath")},
    "cpu-model": "cpu_model",
    "memory": "memory_bytes",
}


#: Where packets are switched, by Open vSwitch's names of its datapaths.
_DATAPATHS = {"system": "in the kernel", "netdev": "in user space"}
#: What tells the runs that a figure draws from others of its question.
_DRAWN = (*SYSTEM, "hosts", "placement", "udp_share")

#: An Origin's text, as it stands in a comment or in a figure's metadata.
_STAMP = re.compile(
    rb"made from \d+ runs of [^\n]*?(?:, experiment ([a-z0-9_+-]+))?, measured [^\n]*?, keys ([0-9a-f]{16})"
)


@dataclass(frozen=True)
class Origin:
    """The source of the data of one analysis.

    label names the output folders. folder is relative to the checkout. experiments are the loaded ones (none: all).
    runs is the number that count. first and last are the days (UTC) of measuring. digest is over the keys and times of
    the loaded runs that count: other runs, other digest. conditions: those of measuring, in words.
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
    """The origin of results from `runs`, loaded from `folder` and, if named, of one `sweep`.

    The label is the sweep, else the folder's name. Raises BadInput if neither gives a name for a folder.
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
        folder=paths.from_root(root) if root.is_relative_to(paths.STUDY) else root.name,
        sweep=sweep,
        runs=len(counted),
        first=days[0],
        last=days[-1],
        digest=runs.digest,
        experiments=runs.experiments,
        conditions=conditions(runs),
    )


def what_was_read(runs: Runs) -> str:
    """The number of runs that were read and that count, and the others by reason, regardless of numbers in it.

    A line for each reason, and one for each run that could have counted, but not for skipped ones.
    """
    left_out = [run for run in runs if run.status != "ok"]
    total = len(runs) + len(runs.unread)
    lines = [f"{total} runs read, {len(runs) - len(left_out)} count, {total - len(runs) + len(left_out)} left out"]
    if twins := sum(run.spec.twin for run in runs if run.status == "ok"):
        lines.append(f"  {twins} of those that count are twins, which tell by how much equals differ, and nothing else")
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for run in left_out:
        why = f"{run.status}: {'; '.join(run.reasons) or 'no reason given'}"
        by_reason.setdefault(reasons.same(why), []).append((str(run.spec), why))
    for kind, entries in sorted(by_reason.items()):
        same = len({why for _, why in entries}) == 1
        lines.append(f"  {len(entries)} {entries[0][1] if same else kind}")
        if not kind.startswith("skipped"):
            lines += [f"    {spec}" if same else f"    {spec}: {why}" for spec, why in sorted(entries)]
    lines += [f"  damaged: {why}" for why in runs.damaged]
    lines += [f"  newer: {why}" for why in runs.newer]
    lines += [f"  {why}" for why in (*runs.elsewhere, runs.places) if why]
    return "\n".join(lines)


@dataclass(frozen=True)
class Stamp:
    """The origin in a generated file: the experiments (none: all) and the digest of the runs."""

    experiments: tuple[str, ...]
    digest: str


def stamp_of(file: Path) -> Stamp | None:
    """The stamp in a .tex, .pgf, .pdf or .png that an analysis wrote; None without one."""
    match = _STAMP.search(file.read_bytes())
    if not match:
        return None
    return Stamp(tuple(match[1].decode().split("+")) if match[1] else (), match[2].decode())


def facts_of(runs: Runs) -> dict[str, str]:
    """The recorded facts of the testbed, from the runs that count, by the keys of FACTS; several values are listed.

    congestion-control is the one in force in runs with TCP that do not vary it.
    """
    counted = [run for run in runs if run.status == "ok"]
    controls = [run.spec.congestion_control for run in counted if run.congestion_control]
    usual = usual_value("congestion_control", controls)
    facts = {key: recorded(counted, name) for key, name in FACTS.items()}
    facts["memory"] = {f"{size / 2**30:.1f} GiB" for size in facts["memory"] if size}
    facts["congestion-control"] = {run.congestion_control for run in counted if run.spec.congestion_control == usual}
    return {key: listed(values) for key, values in facts.items()}


def recorded(runs: Iterable[Run], name: str) -> set[Any]:
    """The values of a fact in these runs; None: a run without it."""
    return {run.fact(name) for run in runs}


def listed(values: Iterable[object]) -> str:
    """These values as one text; "not recorded" without any."""
    return ", ".join(sorted({str(value) for value in values} - {"None", ""})) or "not recorded"


def conditions(runs: Iterable[Run], drawn: pd.DataFrame | None = None) -> str:
    """The conditions of the runs that count, as far as they differ between hosts and sweeps, for notes of figures.

    They are the options that all runs share beyond the papers' ones, TCP's congestion control in force, the duration of
    flows without an end, the CPUs, the hosts that are no machines of their own, the backends that were measured on
    different machines, and where a driver's switch is: "ovs in the kernel". drawn: a figure's rows; of the runs only
    those of the same systems, places and protocols.
    """
    counted = [run for run in runs if run.status == "ok"]
    if drawn is not None:
        names = [name for name in _DRAWN if name in drawn]
        rows = {*drawn[names].dropna().itertuples(index=False, name=None)}
        counted = [run for run in counted if tuple(getattr(run.spec, name) for name in names) in rows]
    timed = sorted(
        {(run.spec.duration_s, run.spec.backend) for run in counted if not (run.spec.flows_end or run.spec.launches)}
    )
    datapaths = sorted({(run.spec.driver, in_force(run)["datapath"], run.spec.backend) for run in counted})
    unknown, unsteady = (
        sum(bool(getattr(run, name)) for run in counted) for name in ("steadiness_unknown", "unsteady")
    )
    forms = [
        ("{}", ", ".join(named(*each) for each in beyond_alike([run.spec for run in counted]).items())),
        ("TCP {}", listed(run.congestion_control for run in counted if run.spec.udp_share < 1)),
        ("{} each", " or ".join(_with_backends((f"{seconds:g} s", backend) for seconds, backend in timed))),
        ("{} CPUs", listed(recorded(counted, "cpus"))),
        ("{} hosts that share a kernel", listed(run.hosts_of("namespace") or "" for run in counted)),
        ("{}", "hosts of user-mode Linux" if any(run.hosts_of("uml") for run in counted) else ""),
        ("{}", _different_machines(counted)),
        (
            "{}",
            ", ".join(_with_backends((f"{of} {_DATAPATHS.get(path, path)}", at) for of, path, at in datapaths if path)),
        ),
        (f"steadiness unknown of {{}} of {len(counted)} runs", str(unknown or "")),
        (f"{{}} of {len(counted)} runs unsteady", str(unsteady or "")),
    ]
    return ", ".join(form.format(value) for form, value in forms if value not in ("", "not recorded"))


def _with_backends(words: Iterable[tuple[str, str]]) -> list[str]:
    """Each of these words, of a backend each, once; with its backends where not all words are of the same ones."""
    found: dict[str, list[str]] = {}
    for word, backend in words:
        found.setdefault(word, []).append(backend)
    alike = len({*map(tuple, found.values())}) == 1
    return [word if alike else f"{word} ({', '.join(backends)})" for word, backends in found.items()]


def _different_machines(counted: Sequence[Run]) -> str:
    """The backends by the machine that they were measured on: "docker and netns/uml on different machines"; empty where
    all runs are of one.
    """
    hosts = host_names(run.environment for run in counted)
    backends: dict[str, set[str]] = {}
    for run in counted:
        backends.setdefault(hosts[run.environment], set()).add(run.spec.backend)
    machines = sorted({"/".join(sorted(each)) for each in backends.values()})
    return f"{' and '.join(machines)} on different machines" if len(backends) > 1 else ""


def write_atomically(path: Path, content: bytes, *, remedy: str = "PAIRLAB_OUT names another one") -> Path:
    """Writes the whole file or nothing. Raises StoreError with the remedy if it cannot be written."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        make_directory(path.parent)
        draft.write_bytes(content)  # the umask decides the permissions
        give_to_owner(draft)
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StoreError(
            f"{path} could not be written: {error.strerror or error}. Make room or make the folder writable; {remedy}"
        ) from error
    return path
