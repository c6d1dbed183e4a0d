"""netcat, with which papers C and E sent a flow of 5 MB: OpenBSD's, under the name it has in Debian."""

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.requirements import Program

#: The payload is a file in the testbed's working directory.
MOST_BYTES = 1 << 30

PIECE_BYTES = 1 << 20


class Netcat(Workload):
    """One TCP flow of flow_bytes, from a file; it is complete when its client ends.

    With -N the client closes its side when done, and ends when the server has read that and closed, so its end is after
    the last byte's arrival. It counts from the client's start, as in the papers: it reports no connection. A client
    whose connection breaks still exits with 0; that its server died is known from the server.
    """

    name = "netcat"
    summary = "OpenBSD netcat: a TCP flow of given size (the papers' tool for that)"
    can = frozenset({"bytes"})
    programs = (Program("nc.openbsd", "netcat-openbsd"),)
    version_argv = ("nc.openbsd", "-h")
    ends_by_itself_s = 0.0
    serves_once = True
    prints_payload = True

    def check(self, spec):
        if (most := max(spec.flow_bytes, spec.elephant_bytes)) > MOST_BYTES:
            raise BadSpec(f"netcat sends a file of at most {MOST_BYTES} bytes, not {most}: take flowgen instead")

    def prepare(self, spec, directory):
        for size in {spec.flow_bytes, spec.elephant_bytes} - {0}:
            with open(directory / _name(size), "wb") as file:  # no holes: they would be read faster than data
                for begin in range(0, size, PIECE_BYTES):
                    file.write(b"n" * min(PIECE_BYTES, size - begin))
            (directory / _name(size)).chmod(0o644)  # a container's user is not ours

    def server(self, pair, spec, site):
        return ["nc.openbsd", "-n", "-d", "-l", pair.server.address, str(pair.port)]

    def client(self, pair, spec, site):
        return ["nc.openbsd", "-n", "-N", pair.target, str(pair.port)]

    def client_reads(self, pair, spec, site):
        return f"{site.directory}/{_name(pair.task.flow_bytes)}"

    def parse(self, stdout, served=""):
        if stdout:
            raise ValueError("netcat printed data of a server, but ours sends none")
        return [Measured({})]


def _name(size):
    return f"payload-{size}"
