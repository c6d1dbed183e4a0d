"""The interfaces of drivers, workloads and backends. Read this first.

A *testbed* is a number of client/server pairs of *endpoints* on one network. A backend makes the endpoints
(containers, or bare network namespaces), a driver connects them, a workload gives the commands that run in them and
parses their output, and a pinning (pinnings.py) binds each endpoint to a core. A plugin is a class in a file of its
folder, or an entry point of another package; no other file has to mention it.

Nothing heavy is imported here, as the process inside a sandbox starts with it.
"""

from pairlab.model.metrics import Metric
from pairlab.testbed.contracts.backends import Backend, Layout, Progress, Site, no_progress
from pairlab.testbed.contracts.networks import ISOLATIONS, BridgedNetwork, DockerNetwork, NetworkDriver
from pairlab.testbed.contracts.reports import incomplete, transaction_totals
from pairlab.testbed.contracts.rounds import USUAL_MESSAGE_BYTES, AllToAllWorkload
from pairlab.testbed.contracts.workloads import (
    FEATURES,
    MOST_DATAGRAM_BYTES,
    FlowgenWorkload,
    FlowReport,
    FlowTable,
    Workload,
    token_options,
    write_token,
)
from pairlab.testbed.links.lan import Daemon, Lan
