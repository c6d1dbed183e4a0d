"""SandboxLan: links and namespaces of one testbed, through netlink, from inside its sandbox."""

import array
import contextlib
import errno
import fcntl
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.contracts import Lan
from pairlab.testbed.endpoints import HostPlan, mac_of
from pairlab.testbed.launch.daemons import Daemon
from pairlab.testbed.netns import rtnetlink
from pairlab.testbed.netns.namespaces import inside

#: How often routes are looked at while they are awaited.
_LOOK_EVERY_S = 0.05
#: How long carriers are awaited once both ends of links are up, and how often they are looked at.
_CARRIER_S, _CARRIER_LOOK_EVERY_S = 1.0, 0.001
#: Of ethtool(8): the request to a link, and what it sets, checksumming of what is sent (linux/sockios.h, ethtool.h).
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raises TestbedError, naming what, where the kernel refuses it."""
    try:
        yield
    except OSError as error:
        raise TestbedError(f"{what} could not be made: {error}") from error


def _add_by_pyroute2(name: str, kind: str, attributes: dict[str, Any]) -> None:
    """Makes a link with attributes that rtnetlink does not know. Raises OSError where the kernel refuses it."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as ipr:
        try:
            ipr.link("add", ifname=name, kind=kind, **attributes)
        except NetlinkError as error:
            raise OSError(error.code, os.strerror(error.code)) from error


class SandboxLan(Lan):
    """namespaces: a file descriptor by endpoint name. mtu_bytes: of all its links; 0: the kernel's default.

    host, others: this host and those beside it. own: the descriptor of its namespace; None: it is the sandbox's own.
    caller: a descriptor that can be read when nobody waits for the testbed any more.
    """

    def __init__(
        self,
        namespaces: Mapping[str, int],
        directory: Path,
        mtu_bytes: int = 0,
        host: HostPlan | None = None,
        others: Sequence[HostPlan] = (),
        own: int | None = None,
        caller: int | None = None,
    ):
        self.namespaces = namespaces
        self.directory = directory
        self.host = host or HostPlan()
        self.others = others
        self.gateway_link = ""
        """The bridge that has the host's address in its subnet, where the driver made one."""
        self.own = own
        self._caller = caller
        self._mtu = {"mtu": mtu_bytes} if mtu_bytes else {}
        with self.entered():
            rtnetlink.ask(rtnetlink.up(rtnetlink.LOOPBACK))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Runs the block in the host's namespace, as the driver's code does."""
        with contextlib.nullcontext() if self.own is None else inside(self.own):
            yield

    def add_link(self, name, kind, **attributes):
        self._add(name, kind, **attributes)
        return self.set_up(name)

    def _add(self, name: str, kind: str, *, up: bool = False, **attributes) -> None:
        attributes = self._with_mtu(attributes)
        try:
            if rtnetlink.knows(kind, attributes):
                rtnetlink.ask(rtnetlink.link(name, kind, up=up, **attributes))
            else:
                _add_by_pyroute2(name, kind, {**attributes, **({"state": "up"} if up else {})})
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                raise Unavailable(f"this kernel has no {kind} links: load its module, or take another driver") from None
            raise TestbedError(f"link {name} ({kind}) could not be made: {error}") from error

    def _with_mtu(self, attributes: dict) -> dict:
        """The link's attributes, with the MTU at both of its ends."""
        peer = attributes.get("peer")
        both = {"peer": {**({"ifname": peer} if isinstance(peer, str) else peer), **self._mtu}} if peer else {}
        return {**attributes, **both, **self._mtu}

    def set_up(self, name):
        index = socket.if_nametoindex(name)
        rtnetlink.ask(rtnetlink.up(index))
        return index

    def add_gateway(self, name):
        self.gateway_link = name
        return super().add_gateway(name)

    def adopt_gateway(self) -> None:
        """Takes the link that has the host's address in its subnet, which another has made, for its gateway.

        It gets the hardware address that endpoints have for it.
        """
        from pyroute2 import IPRoute

        with IPRoute() as ipr:
            (index,) = (each["index"] for each in ipr.get_addr(address=self.host.gateway))
        rtnetlink.ask(rtnetlink.hardware_address(index, mac_of(self.host.gateway)))
        self.gateway_link = socket.if_indextoname(index)

    def add_address(self, link, address, prefix):
        with _refused(f"address {address}"):
            rtnetlink.ask(rtnetlink.address(link, address, prefix))

    def add_route(self, destination, *, link=0, gateway=""):
        with _refused(f"route to {destination}"):
            rtnetlink.ask(rtnetlink.route(destination, index=link, gateway=gateway))

    def add_forwarding(self, link, mac, host):
        with _refused(f"forwarding of {mac} to {host}"):
            rtnetlink.ask(rtnetlink.forwarding(link, mac, host), rtnetlink.bridge_port(link, mac))

    def await_routes(self, destinations, timeout_s):
        deadline = time.monotonic() + timeout_s
        while missing := set(destinations) - self._destinations():
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"{self.host.name} has no route to {len(missing)} networks after {timeout_s:g} s, the first:"
                    f" {min(missing)}"
                )
            time.sleep(_LOOK_EVERY_S)

    def _destinations(self) -> set[str]:
        from pyroute2 import IPRoute

        with IPRoute() as ipr:
            routes = ipr.get_routes(family=socket.AF_INET)
        return {f"{each.get_attr('RTA_DST')}/{each['dst_len']}" for each in routes}

    def add_veth(self, endpoint, **attributes):
        self._add(endpoint.name, "veth", up=True, peer=self._eth0(endpoint), **attributes)
        return endpoint.name

    def turn_off_checksumming(self, endpoint):
        with inside(self.namespaces[endpoint.name]), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            setting = array.array("I", [_ETHTOOL_STXCSUM, 0])
            request = struct.pack("16sP", b"eth0", setting.buffer_info()[0])
            try:
                fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
            except OSError as error:
                raise TestbedError(f"eth0 of {endpoint.name} keeps tx checksumming: {error}") from error

    def add_netkit(self, endpoint, **attributes):
        attributes = {"netkit_mode": rtnetlink.NETKIT_L2, **attributes}
        self._add(endpoint.name, "netkit", up=True, peer=self._eth0(endpoint), **attributes)
        return endpoint.name

    def _eth0(self, endpoint) -> dict:
        """The endpoint's end of a pair of links."""
        return {"ifname": "eth0", "net_ns_fd": self.namespaces[endpoint.name], "address": endpoint.mac}

    def add_eth0(self, endpoint, kind, **attributes):
        self._add("eth0", kind, net_ns_fd=self.namespaces[endpoint.name], **attributes)

    def add_cable(self, one, other):
        self.add_eth0(one, "veth", peer={"ifname": "eth0", "net_ns_fd": self.namespaces[other.name]})

    def configure(self, endpoint, *, has_link: bool):
        """Sets the endpoint's loopback up, and where it has a link its address, eth0 and the route by its gateway."""
        wanted = [rtnetlink.up(rtnetlink.LOOPBACK)]
        with inside(self.namespaces[endpoint.name]), _refused(f"address {endpoint.address} of {endpoint.name}"):
            if has_link:
                eth0 = socket.if_nametoindex("eth0")
                wanted += [rtnetlink.address(eth0, endpoint.address, endpoint.prefix), rtnetlink.up(eth0)]
            if has_link and endpoint.gateway:
                wanted.append(rtnetlink.route("0.0.0.0/0", gateway=endpoint.gateway))
            rtnetlink.ask(*wanted)

    def await_carriers(self, ports: Sequence[str]) -> None:
        """Waits until these links of the host carry: a bridge takes no frame from a port whose carrier it has not seen.

        A second at most: there are kinds of link whose carrier the kernel never tells of.
        """
        deadline_s = time.monotonic() + _CARRIER_S
        for index in map(socket.if_nametoindex, ports):
            while not rtnetlink.is_operational(index) and time.monotonic() < deadline_s:
                time.sleep(_CARRIER_LOOK_EVERY_S)

    def run(self, argv, timeout_s=20.0, environment=None):
        environment = {**os.environ, **(environment or {})}
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TestbedError(f"{argv[0]} did not run: {error}") from error
        if done.returncode:
            output = (done.stderr or done.stdout).strip()
            raise TestbedError(f"{' '.join(argv)} ended with {done.returncode}: {output}")
        return done.stdout

    def start(self, argv, within_s, *, words="", environment=None):
        name = os.path.basename(argv[0])
        directory = self.directory / name
        directory.mkdir()
        daemon = Daemon(f"{name} of {self.host.name}", argv, directory, environment)
        if words:
            daemon.await_output(words, within_s)
        else:
            daemon.await_ready(time.monotonic() + within_s, self._caller)
        return daemon

    def has_kind(self, kind: str) -> bool:
        """Whether the kernel can make links of that kind here: by trying, where it may well lack a parent or an id."""
        try:
            rtnetlink.ask(rtnetlink.link("probe", kind))
            rtnetlink.ask(rtnetlink.removal(socket.if_nametoindex("probe")))
        except OSError as error:
            return error.errno != errno.EOPNOTSUPP
        return True
