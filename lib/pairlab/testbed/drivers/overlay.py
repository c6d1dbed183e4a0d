"""An overlay: one Ethernet across all hosts by VXLAN (RFC 7348), in Docker also inside IPsec."""

import functools
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork, Lan
from pairlab.testbed.endpoints import UPLINK, EndpointPlan
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_programs

#: The network's identifier, and VXLAN's port assigned by IANA.
VNI, PORT = 77, 4789

IP, UNSHARE = Program("ip", "iproute2"), Program("unshare", "util-linux")
#: Docker's encryption: AES in Galois/counter mode, with a check value of 64 bits (RFC 4106).
ALGORITHM, CHECK_BITS = "rfc4106(gcm(aes))", 64


class Overlay(BridgedNetwork):
    """On each host a bridge with a veth pair to each endpoint, and a VXLAN link to the other hosts.

    Forwarding entries on each host give the endpoints' hosts; nothing is learned by flooding (ip-link(8): nolearning).
    """

    name = "overlay"
    summary = "a bridge on each host, joined by VXLAN"
    isolation = "encapsulated"
    cannot = "cross a network that drops UDP port 4789, nor keep 1500-byte packets whole on an MTU of 1500"
    links = ("bridge", "veth", "vxlan")
    spans_hosts = True
    max_endpoints = BridgedNetwork.max_endpoints - 1  # the tunnel is a port, too
    overhead_bytes = 50  # Ethernet, IPv4, UDP, VXLAN
    docker = DockerNetwork(driver="overlay", swarm=True)

    def create(self, lan: Lan) -> None:
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

    def add_remote(self, lan: Lan, endpoint: EndpointPlan) -> None:
        (host,) = (each for each in lan.others if each.index == endpoint.host)
        lan.add_forwarding(self.tunnel, endpoint.mac, host.address)

    def facts(self) -> Mapping[str, Any]:
        return {"tunnel": {"kind": "vxlan", "id": VNI, "port": PORT}} if self.tunnel else {}


class OverlayEncrypted(Overlay):
    """A swarm's overlay network with `--opt encrypted`: traffic between hosts is encrypted.

    Between containers of one host nothing is encrypted, as in any overlay.
    """

    name = "overlay-encrypted"
    summary = "Docker's overlay with IPsec between hosts"
    isolation = "encrypted"
    needs_hosts = True
    absent_in = ("netns", "ssh", "uml")
    overhead_bytes = Overlay.overhead_bytes + 26  # as Docker counts it: ESP's header, IV, trailer and check value
    docker = DockerNetwork(driver="overlay", swarm=True, options={"encrypted": ""})

    @classmethod
    def missing(cls) -> list[MissingRequirement]:
        if missing := missing_programs((UNSHARE, IP)):
            return missing
        if os.geteuid() != 0 or _has_ipsec():  # only root can test it, and only root has Docker hosts
            return []
        remedy = "sudo modprobe -a esp4 gcm, or take driver 'overlay'"
        return lacking(f"this kernel has no IPsec with {ALGORITHM}", remedy)


@functools.cache
def _has_ipsec() -> bool:
    """Whether the kernel accepts such a state (ip-xfrm(8)); tested in a temporary network namespace, and assumed where
    none can be made.
    """
    path = ["src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "1", "mode", "transport"]
    state = [*path, "aead", ALGORITHM, "0x" + 20 * "00", str(CHECK_BITS)]
    trial = [UNSHARE.command, "--net", IP.command, "xfrm", "state", "add", *state]
    done = subprocess.run(trial, capture_output=True, check=False)
    return done.returncode == 0 or done.stderr.startswith(b"unshare: ")
