"""Endpoints on other machines, each a sandbox there that comes over ssh and ends with the connection."""

import contextlib
import functools
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed import registry
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.contracts import Layout, NetworkDriver, Progress, Site
from pairlab.testbed.netns.backend import build, missing_flowgen
from pairlab.testbed.netns.sandbox import Sandbox, import_path
from pairlab.testbed.own_kernels import HERE
from pairlab.testbed.own_kernels.site import OwnKernels, OwnKernelsSite
from pairlab.testbed.requirements import MissingRequirement, Program, missing_programs
from pairlab.testbed.ssh import inventory, text_of

#: Files in the working directory that are not for endpoints; and the most that one may have, in bytes.
_OURS, MOST_BYTES = (".out", ".err", ".log"), 16 * 2**20
AGENT = "pairlab.testbed.ssh.hosts"
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

    def begin_load(self) -> None:
        self.sandbox.call("begin_load")

    def end_load(self) -> list[dict[str, float | None]]:
        return self.sandbox.call("end_load")


class Ssh(OwnKernels):
    """Machines of the study's hosts.yaml; the first as many as the spec has hosts."""

    name = "ssh"
    summary = "network namespaces on other machines, over ssh; needs root there"
    host_kind = "machine"
    called = "machines over ssh"

    @classmethod
    def is_set_up(cls) -> bool:
        return bool(inventory.machines())

    def missing(self) -> list[MissingRequirement]:
        found = [*missing_programs([SSH]), *filter(None, [missing_flowgen()])]
        if not self.is_set_up():
            file = inventory.file()
            found.append(
                MissingRequirement(f"{file} names no machine", "write it: docs/how-to/several-machines.md has one")
            )
        return found

    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        return [lack for machine in _looked() for lack in machine["missing"].get(import_path(driver), ())]

    def missing_programs(
        self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None
    ) -> list[MissingRequirement]:
        return [
            MissingRequirement(
                f"{machine['machine']} has no {program.command}", f"sudo apt-get install {program.package} there"
            )
            for machine in _looked()
            for program in programs
            if program.command in machine["absent"]
        ]

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        known = len(inventory.machines())
        few = MissingRequirement(f"{inventory.file()} has {known}", "name more there, or take fewer hosts")
        return super().missing_for(layout) | {f"{len(layout.hosts)} hosts": [few] if known < len(layout.hosts) else []}

    def version(self) -> str:
        """What the machines are: where one is another, or has another kernel, it is another environment."""
        known = _looked() if self.is_set_up() else []
        return ", ".join(f"{each['machine']} (Linux {each['kernel']}, {each['cpus']} CPUs)" for each in known)

    def tool_version(self, command: Sequence[str], driver: type[NetworkDriver]) -> str:
        return ""  # known once the hosts are up

    @contextlib.contextmanager
    def open(self, layout: Layout, directory: Path, progress: Progress) -> Iterator[Site]:
        directory.chmod(0o700)
        with Sandbox(directory, agent=AGENT, confined=False) as running:
            facts = build(running, layout, progress) | {self.name: self.version()}
            yield SshSite(layout, facts, running, directory, {})
            running.check()


@functools.cache
def _looked() -> list[dict[str, Any]]:
    """What each machine of the inventory is and lacks, of all that plugins may need: SshHosts.look."""
    commands = {
        each.command
        for kinds in (registry.workloads, registry.drivers)
        for name in kinds.names()
        for each in kinds.get(name).programs
    }
    drivers = [registry.drivers.get(name) for name in registry.drivers.names()]
    own = [import_path(each) for each in drivers if Ssh.name not in each.absent_in]
    with working_directory() as directory, Sandbox(directory, agent=AGENT, confined=False) as running:
        return running.call("look", sorted(commands), [each for each in own if each.startswith("pairlab.")])
