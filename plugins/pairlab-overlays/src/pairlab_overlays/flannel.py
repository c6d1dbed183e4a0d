"""Flannel: flanneld on each host leases a subnet from etcd, and has packets for the others' carried to them.

What Docker would get of it with --bip, a bridge on the leased subnet, pairlab makes itself.
"""

import base64
import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import BridgedNetwork, Daemon, Lan
from pairlab.testbed.endpoints import OF_HOSTS, PREFIX_OF_HOST, UPLINK
from pairlab.testbed.requirements import MissingRequirement, Program, missing_tun

FLANNELD = Program("flanneld", "", "build it and put it on PATH, as docs/networks/flannel.md says, or take 'overlay'")
ETCD = Program("etcd", "etcd-server")
#: Where etcd answers, on the first host's uplink; and where in it flanneld looks.
PORT, PREFIX = 2379, "/coreos.com/network"
#: How long a daemon may take to be ready, and flanneld to know the other hosts.
READY_S = 20.0
#: An only member of a cluster elects itself after this time: a tenth of the default, in ms.
_ELECTION_MS = 100


class Flannel(BridgedNetwork):
    """flanneld and a bridge on each host; etcd on the first. A class for each of flannel's backends is a driver.

    The subnet of each host is reserved for it beforehand, so that it leases the one that is planned.
    """

    backend: ClassVar[str]
    """Its name in flannel's configuration."""
    links: ClassVar[tuple[str, ...]] = ("bridge", "veth")
    programs = (FLANNELD, ETCD)
    spans_hosts = True
    routed = True
    needs_hosts = True

    @classmethod
    def version(cls) -> str:
        return f"flanneld {FLANNELD.first_line('--version')}" if FLANNELD.path() else ""

    def create(self, lan: Lan) -> None:
        hosts = sorted([lan.host, *lan.others], key=lambda host: host.index)
        self.daemons: list[Daemon] = []
        self.etcd = Etcd(hosts[0].address)
        if lan.host == hosts[0]:
            self.daemons.append(lan.start(_etcd(self.etcd.url, str(lan.directory / "data")), READY_S))
            self.etcd.put(f"{PREFIX}/config", configuration(self.backend))
            for host in hosts:
                self.etcd.put(f"{PREFIX}/subnets/{host.subnet.replace('/', '-')}", {"PublicIP": host.address})
        file = lan.directory / "subnet.env"
        options = [f"--etcd-endpoints={self.etcd.url}", f"--iface={UPLINK}", f"--subnet-file={file}"]
        # It would let forwarded packets pass a filter that a host's namespace does not have.
        self.flanneld = lan.start([FLANNELD.command, *options, "--iptables-forward-rules=false"], READY_S)
        self.daemons.append(self.flanneld)
        self.lease = read_lease(file.read_text())
        expected = f"{lan.host.gateway}/{PREFIX_OF_HOST}"
        if self.lease.get("FLANNEL_SUBNET") != expected:
            raise TestbedError(f"flanneld of {lan.host.name} leased {self.lease.get('FLANNEL_SUBNET')}, not {expected}")
        self.bridge = lan.add_gateway("pairlab0")

    def activate(self, lan: Lan) -> None:
        self.await_others(lan)
        self.leases = self.etcd.under(f"{PREFIX}/subnets/")

    @abstractmethod
    def await_others(self, lan: Lan) -> None:
        """Waits until this host's flanneld can reach all other hosts. Raises TestbedError where it cannot in time."""

    def check(self) -> None:
        for each in self.daemons:
            each.check()

    def facts(self) -> Mapping[str, Any]:
        about = {
            "backend": self.backend,
            "etcd": ETCD.first_line("--version"),
            "etcd_url": self.etcd.url,
            "lease": self.lease,
            "leases": self.leases,
        }
        return {self.name: self.version(), "flannel": about}


class FlannelVxlan(Flannel):
    """A route to each other host's subnet by a VXLAN link, with a permanent neighbour and forwarding entry."""

    name = "flannel-vxlan"
    summary = "Flannel: flanneld leases each host a subnet from etcd; VXLAN between hosts"
    isolation = "encapsulated"
    cannot = "cross a network that drops UDP port 8472, nor keep 1500-byte packets whole on an MTU of 1500"
    aliases = ("flannel",)  # the backend that its documentation recommends
    links = (*Flannel.links, "vxlan")
    backend = "vxlan"
    overhead_bytes = 50  # Ethernet, IPv4, UDP, VXLAN

    def await_others(self, lan: Lan) -> None:
        lan.await_routes([each.subnet for each in lan.others], READY_S)  # the last that flanneld makes


class FlannelHostGw(Flannel):
    """A route to each other host's subnet by that host, without a tunnel: all hosts are on one Ethernet."""

    name = "flannel-host-gw"
    summary = "Flannel: flanneld leases each host a subnet from etcd; routes between hosts"
    isolation = "routed"
    cannot = "cross a router between hosts, which must share an Ethernet"
    backend = "host-gw"

    def await_others(self, lan: Lan) -> None:
        lan.await_routes([each.subnet for each in lan.others], READY_S)


class FlannelUdp(Flannel):
    """A route to all subnets by a TUN link, whose packets flanneld sends to the right host in UDP."""

    name = "flannel-udp"
    summary = "Flannel: flanneld leases each host a subnet from etcd, and carries packets itself"
    isolation = "encapsulated"
    cannot = "cross a network that drops UDP port 8285, nor keep 1500-byte packets whole on an MTU of 1500"
    backend = "udp"
    overhead_bytes = 28  # IPv4, UDP

    @classmethod
    def missing(cls) -> list[MissingRequirement]:
        return missing_tun("flanneld's backend udp")

    def await_others(self, lan: Lan) -> None:
        for each in lan.others:  # the routes are in flanneld
            self.flanneld.await_output(f"Subnet added: {each.subnet}", READY_S)


class Etcd:
    """The key-value store at that address, by its JSON gateway."""

    def __init__(self, address: str):
        self.address = address
        self.url = f"http://{address}:{PORT}"

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Stores the value as JSON. Raises TestbedError where etcd refuses it, or does not answer."""
        self._call("put", {"key": _encoded(key), "value": _encoded(json.dumps(value))})

    def under(self, prefix: str) -> dict[str, Any]:
        """The values under that prefix, by the rest of their keys. Raises as `put`."""
        last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return decoded(self._call("range", {"key": _encoded(prefix), "range_end": _encoded(last)}), prefix)

    def _call(self, what: str, request: Mapping[str, str]) -> dict[str, Any]:
        from http.client import HTTPConnection, HTTPException

        connection = HTTPConnection(self.address, PORT, timeout=READY_S)  # heeds no proxy
        try:
            connection.request("POST", f"/v3/kv/{what}", json.dumps(request))
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, HTTPException) as error:
            raise TestbedError(f"etcd at {self.url} did not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise TestbedError(f"etcd refused to {what} a key: {answer.status} {text.strip()}")
        return json.loads(text)


def configuration(backend: str) -> dict[str, Any]:
    """Flannel's: all subnets that hosts may have, each as long as they are planned."""
    subnets = {"SubnetLen": PREFIX_OF_HOST, "SubnetMin": str(OF_HOSTS.network_address)}
    return {"Network": str(OF_HOSTS), **subnets, "Backend": {"Type": backend}}


def read_lease(text: str) -> dict[str, str]:
    """What flanneld's subnet file says, by its names: FLANNEL_SUBNET is the bridge's address, FLANNEL_MTU in bytes."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def decoded(answer: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The values of a range of keys, as etcd's JSON gateway answers it, by their keys without the prefix."""
    found = {base64.b64decode(each["key"]).decode(): each["value"] for each in answer.get("kvs", ())}
    return {key.removeprefix(prefix): json.loads(base64.b64decode(value)) for key, value in found.items()}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _etcd(url: str, directory: str) -> list[str]:
    """The command of an etcd that is the only member of its cluster."""
    return [
        ETCD.command,
        *("--data-dir", directory),
        *("--listen-client-urls", url, "--advertise-client-urls", url),
        *("--listen-peer-urls", "http://127.0.0.1:2380"),
        *("--election-timeout", str(_ELECTION_MS), "--heartbeat-interval", str(_ELECTION_MS // 5)),
    ]
