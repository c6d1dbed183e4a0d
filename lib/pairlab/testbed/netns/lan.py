"""SandboxLan: links and namespaces of one testbed, through netlink, from inside its sandbox."""

import errno
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.contracts import Lan
from pairlab.testbed.netns.namespaces import inside


class SandboxLan(Lan):
    """namespaces: a file descriptor by endpoint name."""

    def __init__(self, namespaces: Mapping[str, int], directory: Path):
        self.namespaces = namespaces
        self.directory = directory
        self._ipr = IPRoute()
        self._ipr.link("set", index=1, state="up")

    def add_link(self, name, kind, **attributes):
        self._add(name, kind, **attributes)
        return self.set_up(name)

    def _add(self, name: str, kind: str, **attributes) -> None:
        try:
            self._ipr.link("add", ifname=name, kind=kind, **attributes)
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                raise Unavailable(f"this kernel has no {kind} links: load its module, or take another driver") from None
            raise TestbedError(f"link {name} ({kind}) could not be made: {error}") from error

    def set_up(self, name):
        index = socket.if_nametoindex(name)
        self._ipr.link("set", index=index, state="up")
        return index

    def add_veth(self, endpoint, **attributes):
        peer = {"ifname": "eth0", "net_ns_fd": self._path(endpoint)}
        self._add(endpoint.name, "veth", state="up", peer=peer, **attributes)
        return endpoint.name

    def add_eth0(self, endpoint, kind, **attributes):
        self._add("eth0", kind, net_ns_fd=self._path(endpoint), **attributes)

    def add_cable(self, one, other):
        self.add_eth0(one, "veth", peer={"ifname": "eth0", "net_ns_fd": self._path(other)})

    def configure(self, endpoint):
        """Sets the endpoint's address, and its loopback and eth0 up."""
        with inside(self.namespaces[endpoint.name]), IPRoute() as ipr:
            index = socket.if_nametoindex("eth0")
            ipr.addr("add", index=index, address=endpoint.address, prefixlen=endpoint.prefix)
            ipr.link("set", index=index, state="up")
            ipr.link("set", index=1, state="up")

    def run(self, argv, timeout_s=20.0):
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TestbedError(f"{argv[0]} did not run: {error}") from error
        if done.returncode:
            output = (done.stderr or done.stdout).strip()
            raise TestbedError(f"{' '.join(argv)} ended with {done.returncode}: {output}")
        return done.stdout

    def has_kind(self, kind: str) -> bool:
        """Whether the kernel can make links of that kind here: by trying, where it may well lack a parent or an id."""
        try:
            self._ipr.link("add", ifname="probe", kind=kind)
            self._ipr.link("del", index=socket.if_nametoindex("probe"))
        except NetlinkError as error:
            return error.code != errno.EOPNOTSUPP
        return True

    def _path(self, endpoint) -> str:
        return f"/proc/{os.getpid()}/fd/{self.namespaces[endpoint.name]}"
