"""Endpoints on other machines, each a sandbox there that comes over ssh and ends with the connection."""

import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed import registry
from pairlab.testbed.contracts import Layout, NetworkDriver
from pairlab.testbed.netns.backend import missing_flowgen
from pairlab.testbed.netns.sandbox import import_path
from pairlab.testbed.own_kernels import HERE
from pairlab.testbed.own_kernels.site import OwnKernels, OwnKernelsSite
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_programs
from pairlab.testbed.ssh import inventory, text_of
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
        return [lack for machine in self._looked() for lack in machine["missing"].get(import_path(driver), ())]

    def missing_programs(
        self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None
    ) -> list[MissingRequirement]:
        return [
            MissingRequirement(
                f"{machine['machine']} has no {program.command}", f"sudo apt-get install {program.package} there"
            )
            for machine in self._looked()
            for program in programs
            if program.command in machine["absent"]
        ]

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        known = len(inventory.machines())
        few = MissingRequirement(f"{inventory.file()} has {known}", "name more there, or take fewer hosts")
        return super().missing_for(layout) | {f"{len(layout.hosts)} hosts": [few] if known < len(layout.hosts) else []}

    def version(self) -> str:
        """What the machines are: where one is another, or has another kernel, it is another environment."""
        known = self._looked() if self.is_set_up() else []
        return ", ".join(f"{each['machine']} (Linux {each['kernel']}, {each['cpus']} CPUs)" for each in known)

    def tool_version(self, command: Sequence[str], driver: type[NetworkDriver]) -> str:
        return ""  # known once the hosts are up

    def _looked(self) -> list[dict[str, Any]]:
        """What each of the machines is and lacks; all of the inventory, where it is not known how many are used."""
        return looked_at(inventory.machines()[: self.hosts or None])


#: What each machine is and lacks, of all that plugins may need (SshHosts.look): as it was when first asked.
_known: dict[Machine, dict[str, Any]] = {}


def looked_at(machines: Sequence[Machine]) -> list[dict[str, Any]]:
    """What these machines are and lack; those that are not known yet are asked, all at once."""
    if new := [each for each in machines if each not in _known]:
        drivers = [registry.drivers.get(name) for name in registry.drivers.names()]
        programs = [*(each.programs for each in drivers)]
        programs += [registry.workloads.get(name).programs for name in registry.workloads.names()]
        commands = sorted({program.command for each in programs for program in each})
        own = [import_path(each) for each in drivers if Ssh.name not in each.absent_in]
        own = [each for each in own if each.startswith("pairlab.")]
        found = Ssh.ask("look", [each.name for each in new], commands, own)
        _known.update(zip(new, found, strict=True))
    return [_known[each] for each in machines]
