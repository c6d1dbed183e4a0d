"""Lan: the links and namespaces of one testbed, seen from inside its sandbox."""

import contextlib
import errno
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.contracts import EndpointPlan
from pairlab.testbed.namespaces import inside


class Lan:
    """The shared network: links in the sandbox's own namespace, and one namespace for each endpoint.

    namespaces: a file descriptor by endpoint name. directory: a place for files, gone with the testbed.
    """

    def __init__(self, namespaces: Mapping[str, int], directory: Path):
        self.namespaces = namespaces
        self.directory = directory
        self._ipr = IPRoute()
        self._ipr.link("set", index=1, state="up")

    def add_link(self, name: str, kind: str, **options) -> int:
        """Makes a link in the sandbox, up; returns its index. Raises Unavailable where the kernel lacks the kind."""
        self._add(name, kind, **options)
        return self.set_up(name)

    def _add(self, name: str, kind: str, **options) -> None:
        try:
            self._ipr.link("add", ifname=name, kind=kind, **options)
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                raise Unavailable(f"this kernel has no {kind} links: load its module, or take another driver") from None
            raise TestbedError(f"link {name} ({kind}) could not be made: {error}") from error

    def set_up(self, name: str) -> int:
        """Brings a link of the sandbox up; returns its index."""
        index = socket.if_nametoindex(name)
        self._ipr.link("set", index=index, state="up")
        return index

    def add_veth(self, endpoint: EndpointPlan, **port) -> str:
        """A veth pair: eth0 in the endpoint's namespace, and here a port of the endpoint's name, up, which it returns.

        port: more attributes of the port, such as master=.
        """
        peer = {"ifname": "eth0", "net_ns_fd": self._path(endpoint)}
        self._add(endpoint.name, "veth", state="up", peer=peer, **port)
        return endpoint.name

    def add_macvlan(self, endpoint: EndpointPlan, parent: int) -> None:
        """A macvlan in bridge mode over the link of that index, as eth0 in the endpoint's namespace."""
        self._add("eth0", "macvlan", link=parent, macvlan_mode="bridge", net_ns_fd=self._path(endpoint))

    def configure(self, endpoint: EndpointPlan) -> None:
        """Sets the endpoint's address, and its loopback and eth0 up."""
        with inside(self.namespaces[endpoint.name]), IPRoute() as ipr:
            index = socket.if_nametoindex("eth0")
            ipr.addr("add", index=index, address=endpoint.address, prefixlen=endpoint.prefix)
            ipr.link("set", index=index, state="up")
            ipr.link("set", index=1, state="up")

    def run(self, argv: list[str], timeout_s: float = 20.0) -> str:
        """Runs a program in the sandbox; returns its output. Raises TestbedError with what it said where it fails."""
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TestbedError(f"{argv[0]} did not run: {error}") from error
        if done.returncode:
            told = (done.stderr or done.stdout).strip()
            raise TestbedError(f"{' '.join(argv)} ended with {done.returncode}: {told}")
        return done.stdout

    def knows(self, kind: str) -> bool:
        """Whether the kernel can make links of that kind here: tried, not looked up."""
        options = {"peer": "probe1"} if kind == "veth" else {}
        if kind == "macvlan":
            self._ipr.link("add", ifname="probe0", kind="veth", peer="probe1")
            options = {"link": socket.if_nametoindex("probe0"), "macvlan_mode": "bridge"}
        name = f"try{kind}"
        try:
            self._ipr.link("add", ifname=name, kind=kind, **options)
            return True
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                return False
            raise
        finally:
            for left in (name, "probe0"):
                with contextlib.suppress(OSError):
                    self._ipr.link("del", index=socket.if_nametoindex(left))

    def _path(self, endpoint: EndpointPlan) -> str:
        return f"/proc/{os.getpid()}/fd/{self.namespaces[endpoint.name]}"
