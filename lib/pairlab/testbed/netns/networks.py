"""The networks of a testbed, one on each host: built by the driver, or adopted from a daemon that has built them."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan, HostPlan
from pairlab.testbed.host import kernel_room
from pairlab.testbed.host.link_counters import sent_by
from pairlab.testbed.netns import neighbours, underlay
from pairlab.testbed.netns.lan import SandboxLan
from pairlab.testbed.netns.namespaces import inside, new_namespaces, without_ipv6

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


class Network(NamedTuple):
    """The driver's network on one host, with the endpoints that are on it."""

    driver: NetworkDriver
    lan: SandboxLan
    endpoints: Sequence[EndpointPlan]

    def port_counts(self) -> tuple[int, int] | None:
        ports = self.driver.ports([each.name for each in self.endpoints])
        with self.lan.entered():
            return sent_by(ports) if ports else None


class Networks:
    """Those of one testbed, of which there are none yet.

    directory: for the drivers' files. progress: called with how many endpoints are up. caller: the descriptor that
    calls come from.
    """

    def __init__(self, directory: Path | None, progress: Callable[[int], None], caller: int):
        self._caller = caller
        self._directory = directory
        self._progress = progress
        self._networks: list[Network] = []
        self.driver_file = ""
        """Where the driver's code is; empty before it is loaded."""
        self._namespaces: dict[str, int] = {}
        self._hosts: dict[str, int] = {}
        self._underlay: dict[str, Any] = {}
        self._is_built = False

    def connect(self, hosts: Sequence[HostPlan]) -> dict:
        """Makes these hosts, of which there are several, and connects them; returns what a record should say of that.

        `build` then puts endpoints on them.
        """
        self._hosts = _fresh_namespaces([host.name for host in hosts])
        self._underlay = _connected(hosts, list(self._hosts.values()))
        return self._underlay

    def adopt(
        self, driver: str, endpoints: Sequence[EndpointPlan], hosts: Sequence[HostPlan], pids: Mapping[str, int]
    ) -> None:
        """Takes the namespaces of these processes, by endpoint, that a daemon has put on networks of its own.

        Where they leave these by a gateway, all of them, and the hosts, become permanent neighbours, as in `build`.
        """
        kind = self._kind(driver)
        self._namespaces = _namespaces_of(pids)
        endpoints = on_network(endpoints)
        self._networks = [self._network(kind, each, hosts, endpoints, self._hosts.get(each.name)) for each in hosts]
        if not kind.routed:
            return
        for _, lan, _ in self._networks:
            with lan.entered():
                lan.adopt_gateway()
        macs = neighbours.introduce(self._namespaces, endpoints)
        for _, lan, own in self._networks:
            with lan.entered():
                neighbours.know(lan.gateway_link, {each.address: macs[each.name] for each in own})

    def build(
        self,
        driver: str,
        endpoints: Sequence[EndpointPlan],
        hosts: Sequence[HostPlan],
        given: Mapping[str, int] | None = None,
        pids: Mapping[str, int] | None = None,
    ) -> dict:
        """Builds the driver's network (module:Class) on each host and attaches the endpoints; returns its facts.

        given, pids: namespaces that exist already, as inherited descriptors or those of processes in here; else fresh
        ones are made.
        """
        kind = self._kind(driver)
        if pids is not None:
            given = _namespaces_of(pids)
        apart = [host.name for host in hosts if len(hosts) > 1]
        of_endpoint = {each.name: _namespace_of(each, kind, hosts) for each in endpoints}
        if given is None:
            wanted = dict.fromkeys([*apart, *filter(None, of_endpoint.values())])
            made = self._hosts | _fresh_namespaces([name for name in wanted if name not in self._hosts])
        else:
            for descriptor in given.values():
                os.set_inheritable(descriptor, False)  # what runs in here opens /proc/1/fd/N where it may
            made = self._hosts | dict(given)
        self._namespaces = {endpoint: made[space] for endpoint, space in of_endpoint.items() if space}
        endpoints = on_network(endpoints)
        facts = dict(self._underlay) if self._hosts else _connected(hosts, [made[space] for space in apart])
        self._networks = [self._network(kind, host, hosts, endpoints, made.get(host.name)) for host in hosts]
        self._attach(endpoints)
        for driver, lan, own in self._networks:
            with lan.entered():
                lan.await_carriers(driver.ports([each.name for each in own]))
        if kind.has_links():
            neighbours.introduce(self._namespaces, endpoints)
        with self._networks[0].lan.entered():
            facts |= self._networks[0].driver.facts()
        self._is_built = True
        return {**facts, "bridge_nf_call_iptables": bridge_nf_call_iptables()}

    def _kind(self, driver: str) -> type[NetworkDriver]:
        """The driver's class, of module:Class."""
        module, name = driver.split(":")
        plugin = import_module(module)
        self.driver_file = plugin.__file__ or ""
        return getattr(plugin, name)

    def _network(
        self,
        kind: type[NetworkDriver],
        host: HostPlan,
        hosts: Sequence[HostPlan],
        endpoints: Sequence[EndpointPlan],
        own: int | None,
    ) -> Network:
        """That host's network, with nothing in it yet. own: the descriptor of the host's namespace, if it has one."""
        directory = self._directory or Path()
        if own is not None:
            directory = directory / host.name
            directory.mkdir()
        mtu_bytes = max(endpoint.mtu_bytes for endpoint in endpoints)
        others = [each for each in hosts if each != host]
        lan = SandboxLan(self._namespaces, directory, mtu_bytes, host, others, own, self._caller)
        return Network(kind(), lan, [each for each in endpoints if each.host == host.index])

    def _attach(self, endpoints: Sequence[EndpointPlan]) -> None:
        """Builds each host's network: the driver first, with its endpoints, then what endpoints have of their own."""
        done = 0
        for driver, lan, own in self._networks:
            with lan.entered():
                if driver.routed:
                    FORWARDING.write_text("1")
                driver.create(lan)
                for endpoint in own:
                    driver.attach(lan, endpoint)
                    done += 1
                    self._progress(done // 2)  # half of its work
        for driver, lan, _ in self._networks:
            with lan.entered():
                for endpoint in endpoints:
                    if endpoint.host != lan.host.index:
                        driver.reach(lan, endpoint)
        for driver, lan, own in self._networks:
            with lan.entered():
                driver.finish(lan)
                if lan.gateway_link:
                    neighbours.know(lan.gateway_link, {endpoint.address: endpoint.mac for endpoint in own})
            for endpoint in own:
                if endpoint.name in self._namespaces:
                    lan.configure(endpoint, has_link=driver.has_links())
                done += 1
                self._progress(done // 2)

    def built(self) -> list[dict]:
        """What each host and the ends of its first pair have, as the kernel tells it, and its driver's facts.

        Ports to the other endpoints are left out: they are as those of the first.
        """

        from pairlab.testbed.host.description import describe  # it loads pyroute2, which building does without

        found = []
        for driver, lan, own in self._networks:
            shown = [each for each in own if each.pair == own[0].pair]  # none: all there are launched
            with lan.entered():
                about: dict[str, Any] = dict(describe(but={each.name for each in own if each not in shown}))
                about |= {"driver": dict(driver.facts() if self._is_built else driver.docker_facts(lan))}
                about |= {"bridge_nf_call_iptables": bridge_nf_call_iptables()}
            ends = []
            for each in shown:
                if each.name in self._namespaces and lan.own != self._namespaces[each.name]:
                    with inside(self._namespaces[each.name]):
                        ends.append({"name": each.name, **describe()})
                else:
                    ends.append({"name": each.name})
            found.append({"name": lan.host.name, **about, "endpoints": ends, "endpoint_count": len(own)})
        return found

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that have gone out at the driver's ports; None where it has none."""
        counts = [counted for each in self._networks if (counted := each.port_counts())]
        return (sum(sent for sent, _ in counts), sum(packets for _, packets in counts)) if counts else None

    def refused_connections(self) -> int:
        """By all hosts together: kernel_room."""
        found = 0
        for each in self._networks:
            with each.lan.entered():
                found += kernel_room.refused_connections()
        return found

    def _check_built(self) -> None:
        """Raises TestbedError where a network that a driver built broke."""
        if not self._is_built:  # a daemon provides the networks
            return
        for driver, lan, _ in self._networks:
            with lan.entered():
                driver.check()


def on_network(endpoints: Sequence[EndpointPlan]) -> list[EndpointPlan]:
    """Those that are on the driver's network."""
    return [each for each in endpoints if not each.uses_host_network]


def _namespace_of(endpoint: EndpointPlan, kind: type[NetworkDriver], hosts: Sequence[HostPlan]) -> str:
    """The name of the network namespace that the endpoint is in; empty: the sandbox's own."""
    if kind.isolated and not endpoint.uses_host_network:
        return f"pair-{endpoint.pair}" if kind.pair_shares else endpoint.name
    return hosts[endpoint.host].name if len(hosts) > 1 else ""


def _namespaces_of(pids: Mapping[str, int]) -> dict[str, int]:
    """Descriptors of the network namespaces of these processes of the sandbox, by the same names."""
    return {name: os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for name, pid in pids.items()}


def _fresh_namespaces(names: Sequence[str]) -> dict[str, int]:
    """Descriptors of new network namespaces, by these names."""
    return dict(zip(names, new_namespaces(len(names)), strict=True))


def _connected(hosts: Sequence[HostPlan], namespaces: Sequence[int]) -> dict:
    """Connects the hosts, where they have namespaces of their own; returns what a record should say of that."""
    without_ipv6()
    if not namespaces:
        return {}
    return {"underlay": underlay.connect(hosts, namespaces)}


def bridge_nf_call_iptables() -> int | None:
    """Whether bridged frames pass iptables in this network namespace; None without br_netfilter."""
    try:
        return int(Path("/proc/sys/net/bridge/bridge-nf-call-iptables").read_text())
    except (OSError, ValueError):
        return None
