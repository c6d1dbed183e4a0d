"""Endpoints on other machines, each a sandbox there that comes over ssh and ends with the connection."""

import math
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.errors import TestbedError
from pairlab.testbed import capture, registry
from pairlab.testbed.contracts import Layout, NetworkDriver
from pairlab.testbed.environment import BELIEVED_S
from pairlab.testbed.netns.backend import missing_flowgen
from pairlab.testbed.netns.sandbox import import_path
from pairlab.testbed.own_kernels import HERE
from pairlab.testbed.own_kernels.site import OwnKernels, OwnKernelsSite
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_programs
from pairlab.testbed.ssh import inventory, text_of, unpacked
from pairlab.testbed.ssh.inventory import Machine

#: Files in the working directory that are not for endpoints; and the most that one may have, in bytes.
_OURS, MOST_BYTES = (".out", ".err", ".log"), 16 * 2**20
SSH = Program("ssh", "openssh-client")


class SshSite(OwnKernelsSite):
    """Endpoints on machines over ssh."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._here = Path(self.directory)
        self._sent: dict[str, float] = {}
        self.flowgen, self.directory = str(HERE / "flowgen"), str(HERE)
        kernels = [each["boot_id"] for each in self._facts["kernels"]]
        # Names of one machine are two hosts of one kernel, whatever the inventory calls them.
        self._facts["host_kind"] = "machine" if len({*kernels}) == len(kernels) else "namespace"
        self._facts[Ssh.name] = _version_of(self._facts["kernels"])
        for machine, boot_id in zip(inventory.machines(), kernels, strict=False):
            if machine in _known and _known[machine].facts["boot_id"] != boot_id:  # started anew, and maybe updated
                del _known[machine]
        self._groups = self.sandbox.call("limit", self.layout.limits) if self.layout.limits else {}

    def limits_in_force(self) -> Mapping[str, Mapping[str, float]]:
        return self.sandbox.call("limits_in_force") if self._groups else {}

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        """As NetnsSite.spawn; what workloads have written to the working directory is there, too."""
        written = {each.name: each for each in self._here.iterdir() if each.is_file() and each.suffix not in _OURS}
        new = {name: file for name, file in written.items() if self._sent.get(name) != file.stat().st_mtime}
        if large := [name for name, file in new.items() if file.stat().st_size > MOST_BYTES]:
            raise TestbedError(f"{large[0]} is too large to be sent to each machine: take another workload")
        if new:
            self.sandbox.call("put", {name: [text_of(file), file.stat().st_mode] for name, file in new.items()})
            self._sent |= {name: file.stat().st_mtime for name, file in new.items()}
        super().spawn(calls)

    def fetch(self, slots: Sequence[str], directory: Path) -> None:
        """Also what processes have written to files that they were given for it."""
        given = [name for name in self._sent if (self._here / name).stat().st_mode & stat.S_IWOTH]
        names = [f"{slot}.{kind}" for slot in slots for kind in ("out", "err")]
        for name, text in self.sandbox.call("texts", [*names, *given]).items():
            (directory / name).write_text(text, encoding="utf-8", errors="surrogateescape")

    def fetch_files(self, names: Sequence[str], directory: Path) -> None:
        there = self.sandbox.call("files", list(names))
        for name in {*names} & there.keys():
            (directory / name).write_bytes(unpacked(there[name], capture.MOST_BYTES))

    def conditions(self) -> dict[str, str]:
        return self.sandbox.call("conditions")

    def begin_load(self, lasts_s: float) -> None:
        self.sandbox.call("begin_load", lasts_s)

    def end_load(self) -> list[dict[str, float | None]]:
        return self.sandbox.call("end_load")


class Ssh(OwnKernels):
    """Machines of the study's hosts.yaml; the first as many as the spec has hosts."""

    name = "ssh"
    summary = "network namespaces on other machines, over ssh; needs root there"
    host_kind = "machine"
    called = "machines over ssh"
    agent = "pairlab.testbed.ssh.hosts"
    confined = False
    site = SshSite

    @classmethod
    def is_set_up(cls) -> bool:
        return bool(inventory.machines())

    def missing(self) -> list[MissingRequirement]:
        found = [*missing_programs([SSH]), *filter(None, [missing_flowgen()])]
        if not self.is_set_up():
            file = inventory.file()
            found += lacking(f"{file} names no machine", "write it: docs/how-to/several-machines.md has one")
        return found

    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        return self._missing_there(lambda machine: machine["missing"].get(import_path(driver), ()))

    def missing_programs(
        self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None
    ) -> list[MissingRequirement]:
        needed = [*programs]
        return self._missing_there(
            lambda machine: [
                MissingRequirement(
                    f"{machine['machine']} has no {program.command}", f"sudo apt-get install {program.package} there"
                )
                for program in needed
                if program.command in machine["absent"]
            ]
        )

    def missing_capture(self) -> list[MissingRequirement]:
        return self.missing_programs([capture.TCPDUMP])

    def _missing_there(
        self, missing_on: Callable[[Mapping[str, Any]], Iterable[MissingRequirement]]
    ) -> list[MissingRequirement]:
        """What any of the machines lacks, which is soon asked again: it may have been installed."""
        for believed_s in (math.inf, BELIEVED_S):
            missing = [each for machine in self._looked(believed_s) for each in missing_on(machine)]
            if not missing:
                break
        return missing

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        known = len(inventory.machines())
        few = MissingRequirement(f"{inventory.file()} has {known}", "name more there, or take fewer hosts")
        return super().missing_for(layout) | {f"{len(layout.hosts)} hosts": [few] if known < len(layout.hosts) else []}

    def _missing_limits(self, layout: Layout) -> list[MissingRequirement]:
        """Of limits of CPU time, and of CPUs by their numbers."""
        limits = layout.limits.values()
        last = max((cpu for each in limits for cpu in each.cpus or ()), default=0)
        is_timed = any(each.cpu_quota or each.cpu_shares for each in limits)

        def missing(machine: Mapping[str, Any]) -> list[MissingRequirement]:
            name, cpus = machine["machine"], machine["cpus"]
            few = lacking(f"{name} has {cpus} CPUs, and no CPU {last}", "take fewer cores") if last >= cpus else []
            lacks = machine["missing_limits"] if is_timed else []
            return few + [MissingRequirement(f"{name}: {each.what}", each.remedy) for each in lacks]

        return self._missing_there(missing) if limits else []

    def version(self) -> str:
        """What the machines are: where one is another, or has another kernel, it is another environment."""
        return _version_of(self._looked() if self.is_set_up() else [])

    def tool_version(self, command: Sequence[str], driver: type[NetworkDriver]) -> str:
        return ""  # known once the hosts are up

    def _looked(self, believed_s: float = math.inf) -> list[dict[str, Any]]:
        """What each of the machines is and lacks; all of the inventory, where it is not known how many are used."""
        return looked_at(inventory.machines()[: self.hosts or None], believed_s)


def _version_of(machines: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['machine']} (Linux {each['kernel']}, {each['cpus']} CPUs)" for each in machines)


class _Look(NamedTuple):
    """What a machine is and lacks, of all that plugins may need (SshHosts.look), as it was at that time."""

    facts: dict[str, Any]
    at_s: float


_known: dict[Machine, _Look] = {}


def looked_at(machines: Sequence[Machine], believed_s: float = math.inf) -> list[dict[str, Any]]:
    """What these machines are and lack; those of which nothing is known that is so new are asked, all at once."""
    now_s = time.monotonic()
    if new := [each for each in machines if each not in _known or now_s - _known[each].at_s > believed_s]:
        drivers = [registry.drivers.get(name) for name in registry.drivers.names()]
        programs = [(capture.TCPDUMP,), *(each.programs for each in drivers)]
        programs += [registry.workloads.get(name).programs for name in registry.workloads.names()]
        commands = sorted({program.command for each in programs for program in each})
        own = [import_path(each) for each in drivers if Ssh.name not in each.absent_in]
        own = [each for each in own if each.startswith("pairlab.")]
        found = Ssh.ask("look", [each.name for each in new], commands, own)
        _known.update((machine, _Look(facts, now_s)) for machine, facts in zip(new, found, strict=True))
    return [_known[each].facts for each in machines]
