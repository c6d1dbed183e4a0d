"""What a driver, a workload, a pinning and a backend are. Read this first.

A *testbed* is a number of client/server pairs of *endpoints* on one network. A backend makes the endpoints
(containers, or bare network namespaces), a driver connects them, a workload says what runs in them and reads what
it printed, and a pinning binds each to a core. A plugin is one class in one file of its folder, or an entry point of
another package; no other file has to mention it.

Nothing heavy is imported here, as the process inside a sandbox starts with it.
"""

from pairlab.model.metrics.declared import Metric
from pairlab.testbed.contracts.backends import Backend, Progress, silent
from pairlab.testbed.contracts.networks import ISOLATIONS, BridgedNetwork, Daemon, DockerNetwork, Lan, NetworkDriver
from pairlab.testbed.contracts.pinnings import Pinning
from pairlab.testbed.contracts.rounds import USUAL_MESSAGE_BYTES, AllToAllWorkload
from pairlab.testbed.contracts.sites import Site
from pairlab.testbed.contracts.workloads import (
    FEATURES,
    FlowTable,
    Measured,
    Workload,
    incomplete,
    transaction_totals,
)

__all__ = [
    "FEATURES",
    "ISOLATIONS",
    "USUAL_MESSAGE_BYTES",
    "AllToAllWorkload",
    "Backend",
    "BridgedNetwork",
    "Daemon",
    "DockerNetwork",
    "FlowTable",
    "Lan",
    "Measured",
    "Metric",
    "NetworkDriver",
    "Pinning",
    "Progress",
    "Site",
    "Workload",
    "incomplete",
    "silent",
    "transaction_totals",
]
