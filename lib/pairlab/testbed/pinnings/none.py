"""none: the kernel's scheduler places every endpoint."""

from pairlab.testbed.contracts import Pinning


class Unpinned(Pinning):
    """Binds nobody; what `cores` allows is for the scheduler to use."""

    name = "none"
    summary = "each endpoint runs wherever the scheduler puts it"

    def place(self, pairs, cores):
        return {}
