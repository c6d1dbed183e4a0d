"""A cable: the limit that other networks are held against."""

from pairlab.testbed.contracts import NetworkDriver


class PointToPoint(NetworkDriver):
    """One veth pair from each client to its server, with nothing in between."""

    name = "p2p"
    summary = "a veth pair from each client to its server, nothing in between; the limit of the others"
    isolation = "cable"
    links = ("veth",)
    pairs_apart = True

    def attach(self, lan, endpoint):
        if endpoint.side == "client":
            self.client = endpoint
        else:
            lan.add_cable(self.client, endpoint)
