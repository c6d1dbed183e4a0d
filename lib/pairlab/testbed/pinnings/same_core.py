"""same-core: a pair shares one core."""

from pairlab.testbed.contracts import Pinning


class SameCore(Pinning):
    """Both ends of a pair on one core; pairs are dealt to the cores in turn. Source: paper C, fig. 9."""

    name = "same-core"
    summary = "both ends of a pair on one core"

    def place(self, pairs, cores):
        return {f"{side}-{index}": cores[index % len(cores)] for index in range(pairs) for side in ("client", "server")}
