"""none: the kernel's scheduler places every endpoint."""

from pairlab.testbed.contracts import Pinning


class Unpinned(Pinning):
    """Binds no endpoint; the scheduler may use all that `cores` allows."""

    name = "none"
    summary = "each endpoint runs wherever the scheduler puts it"

    def place(self, pairs, cores):
        return {}
