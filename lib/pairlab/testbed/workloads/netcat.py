"""OpenBSD's netcat under its name in Debian, the tool of Boeira et al. 2021 for a flow of 5 MB."""

from pathlib import Path

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, Site, Workload
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

#: The payload is a file in the testbed's working directory.
MOST_BYTES = 1 << 30

PIECE_BYTES = 1 << 20


class Netcat(Workload):
    """One TCP flow of flow_bytes, from a file; it is complete when the client exits.

    With -N the client shuts down its side when done, and exits when the server has read everything and closed, so after
    the last byte's arrival. The time counts from the client's start, as in the papers: netcat reports no connection. A
    client whose connection breaks still exits with 0; the server's own exit shows whether it died.
    """

    name = "netcat"
    summary = "OpenBSD netcat: a TCP flow of given size (the papers' tool for that)"
    features = frozenset({"bytes", "ipv6"})
    programs = (Program("nc.openbsd", "netcat-openbsd"),)
    version_argv = ("nc.openbsd", "-h")
    exit_grace_s = 0.0
    serves_once = True
    prints_payload = True

    def check(self, spec: Spec) -> None:
        if (most := max(spec.flow_bytes, spec.elephant_bytes)) > MOST_BYTES:
            raise BadSpec(f"netcat sends a file of at most {MOST_BYTES} bytes, not {most}: take flowgen instead")

    def prepare(self, spec: Spec, directory: Path) -> None:
        for size in {spec.flow_bytes, spec.elephant_bytes} - {0}:
            with open(directory / _name(size), "wb") as file:  # no holes, which would be read faster than data
                for begin in range(0, size, PIECE_BYTES):
                    file.write(b"n" * min(PIECE_BYTES, size - begin))
            (directory / _name(size)).chmod(0o644)  # a container's user is not ours

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return ["nc.openbsd", "-n", "-d", "-l", pair.server.address, str(pair.port)]

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return ["nc.openbsd", "-n", "-N", pair.target, str(pair.port)]

    def client_reads(self, pair: Pair, spec: Spec, site: Site) -> str:
        return f"{site.directory}/{_name(pair.task.flow_bytes)}"

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        if stdout:
            raise ValueError("netcat printed data of a server, but ours sends none")
        return [FlowReport({})]


def _name(size: int) -> str:
    return f"payload-{size}"
