"""The first process in a host of user-mode Linux: sets up the system, and answers our calls over a serial line.

It ends with its kernel.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tty
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.testbed.endpoints import UPLINK
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.netns import protocol
from pairlab.testbed.netns.agent import serve
from pairlab.testbed.own_kernels import HERE, TO_US
from pairlab.testbed.own_kernels.guest import Guest
from pairlab.testbed.own_kernels.relay import Inner
from pairlab.testbed.uml import VECTOR

#: Set the name of a link (netdevice(7)).
_SIOCSIFNAME = 0x8923
#: By default a kernel takes the last from the memory that is free as it boots, which is never twice the same: no runs
#: would be comparable. These are what it takes on a machine with plenty (tcp(7)).
_TCP_MEMORY = {"tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304"}
_WRITABLE = ("/run", "/tmp", "/dev/shm")
_libc = ctypes.CDLL(None, use_errno=True)


class UmlGuest(Guest):
    """What can be called in such a host."""

    kernel = "the kernel of user-mode Linux"

    def call_in_file(self, file: str) -> Any:
        """Answers the call in that file of the machine's, too long for the serial line (MOST_UNREAD_BYTES)."""
        name, arguments = protocol.decoded(Path(file).read_bytes(), protocol.OF_CALLS)
        return getattr(self, name)(*arguments)

    def _make_uplink(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, _SIOCSIFNAME, struct.pack("16s16s", VECTOR.encode(), UPLINK.encode()))


def main() -> None:
    directory = Path(sys.argv[1])
    _make_system(directory)
    lines = [os.open(f"/dev/ttyS{number}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC) for number in (0, 1)]
    for line in lines:
        tty.setraw(line)
    Inner(Connection(lines[1]), HERE / "control").start()
    connection = Connection(lines[0])
    connection.send_bytes(TO_US)
    files = HERE / "files"  # not in the directory: sockets have to be this kernel's
    files.mkdir()
    serve(connection, UmlGuest(files, connection.fileno()))


def _make_system(directory: Path) -> None:
    """Mounts what a system has, and lets the kernel load modules. Of the machine's /tmp, only what is used is there."""
    used = [str(directory), sys.prefix, *sys.path, os.environ.get("PAIRLAB_FLOWGEN", "")]
    shared = sorted({os.path.join("/tmp", each.split("/")[2]) for each in used if each.startswith("/tmp/")})
    mounts = [("/proc", "proc", ""), ("/sys", "sysfs", ""), *((place, "tmpfs", "") for place in _WRITABLE)]
    mounts += [(place, "hostfs", place) for place in shared]
    for place, kind, data in mounts:
        os.makedirs(place, exist_ok=True)
        if _libc.mount(kind.encode(), place.encode(), kind.encode(), 0, data.encode() or None):
            code = ctypes.get_errno()
            raise OSError(code, f"{kind} could not be mounted at {place}: {os.strerror(code)}")
    os.environ["TMPDIR"] = "/tmp"  # the machine's may be a folder that is not here
    HERE.mkdir()
    Path("/proc/sys/kernel/modprobe").write_text(str(directory / "modprobe"))
    # As on any machine; where a tunnel asks for it first, the kernel waits for itself, with the lock of its links held.
    subprocess.run([str(directory / "modprobe"), "ipv6"], check=True)
    for name, values in _TCP_MEMORY.items():  # namespaces that are made later have the same
        Path("/proc/sys/net/ipv4", name).write_text(values)
    Path("/proc/sys/kernel/hostname").write_text(directory.name)
    rtnetlink.ask(rtnetlink.up(rtnetlink.LOOPBACK))


if __name__ == "__main__":
    main()
