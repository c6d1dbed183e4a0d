"""A driver's building blocks on one host, inside the sandbox: links, through netlink, and daemons."""

import array
import contextlib
import difflib
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan, mac_of
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.namespaces import inside, turn_on_ipv6

#: The polling interval for routes, and for words in a daemon's output.
_LOOK_EVERY_S = 0.05
#: The time limit for carriers once both ends of links are up, and the polling interval.
_CARRIER_S, _CARRIER_LOOK_EVERY_S = 1.0, 0.001
#: ethtool(8)'s ioctl, and its command for checksumming of sent packets (linux/sockios.h, ethtool.h).
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17

#: The part of a daemon's log that is searched for its last lines.
_LAST_BYTES = 2000


def in_memory(directory: Path) -> None:
    """Mounts a file system in memory there, in the sandbox only."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(directory)], check=True)


def run(argv: Sequence[str], timeout_s: float = 20.0, environment: Mapping[str, str] | None = None) -> str:
    """As Lan.run, in the present network namespace."""
    environment = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TestbedError(f"{argv[0]} did not run: {error}") from error
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise TestbedError(f"{' '.join(argv)} ended with {done.returncode}: {output}")
    return done.stdout


class Daemon:
    """A daemon of a sandbox, started in the present network namespace.

    name: in messages. environment: variables besides ours. directory: of the log and temporary files; also the working
    directory, as some daemons write files there.
    """

    def __init__(self, name: str, argv: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None):
        self.name = name
        self._log = directory / "log"
        self._ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._ready.bind(str(directory / "ready"))
        variables = {
            **os.environ,
            **(environment or {}),
            "NOTIFY_SOCKET": str(directory / "ready"),
            "TMPDIR": str(directory),  # a containerd that is killed for not answering writes its stacks there
        }
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._started = subprocess.Popen(
                argv,
                executable=os.path.abspath(argv[0]),
                env=variables,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        finally:
            os.close(log)
        self._process = os.pidfd_open(self._started.pid)

    def await_ready(self, deadline_s: float, caller: int | None) -> None:
        """Waits until the daemon reports readiness (sd_notify(3)). Raises TestbedError if it ends, or at the deadline.

        deadline_s: of time.monotonic(). caller: a descriptor that becomes readable when the caller has gone.
        """
        while True:
            left_s = deadline_s - time.monotonic()
            watched: list[Any] = [self._ready, self._process, *([] if caller is None else [caller])]
            ready, _, _ = select.select(watched, [], [], max(0.0, left_s))
            if caller in ready:
                raise TestbedError("nobody waits for the daemons any more")
            if self._ready in ready and b"READY=1" in self._ready.recv(4096):
                return
            if self._process in ready:
                raise TestbedError(self._ended())
            if left_s <= 0:
                raise TestbedError(f"{self.name} was not ready in time. Its last words: {self._last_words()}")

    def await_output(self, words: str, within_s: float) -> None:
        """Waits until the daemon has printed these words. Raises TestbedError if it ends, or after within_s."""
        deadline_s = time.monotonic() + within_s
        while words not in self._log.read_text(errors="replace"):
            self.check()
            if time.monotonic() > deadline_s:
                raise TestbedError(
                    f"{self.name} did not say {words!r} within {within_s:g} s. Its last words: {self._last_words()}"
                )
            time.sleep(_LOOK_EVERY_S)

    def check(self) -> None:
        """Raises TestbedError if the daemon has ended."""
        if select.select([self._process], [], [], 0)[0]:
            raise TestbedError(self._ended())

    def _ended(self) -> str:
        return f"{self.name} has ended. Its last words: {self._last_words()}"

    def _last_words(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:]) or "none"


def _add_by_pyroute2(name: str, kind: str, attributes: dict[str, Any]) -> None:
    """Makes a link with attributes that rtnetlink.py lacks. Raises OSError where the kernel refuses it."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    # pyroute2 ignores attributes that it does not know, and the link would differ from the driver's description.
    messages = [ifinfmsg, *filter(None, [ifinfmsg.ifinfo.data_map.get(kind)])]
    known = {nla[len(each.prefix or "IFLA_") :].lower() for each in messages for nla, _ in each.nla_map}
    known |= {"peer", "mode", "state"}
    for attribute in attributes.keys() - known:
        close = difflib.get_close_matches(attribute, known, n=1)
        hint = f": {close[0]} is meant?" if close else ": ip-link(8) lists those of each kind"
        raise TestbedError(f"link {name}: a link of the kind {kind} has no attribute {attribute}{hint}")
    with IPRoute() as ipr:
        try:
            ipr.link("add", ifname=name, kind=kind, **attributes)
        except NetlinkError as error:
            raise OSError(error.code, os.strerror(error.code)) from error


class Lan:
    """Links in a host's network namespace, and one namespace per endpoint.

    Everything made here ends with the sandbox. Methods raise Unavailable where the kernel lacks a kind of link, and
    TestbedError where it refuses for another reason. Further attributes of a link are pyroute2's, as ip-link(8) has
    them: br_ageing_time=0, vxlan_id=7, mtu=9000.

    host: the links' host; others: the hosts that its uplink reaches, if any. directory: for the driver's files on this
    host; removed with the testbed. namespaces: file descriptors by endpoint name. mtu_bytes: of all links; 0: the
    kernel's default. own: the descriptor of the host's namespace; None: it is the sandbox's own. caller: a descriptor
    that becomes readable when the caller has gone.
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

    def add_link(self, name: str, kind: str, **attributes: Any) -> int:
        """Makes a link of the host and sets it up; returns its index."""
        self._add(name, kind, **attributes)
        return self.set_up(name)

    def _add(self, name: str, kind: str, *, up: bool = False, **attributes: Any) -> None:
        attributes = self._with_mtu(attributes)
        if "master" in attributes.get("peer", {}):
            raise TestbedError(
                f"link {name} ({kind}): the kernel ignores the master of a pair's other end when it makes the pair:"
                " give it afterwards, by set_up(NAME, master=INDEX)"
            )
        try:
            if rtnetlink.knows(kind, attributes):
                rtnetlink.ask(rtnetlink.link(name, kind, up=up, **attributes))
            else:
                _add_by_pyroute2(name, kind, {**attributes, **({"state": "up"} if up else {})})
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP and not self.has_kind(kind):
                raise Unavailable(f"this kernel has no {kind} links: load its module, or take another driver") from None
            given = ", ".join(f"{key}={value}" for key, value in attributes.items()) or "none"
            raise TestbedError(f"link {name} ({kind}) could not be made: {error}. Its attributes: {given}") from error

    def _with_mtu(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """The link's attributes, with the MTU at both of its ends."""
        peer = attributes.get("peer")
        both = {"peer": {**({"ifname": peer} if isinstance(peer, str) else peer), **self._mtu}} if peer else {}
        return {**attributes, **both, **self._mtu}

    def set_up(self, name: str, **attributes: Any) -> int:
        """Sets up a link of the host, such as the other end of a veth pair, with these attributes, such as master=;
        returns its index.
        """
        index = socket.if_nametoindex(name)
        rtnetlink.ask(rtnetlink.change(index, up=True, **attributes))
        return index

    def add_parent(self) -> int:
        """A parent for endpoints' links: the host's uplink; on a single host, one end of a veth pair."""
        if self.others:
            return self.set_up(UPLINK)
        parent = self.add_link("parent0", "veth", peer="parent1")
        self.set_up("parent1")  # else the parent has no carrier, and neither have the links on it
        return parent

    def add_gateway(self, name: str) -> int:
        """Makes a bridge of that name with the host's address in its subnet, and sets it up; returns its index."""
        self.gateway_link = name
        bridge = self.add_link(name, "bridge", address=mac_of(self.host.gateway))
        self.add_address(bridge, self.host.gateway, ipaddress.IPv4Network(self.host.subnet).prefixlen)
        return bridge

    def adopt_gateway(self) -> None:
        """Adopts an existing link with the host's address in its subnet as the gateway.

        The link gets the gateway's hardware address, as in the endpoints' neighbour entries.
        """
        from pyroute2 import IPRoute

        with IPRoute() as ipr:
            (index,) = (each["index"] for each in ipr.get_addr(address=self.host.gateway))
        rtnetlink.ask(rtnetlink.change(index, address=mac_of(self.host.gateway)))
        self.gateway_link = socket.if_indextoname(index)

    def add_address(self, link: int, address: str, prefix: int) -> None:
        """Gives a link of the host (its index) an IPv4 address."""
        with rtnetlink.refused(f"address {address} could not be made"):
            rtnetlink.ask(rtnetlink.address(link, address, prefix))

    def add_route(self, destination: str, *, link: int = 0, gateway: str = "") -> None:
        """Makes a route of the host to a network (10.129.0.0/16): by a link (its index), by a gateway, or both."""
        with rtnetlink.refused(f"route to {destination} could not be made"):
            rtnetlink.ask(rtnetlink.route(destination, index=link, gateway=gateway))

    def add_forwarding(self, link: int, mac: str, host: str) -> None:
        """Makes a VXLAN link and its bridge forward frames for a hardware address to the host at `host`."""
        with rtnetlink.refused(f"forwarding of {mac} to {host} could not be made"):
            rtnetlink.ask(rtnetlink.forwarding(link, mac, host), rtnetlink.bridge_port(link, mac))

    def await_routes(self, destinations: Sequence[str], timeout_s: float) -> None:
        """Waits until the host has routes to these networks. Raises TestbedError where some are missing by then."""
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

    def add_veth(self, endpoint: EndpointPlan, **attributes: Any) -> str:
        """Makes a veth pair: eth0 in the endpoint, and a port named after the endpoint in the host, set up.

        attributes: of the port, such as master= with a bridge's index. Returns the port's name.
        """
        self._add(endpoint.name, "veth", up=True, peer=self._eth0(endpoint), **attributes)
        return endpoint.name

    def add_netkit(self, endpoint: EndpointPlan, **attributes: Any) -> str:
        """The same with a netkit pair in mode l2 in place of the veth pair."""
        attributes = {"netkit_mode": rtnetlink.NETKIT_L2, **attributes}
        self._add(endpoint.name, "netkit", up=True, peer=self._eth0(endpoint), **attributes)
        return endpoint.name

    def _eth0(self, endpoint: EndpointPlan) -> dict[str, Any]:
        """The endpoint's end of a pair of links."""
        return {"ifname": "eth0", "net_ns_fd": self.namespaces[endpoint.name], "address": endpoint.mac}

    def add_eth0(self, endpoint: EndpointPlan, kind: str, **attributes: Any) -> None:
        """Makes a link of that kind (macvlan, ipvlan, …) as eth0 of the endpoint. link=: the index of its parent."""
        self._add("eth0", kind, net_ns_fd=self.namespaces[endpoint.name], **attributes)

    def add_cable(self, one: EndpointPlan, other: EndpointPlan) -> None:
        """Makes a veth pair with one end as eth0 of one endpoint, and the other end as eth0 of the other."""
        self.add_eth0(one, "veth", peer={"ifname": "eth0", "net_ns_fd": self.namespaces[other.name]})

    def turn_off_checksumming(self, endpoint: EndpointPlan) -> None:
        """Makes the endpoint's kernel compute checksums and cut segments before packets reach its eth0.

        veth pairs skip both, as no wire needs them: a program that captures packets, to carry them in user space,
        would get them without. Like `ethtool -K eth0 tx off`.
        """
        with inside(self.namespaces[endpoint.name]), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            setting = array.array("I", [_ETHTOOL_STXCSUM, 0])
            request = struct.pack("16sP", b"eth0", setting.buffer_info()[0])
            with rtnetlink.refused(f"eth0 of {endpoint.name} keeps tx checksumming"):
                fcntl.ioctl(any_socket, _SIOCETHTOOL, request)

    def configure(self, endpoint: EndpointPlan, *, has_link: bool) -> None:
        """Sets the endpoint's loopback up, and with a link also the address, eth0 and the route by the gateway."""
        requests = [rtnetlink.up(rtnetlink.LOOPBACK)]
        what = f"address {endpoint.address} of {endpoint.name} could not be made"
        with inside(self.namespaces[endpoint.name]), rtnetlink.refused(what):
            if has_link:
                eth0 = socket.if_nametoindex("eth0")
                requests += [rtnetlink.address(eth0, endpoint.address, endpoint.prefix), rtnetlink.up(eth0)]
            if has_link and endpoint.gateway:
                requests.append(rtnetlink.route("0.0.0.0/0", gateway=endpoint.gateway))
            rtnetlink.ask(*requests)
            if has_link and endpoint.ip_version == 6:
                turn_on_ipv6("eth0")
                rtnetlink.ask(rtnetlink.address(eth0, endpoint.ipv6, endpoint.ipv6_prefix))

    def await_carriers(self, ports: Sequence[str]) -> None:
        """Waits for the carriers of these links: a bridge drops frames from a port before it has noticed the carrier.

        A second at most: for some kinds of link the kernel never reports a carrier.
        """
        deadline_s = time.monotonic() + _CARRIER_S
        for index in map(socket.if_nametoindex, ports):
            while not rtnetlink.is_operational(index) and time.monotonic() < deadline_s:
                time.sleep(_CARRIER_LOOK_EVERY_S)

    def run(self, argv: Sequence[str], timeout_s: float = 20.0, environment: Mapping[str, str] | None = None) -> str:
        """Runs a program on the host, without a shell, and returns its output. Raises TestbedError if it fails.

        environment: variables that it has besides ours.
        """
        return run(argv, timeout_s, environment)

    def start(
        self, argv: Sequence[str], within_s: float, *, words: str = "", environment: Mapping[str, str] | None = None
    ) -> Daemon:
        """Starts a daemon on the host, and waits until it reports readiness (sd_notify(3)).

        words: the output that reports readiness, if it does not support sd_notify. environment: variables besides ours.
        The daemon runs in a directory of its name in `directory`, with its log. Raises TestbedError, with the log's
        last lines, if it ends, or is not ready within within_s.
        """
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
        """Whether the kernel has links of that kind: by trying; a refusal for a missing parent or id counts as yes."""
        try:
            rtnetlink.ask(rtnetlink.link("probe", kind))
            rtnetlink.ask(rtnetlink.removal(socket.if_nametoindex("probe")))
        except OSError as error:
            return error.errno != errno.EOPNOTSUPP
        return True
