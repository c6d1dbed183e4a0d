"""The process that connects to machines over ssh, and speaks for them; with it, the hosts there end."""

import functools
import hashlib
import io
import platform
import shlex
import socket
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.base.environment import boot_id
from pairlab.base.study_file import import_plugin
from pairlab.errors import TestbedError
from pairlab.testbed.cleanup.child_processes import killed_with_parent
from pairlab.testbed.endpoints import HostPlan, Limits
from pairlab.testbed.netns import agent, protocol
from pairlab.testbed.own_kernels.hosts import Host, Hosts
from pairlab.testbed.ssh import BEATS_EVERY_S, CARRIED, SILENT_S
from pairlab.testbed.ssh.inventory import Machine, machines
from pairlab.testbed.ssh.pump import Pump

#: Besides what the user's own configuration says. Nothing is asked for, and no unknown machine is trusted.
_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ClearAllForwardings": "yes",
    "ServerAliveInterval": int(BEATS_EVERY_S),
    "ServerAliveCountMax": int(SILENT_S / BEATS_EVERY_S),
}
_SIZES = struct.Struct("!QQ")
#: The first words there: takes two files into memory, checks them, and hands over to the keeper, which is in the first.
_FIRST = f"""
import hashlib, os, struct, sys
if sys.version_info < (3, 11):
    sys.exit(f"this Python is {{sys.version.split()[0]}}, and 3.11 is needed: name another one in hosts.yaml")
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit("the connection ended at its beginning")
        data += part
    return data
files = []
for size in struct.unpack("!QQ", take({_SIZES.size})):
    data = take(size)
    if hashlib.sha256(data).digest() != take(32):
        sys.exit("what came is not what was sent")
    files.append(os.memfd_create("pairlab", 0))
    os.truncate(files[-1], 0)
    view = memoryview(data)
    while view:
        view = view[os.write(files[-1], view):]
sys.path.insert(0, f"/proc/self/fd/{{files[0]}}")
from pairlab.testbed.ssh.keeper import main
main(*files, *sys.argv[1:])
"""


class SshHost(Host):
    """A machine, of the inventory. payload: what it is sent first. alone: whether there are no other hosts."""

    begins_within_s = 60.0

    def __init__(self, plan: HostPlan, machine: Machine, directory: Path, payload: bytes, caller: int, *, alone: bool):
        self.machine = machine
        self.machine_facts: dict[str, Any] = {}
        words = [machine.python, "-c", _FIRST, "" if alone else machine.interface, boot_id()]
        command = f"exec {shlex.join(['sudo', '-n', *words] if machine.sudo else words)}"
        options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
        log = directory / f"{plan.name}.log"
        ours, theirs = socket.socketpair()
        with theirs, log.open("wb") as said:
            process = subprocess.Popen(
                killed_with_parent(["ssh", "-T", *options, *machine.options, machine.ssh, command]),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=said,
            )
        pairs = [socket.socketpair() for _ in CARRIED]
        self._stream = ours
        Pump(ours.fileno(), ours.fileno(), [carried for _, carried in pairs], payload).start()
        self._carried = [carried for _, carried in pairs]
        line, relayed, self._keeper = (Connection(used.detach()) for used, _ in pairs)
        super().__init__(plan, process, log, line, relayed, directory / "control", caller)

    @property
    def name(self) -> str:
        return self.machine.name

    def described(self) -> dict[str, Any]:
        return {**super().described(), "machine": self.machine.name, **self.machine_facts}

    def await_begin(self) -> None:
        super().await_begin()
        self.machine_facts = self.ask_keeper("machine_facts")
        if (there := self.machine_facts["architecture"]) != (here := platform.machine()):
            raise TestbedError(f"{self.name} is {there}, and flowgen is built for {here}: measure from such a machine")

    def ask_keeper(self, name: str, *arguments: Any) -> Any:
        """Calls what runs there outside of the sandbox."""
        try:
            protocol.send(self._keeper, (name, arguments))
            return protocol.result(self._keeper, whose=f"{self.name}: ")
        except (EOFError, OSError):
            raise TestbedError(self._how_its_agent_ended()) from None


class SshHosts(Hosts):
    """What can be called from outside, by the names that an agent has for it."""

    def _begin(self, hosts: Sequence[HostPlan], driver: str) -> dict[str, Any]:
        self._driver = driver
        for host, machine in zip(hosts, machines(), strict=False):
            self._hosts.append(
                SshHost(host, machine, self._directory, self._payload, self._caller, alone=len(hosts) == 1)
            )
        return {"uplink": "macvlan"} if len(hosts) > 1 else {}

    _driver = ""

    @functools.cached_property
    def _payload(self) -> bytes:
        """pairlab's modules and the driver's, and flowgen, each with its hash."""
        parts = [archive_of(self._driver), paths.flowgen().read_bytes()]
        sizes = _SIZES.pack(*map(len, parts))
        return sizes + b"".join(part + hashlib.sha256(part).digest() for part in parts)

    @property
    def _machines(self) -> list[SshHost]:
        return [each for each in self._hosts if isinstance(each, SshHost)]

    def put(self, files: Mapping[str, Sequence[Any]]) -> None:
        """Writes these files on each host: by name, text and mode."""
        self._call_each("put", ([files] for _ in self._hosts))

    def texts(self, names: Sequence[str]) -> dict[str, str]:
        """What these files have by now, on the host that has written most to each."""
        found: dict[str, str] = {}
        for each in self._call_each("texts", ([list(names)] for _ in self._hosts)):
            found |= {name: text for name, text in each.items() if len(text) >= len(found.get(name, ""))}
        return found

    def files(self, names: Sequence[str]) -> dict[str, str]:
        """These files, each from the host that has it, packed."""
        return {
            name: packed
            for each in self._call_each("files", ([list(names)] for _ in self._hosts))
            for name, packed in each.items()
        }

    def conditions(self) -> dict[str, str]:
        """The settings of all machines, each with its machine's name."""
        return {
            f"{each.name}: {name}": value
            for each in self._machines
            for name, value in each.ask_keeper("conditions").items()
        }

    def limit(self, limits: Mapping[str, Limits]) -> dict[str, str]:
        """Makes control groups of the machines for these endpoints; returns the folder of each that has one."""
        folders: dict[str, str] = {}
        for each, own in zip(self._machines, self._by_host(limits.items(), itemgetter(0)), strict=True):
            folders |= each.ask_keeper("limit", dict(own))
        return folders

    def limits_in_force(self) -> dict[str, dict[str, float]]:
        """What the control groups say, as Site.limits_in_force."""
        return {name: limits for each in self._machines for name, limits in each.ask_keeper("limits_in_force").items()}

    def begin_load(self, lasts_s: float) -> None:
        for each in self._machines:
            each.ask_keeper("begin_load", lasts_s)

    def end_load(self) -> list[dict[str, float | None]]:
        return [each.ask_keeper("end_load") for each in self._machines]

    def look(self, names: Sequence[str], commands: Sequence[str], drivers: Sequence[str]) -> list[dict[str, Any]]:
        """What each of these machines is and lacks: which of these commands, and of what these drivers need."""
        for index, machine in enumerate(each for each in machines() if each.name in names):
            plan = HostPlan(index)
            self._hosts.append(SshHost(plan, machine, self._directory, self._payload, self._caller, alone=False))
        for each in self._hosts:
            each.await_begin()
        lacking = self._call_each("missing_for_drivers", ([list(drivers)] for _ in self._hosts))
        absent = self._call_each("absent", ([list(commands)] for _ in self._hosts))
        return [
            {
                **host.described(),
                "absent": commands,
                "missing": needs,
                "missing_limits": host.ask_keeper("missing_limits"),
            }
            for host, commands, needs in zip(self._machines, absent, lacking, strict=True)
        ]


@functools.cache
def archive_of(driver: str) -> bytes:
    """A zip file of all modules that a host may need: pairlab's, pyroute2's, and those of the driver's package."""
    packages = dict.fromkeys(["pairlab", "pyroute2", *([driver.partition(".")[0].partition(":")[0]] if driver else [])])
    if driver:
        import_plugin(driver.partition(":")[0])
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for package in packages:
            found = find_spec(package)
            assert found, package
            file = Path(found.origin or "")
            if file.name != "__init__.py":
                archive.write(file, file.name)
                continue
            for each in sorted(file.parent.rglob("*.py")):
                archive.write(each, each.relative_to(file.parents[1]))
    return stream.getvalue()


if __name__ == "__main__":
    agent.main(SshHosts)
