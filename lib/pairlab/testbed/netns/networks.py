"""The networks of a testbed, one on each host: built by the driver, or adopted from a daemon that has built them."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.base.study_file import import_plugin
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan, HostPlan
from pairlab.testbed.host import kernel_counters
from pairlab.testbed.host.kernel_counters import sent_by
from pairlab.testbed.links.lan import Lan
from pairlab.testbed.links.namespaces import inside, new_namespaces, without_ipv6
from pairlab.testbed.netns import neighbours, underlay
from pairlab.testbed.requirements import setting

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


class Network(NamedTuple):
    """The driver's network on one host, with the endpoints on it."""

    driver: NetworkDriver
    lan: Lan
    endpoints: Sequence[EndpointPlan]

    def port_counts(self) -> tuple[int, int] | None:
        ports = self.driver.ports([each.name for each in self.endpoints])
        with self.lan.entered():
            return sent_by(ports) if ports else None


class Networks:
    """The networks of one testbed; none at first.

    directory: for the drivers' files. progress: called with the number of endpoints that are up. caller: the
    descriptor that calls come from.
    """

    def __init__(self, directory: Path | None, progress: Callable[[int], None], caller: int):
        self._caller = caller
        self._directory = directory
        self._progress = progress
        self._networks: list[Network] = []
        self.driver_file = ""
        """The file of the driver's code; empty before it is loaded."""
        self._namespaces: dict[str, int] = {}
        self._hosts: dict[str, int] = {}
        self._underlay: dict[str, Any] = {}
        self._is_built = False

    def connect(self, hosts: Sequence[HostPlan]) -> dict:
        """Makes two or more hosts and connects them; returns the underlay's facts. `build` then adds endpoints."""
        self._hosts = _fresh_namespaces([host.name for host in hosts])
        self._underlay = _connected(hosts, list(self._hosts.values()))
        return self._underlay

    def adopt(
        self, driver: str, endpoints: Sequence[EndpointPlan], hosts: Sequence[HostPlan], pids: Mapping[str, int]
    ) -> None:
        """Adopts endpoints that a daemon has put on networks of its own. pids: of a process in each, by endpoint.

        On a routed network, endpoints, gateways and hosts become permanent neighbours, as in `build`.
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
        macs = neighbours.set_partners(self._namespaces, endpoints)
        for _, lan, own in self._networks:
            with lan.entered():
                neighbours.set_static(lan.gateway_link, {each.address: macs[each.name] for each in own})

    def build(
        self,
        driver: str,
        endpoints: Sequence[EndpointPlan],
        hosts: Sequence[HostPlan],
        given: Mapping[str, int] | None = None,
        pids: Mapping[str, int] | None = None,
        here: int | None = None,
    ) -> dict:
        """Builds the driver's network (module:Class) on each host and attaches the endpoints; returns its facts.

        given, pids: existing namespaces, by inherited descriptors or by processes in the sandbox; else new ones are
        made. here: the index of the host whose kernel this is; None: all hosts are namespaces of this kernel.
        """
        kind = self._kind(driver)
        if pids is not None:
            given = _namespaces_of(pids)
        local = hosts if here is None else [hosts[here]]
        own_namespaces = [host.name for host in local if len(local) > 1]
        of_endpoint = {each.name: namespace_of(each, kind, local) for each in endpoints if here in (None, each.host)}
        if given is None:
            wanted = dict.fromkeys([*own_namespaces, *filter(None, of_endpoint.values())])
            descriptors = self._hosts | _fresh_namespaces([name for name in wanted if name not in self._hosts])
        else:
            for descriptor in given.values():
                os.set_inheritable(descriptor, False)  # processes of the sandbox open /proc/1/fd/N where they may
            descriptors = self._hosts | dict(given)
        self._namespaces = {endpoint: descriptors[name] for endpoint, name in of_endpoint.items() if name}
        endpoints = on_network(endpoints)
        apart = [descriptors[name] for name in own_namespaces]
        facts = dict(self._underlay) if self._hosts else _connected(hosts, apart)
        self._networks = [self._network(kind, host, hosts, endpoints, descriptors.get(host.name)) for host in local]
        self._attach(endpoints)
        for driver, lan, own in self._networks:
            with lan.entered():
                lan.await_carriers(driver.ports([each.name for each in own]))
        if kind.has_links():
            introduced = kind.add_remote is not NetworkDriver.add_remote
            neighbours.set_partners(self._namespaces, endpoints, with_remote=introduced)
        with self._networks[0].lan.entered():
            facts |= self._networks[0].driver.facts()
        self._is_built = True
        return {**facts, "bridge_nf_call_iptables": bridge_nf_call_iptables()}

    def _kind(self, driver: str) -> type[NetworkDriver]:
        """The driver's class, from module:Class."""
        module, name = driver.split(":")
        plugin = import_plugin(module)
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
        """That host's network, still empty. own: the descriptor of the host's namespace, if it has one."""
        directory = self._directory or Path()
        if own is not None:
            directory = directory / host.name
            directory.mkdir()
        mtu_bytes = max(endpoint.mtu_bytes for endpoint in endpoints)
        others = [each for each in hosts if each != host]
        lan = Lan(self._namespaces, directory, mtu_bytes, host, others, own, self._caller)
        return Network(kind(), lan, [each for each in endpoints if each.host == host.index])

    def _attach(self, endpoints: Sequence[EndpointPlan]) -> None:
        """Builds each host's network: first the driver's links, then the endpoints' own addresses and routes."""
        done = 0
        for driver, lan, own in self._networks:
            with lan.entered():
                if driver.routed:
                    FORWARDING.write_text("1")
                driver.create(lan)
                for endpoint in own:
                    driver.attach(lan, endpoint)
                    done += 1
                    self._progress(done // 2)  # half of an endpoint's work
        for driver, lan, _ in self._networks:
            with lan.entered():
                for endpoint in endpoints:
                    if endpoint.host != lan.host.index:
                        driver.add_remote(lan, endpoint)
        for driver, lan, own in self._networks:
            with lan.entered():
                driver.activate(lan)
                if lan.gateway_link:
                    neighbours.set_static(lan.gateway_link, {endpoint.address: endpoint.mac for endpoint in own})
            for endpoint in own:
                if endpoint.name in self._namespaces:
                    lan.configure(endpoint, has_link=driver.has_links())
                done += 1
                self._progress(done // 2)

    def built(self) -> list[dict]:
        """The kernel's description of each host and of the ends of its first pair, with the driver's facts.

        Ports to the other endpoints are left out, as they are like the first pair's.
        """

        from pairlab.testbed.host.description import describe  # it loads pyroute2, which building does without

        descriptions = []
        for driver, lan, own in self._networks:
            first_pair = [each for each in own if each.pair == own[0].pair]  # empty if all endpoints are launched
            with lan.entered():
                about: dict[str, Any] = dict(describe(but={each.name for each in own if each not in first_pair}))
                about |= {"driver": dict(driver.facts() if self._is_built else driver.docker_facts(lan))}
                about |= {"bridge_nf_call_iptables": bridge_nf_call_iptables()}
            ends = []
            for each in first_pair:
                if each.name in self._namespaces and lan.own != self._namespaces[each.name]:
                    with inside(self._namespaces[each.name]):
                        ends.append({"name": each.name, **describe()})
                else:
                    ends.append({"name": each.name})
            descriptions.append({"name": lan.host.name, **about, "endpoints": ends, "endpoint_count": len(own)})
        return descriptions

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets sent at the driver's ports; None without ports."""
        counts = [counted for each in self._networks if (counted := each.port_counts())]
        return (sum(sent for sent, _ in counts), sum(packets for _, packets in counts)) if counts else None

    def refused_connections(self) -> int:
        """The sum over all hosts (kernel_counters)."""
        count = 0
        for each in self._networks:
            with each.lan.entered():
                count += kernel_counters.refused_connections()
        return count

    def _check_built(self) -> None:
        """Raises TestbedError where a network that a driver built has failed."""
        if not self._is_built:  # a daemon provides the networks
            return
        for driver, lan, _ in self._networks:
            with lan.entered():
                driver.check()


def on_network(endpoints: Sequence[EndpointPlan]) -> list[EndpointPlan]:
    """The endpoints on the driver's network."""
    return [each for each in endpoints if not each.uses_host_network]


def namespace_of(endpoint: EndpointPlan, kind: type[NetworkDriver], hosts: Sequence[HostPlan]) -> str:
    """The name of the endpoint's network namespace; empty: the sandbox's own."""
    if kind.isolated and not endpoint.uses_host_network:
        return f"pair-{endpoint.pair}" if kind.pair_shares_namespace else endpoint.name
    return hosts[endpoint.host].name if len(hosts) > 1 else ""


def _namespaces_of(pids: Mapping[str, int]) -> dict[str, int]:
    """Descriptors of the network namespaces of these processes in the sandbox, by the same names."""
    return {name: os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for name, pid in pids.items()}


def _fresh_namespaces(names: Sequence[str]) -> dict[str, int]:
    """Descriptors of new network namespaces, by these names."""
    return dict(zip(names, new_namespaces(len(names)), strict=True))


def _connected(hosts: Sequence[HostPlan], namespaces: Sequence[int]) -> dict:
    """Connects hosts that have namespaces of their own; returns the underlay's facts."""
    without_ipv6()
    if not namespaces:
        return {}
    return {"underlay": underlay.connect(hosts, namespaces)}


def bridge_nf_call_iptables() -> int | None:
    """Whether bridged frames pass iptables in this network namespace; None without br_netfilter."""
    value = setting("/proc/sys/net/bridge/bridge-nf-call-iptables")
    return int(value) if value else None
