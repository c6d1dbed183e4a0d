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

from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg, ifinfveth

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.contracts import Lan
from pairlab.testbed.endpoints import HostPlan, mac_of
from pairlab.testbed.launch.daemons import Daemon
from pairlab.testbed.netns.namespaces import inside

#: Of an entry in a bridge's forwarding table (rtnetlink(7)): it stays as it is, and is the bridge's, not its port's.
NUD_NOARP, NTF_MASTER = 0x40, 0x04
#: How often routes are looked at while they are awaited.
_LOOK_EVERY_S = 0.05
#: NETKIT_L2: its ends have hardware addresses and carry Ethernet frames. Without a mode, a link has neither.
_NETKIT_L2 = 0
#: Of ethtool(8): the request to a link, and what it sets, checksumming of what is sent (linux/sockios.h, ethtool.h).
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17


class _Netkit(nla):
    """The attributes of netkit links, which pyroute2 does not know; an attribute's place in the list is its number."""

    prefix = "IFLA_"
    nla_map = (
        ("IFLA_NETKIT_UNSPEC", "none"),
        ("IFLA_NETKIT_PEER_INFO", "info_peer"),
        ("IFLA_NETKIT_PRIMARY", "uint8"),
        ("IFLA_NETKIT_POLICY", "uint32"),
        ("IFLA_NETKIT_PEER_POLICY", "uint32"),
        ("IFLA_NETKIT_MODE", "uint32"),
    )

    @staticmethod
    def info_peer(self, *_, **__):  # pyroute2 calls it with the attribute
        return ifinfveth


ifinfmsg.ifinfo.register_link_kind(module={"netkit": _Netkit})


def netkit_with(peer: dict[str, Any]) -> dict[str, Any]:
    """What makes a link of kind netkit one in mode l2 with that peer: its attributes as of a link."""
    described = {"attrs": [[ifinfmsg.name2nla(name), value] for name, value in peer.items()]}
    return {"netkit_peer_info": described, "netkit_mode": _NETKIT_L2}


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raises TestbedError, naming what, where the kernel refuses it."""
    try:
        yield
    except NetlinkError as error:
        raise TestbedError(f"{what} could not be made: {error}") from error


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
            self._ipr = IPRoute()  # it stays in the namespace in which it was made
            self._ipr.link("set", index=1, state="up")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Runs the block in the host's namespace, as the driver's code does."""
        with contextlib.nullcontext() if self.own is None else inside(self.own):
            yield

    def add_link(self, name, kind, **attributes):
        self._add(name, kind, **attributes)
        return self.set_up(name)

    def _add(self, name: str, kind: str, **attributes) -> None:
        try:
            self._ipr.link("add", ifname=name, kind=kind, **self._with_mtu(attributes))
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                raise Unavailable(f"this kernel has no {kind} links: load its module, or take another driver") from None
            raise TestbedError(f"link {name} ({kind}) could not be made: {error}") from error

    def _with_mtu(self, attributes: dict) -> dict:
        """The link's attributes, with the MTU at both of its ends."""
        peer = attributes.get("peer")
        both = {"peer": {**({"ifname": peer} if isinstance(peer, str) else peer), **self._mtu}} if peer else {}
        return {**attributes, **both, **self._mtu}

    def set_up(self, name):
        index = socket.if_nametoindex(name)
        self._ipr.link("set", index=index, state="up")
        return index

    def add_gateway(self, name):
        self.gateway_link = name
        return super().add_gateway(name)

    def adopt_gateway(self) -> None:
        """Takes the link that has the host's address in its subnet, which another has made, for its gateway.

        It gets the hardware address that endpoints have for it.
        """
        (index,) = (each["index"] for each in self._ipr.get_addr(address=self.host.gateway))
        self._ipr.link("set", index=index, address=mac_of(self.host.gateway))
        self.gateway_link = socket.if_indextoname(index)

    def add_address(self, link, address, prefix):
        with _refused(f"address {address}"):
            self._ipr.addr("add", index=link, address=address, prefixlen=prefix)

    def add_route(self, destination, *, link=0, gateway=""):
        by = {**({"oif": link} if link else {}), **({"gateway": gateway} if gateway else {})}
        with _refused(f"route to {destination}"):
            self._ipr.route("add", dst=destination, **by)

    def add_forwarding(self, link, mac, host):
        with _refused(f"forwarding of {mac} to {host}"):
            self._ipr.fdb("append", ifindex=link, lladdr=mac, dst=host)
            self._ipr.fdb("add", ifindex=link, lladdr=mac, state=NUD_NOARP, flags=NTF_MASTER)

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
        routes = self._ipr.get_routes(family=socket.AF_INET)
        return {f"{each.get_attr('RTA_DST')}/{each['dst_len']}" for each in routes}

    def add_veth(self, endpoint, **attributes):
        self._add(endpoint.name, "veth", state="up", peer=self._eth0(endpoint), **attributes)
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
        peer = netkit_with(self._eth0(endpoint) | self._mtu)
        self._add(endpoint.name, "netkit", state="up", **peer, **attributes)
        return endpoint.name

    def _eth0(self, endpoint) -> dict:
        """The endpoint's end of a pair of links."""
        return {"ifname": "eth0", "net_ns_fd": self._path(endpoint), "address": endpoint.mac}

    def add_eth0(self, endpoint, kind, **attributes):
        self._add("eth0", kind, net_ns_fd=self._path(endpoint), **attributes)

    def add_cable(self, one, other):
        self.add_eth0(one, "veth", peer={"ifname": "eth0", "net_ns_fd": self._path(other)})

    def configure(self, endpoint, *, has_link: bool):
        """Sets the endpoint's loopback up, and where it has a link its address, eth0 and the route by its gateway."""
        with inside(self.namespaces[endpoint.name]), IPRoute() as ipr:
            ipr.link("set", index=1, state="up")
            if not has_link:
                return
            index = socket.if_nametoindex("eth0")
            ipr.addr("add", index=index, address=endpoint.address, prefixlen=endpoint.prefix)
            ipr.link("set", index=index, state="up")
            if endpoint.gateway:
                ipr.route("add", dst="0.0.0.0/0", gateway=endpoint.gateway)

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
            self._ipr.link("add", ifname="probe", kind=kind)
            self._ipr.link("del", index=socket.if_nametoindex("probe"))
        except NetlinkError as error:
            return error.code != errno.EOPNOTSUPP
        return True

    def _path(self, endpoint) -> str:
        return f"/proc/{os.getpid()}/fd/{self.namespaces[endpoint.name]}"
