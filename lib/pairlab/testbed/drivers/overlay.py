"""An overlay: one Ethernet over all hosts, carried between them by VXLAN (RFC 7348), in Docker also inside IPsec."""

import functools
import os
import subprocess

from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork
from pairlab.testbed.endpoints import UPLINK
from pairlab.testbed.requirements import Lack, Program

#: The network's identifier, and the port that IANA assigned to VXLAN.
VNI, PORT = 77, 4789

IP, UNSHARE = Program("ip", "iproute2"), Program("unshare", "util-linux")
#: What Docker asks the kernel for: AES in Galois/counter mode, with a check value of 64 bits (RFC 4106).
ALGORITHM, CHECK_BITS = "rfc4106(gcm(aes))", 64


class Overlay(BridgedNetwork):
    """On each host a bridge with a veth pair to each endpoint, and a VXLAN link to the other hosts.

    Where an endpoint is, each host is told; none has to learn it by flooding (ip-link(8): nolearning).
    """

    name = "overlay"
    summary = "a bridge on each host, joined by VXLAN"
    isolation = "encapsulated"
    links = ("bridge", "veth", "vxlan")
    spans_hosts = True
    max_endpoints = BridgedNetwork.max_endpoints - 1  # the tunnel is a port, too
    overhead_bytes = 50  # Ethernet, IPv4, UDP, VXLAN
    docker = DockerNetwork(driver="overlay", swarm=True)

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge")
        self.tunnel = 0
        if lan.others:
            self.tunnel = lan.add_link(
                "vxlan0",
                "vxlan",
                vxlan_id=VNI,
                vxlan_port=PORT,
                vxlan_local=lan.host.address,
                vxlan_link=lan.set_up(UPLINK),
                vxlan_learning=0,
                master=self.bridge,
            )

    def reach(self, lan, endpoint):
        (host,) = (each for each in lan.others if each.index == endpoint.host)
        lan.add_forwarding(self.tunnel, endpoint.mac, host.address)

    def facts(self):
        return {"tunnel": {"kind": "vxlan", "id": VNI, "port": PORT}} if self.tunnel else {}


class OverlayEncrypted(Overlay):
    """A swarm's overlay network made with `--opt encrypted`: hosts encrypt what they send each other.

    Between containers of one host nothing is encrypted, and it is an overlay as any.
    """

    name = "overlay-encrypted"
    summary = "Docker's overlay with IPsec between hosts"
    isolation = "encrypted"
    needs_hosts = True
    absent_in = ("netns",)
    overhead_bytes = Overlay.overhead_bytes + 26  # as Docker counts it: ESP's header, IV, trailer and check value
    docker = DockerNetwork(driver="overlay", swarm=True, options={"encrypted": ""})

    @classmethod
    def lacks(cls):
        if missing := [*filter(None, (program.lack() for program in (UNSHARE, IP)))]:
            return missing
        if os.geteuid() != 0 or _has_ipsec():  # only root can try, and only root has Docker hosts
            return []
        remedy = "sudo modprobe -a esp4 gcm, or take driver 'overlay'"
        return [Lack(f"this kernel has no IPsec with {ALGORITHM}", remedy)]


@functools.cache
def _has_ipsec() -> bool:
    """Whether the kernel takes such a state (ip-xfrm(8)): tried in a network namespace that ends with the trial."""
    path = ["src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "1", "mode", "transport"]
    state = [*path, "aead", ALGORITHM, "0x" + 20 * "00", str(CHECK_BITS)]
    trial = [UNSHARE.path() or "", "--net", IP.path() or "", "xfrm", "state", "add", *state]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0
