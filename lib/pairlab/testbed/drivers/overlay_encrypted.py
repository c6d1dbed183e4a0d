"""Docker's encrypted overlay: VXLAN between hosts inside IPsec (RFC 4303)."""

from pairlab.testbed.contracts import DockerNetwork
from pairlab.testbed.drivers.overlay import Overlay
from pairlab.testbed.requirements import Lack, Program

IP = Program("ip", "iproute2")
#: What Docker asks the kernel for: AES in Galois/counter mode, with a check value of 64 bits (RFC 4106).
ALGORITHM, CHECK_BITS = "rfc4106(gcm(aes))", 64


class OverlayEncrypted(Overlay):
    """A swarm's overlay network made with `--opt encrypted`: hosts encrypt what they send each other.

    Between containers of one host nothing is encrypted, and it is an overlay as any.
    """

    name = "overlay-encrypted"
    summary = "Docker's overlay with IPsec between hosts"
    needs_hosts = True
    absent_in = ("netns",)
    overhead_bytes = Overlay.overhead_bytes + 26  # as Docker counts it: ESP's header, IV, trailer and check value
    docker = DockerNetwork(driver="overlay", swarm=True, options={"encrypted": ""})

    @classmethod
    def lacks(cls):
        from pairlab.testbed.netns import sandbox  # heavy, and for whoever asks only

        if missing := IP.lack():
            return [missing]
        if not sandbox.missing_probed(cls):
            return []
        remedy = "sudo modprobe -a esp4 gcm, or take driver 'overlay'"
        return [Lack(f"this kernel has no IPsec with {ALGORITHM}", remedy)]

    def probe(self, lan):
        path = ["src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "1", "mode", "transport"]
        key = "0x" + 20 * "00"
        lan.run([IP.path(), "xfrm", "state", "add", *path, "aead", ALGORITHM, key, str(CHECK_BITS)])
