"""What the tests of parsers read: captured output of real tools, the version in the file's name.

Captured on loopback in a network namespace of its own; shaped: over a link of 100 Mbit/s. killed: what a client of 10 s
had written when it was killed; terminated: what one ended by SIGTERM after 1.8 s wrote; server-died: what one wrote
whose server was killed then; stopped: what client and server wrote when that of 60 s was ended after 2.2 s, and then
its server; lossy: of which 70 % of the packets were dropped for 3.5 s; udp: of whose datagrams 5 % were. Of
all-to-all, one is rank 1 of two, with messages of 1024 bytes.
"""

import pytest

from pairlab.testbed import registry
from tests.support import CAPTURED_BY_ALL


def captured(name):
    (file,) = [folder / name for folder in CAPTURED_BY_ALL if (folder / name).exists()]
    return file.read_text()


def only(told):
    """The one flow that a tool told of."""
    (measured,) = told
    assert measured.number == 0
    return measured


def workloads():
    return [registry.workloads.get(name)() for name in registry.workloads.names()]


def reports_of(workload):
    """The captured reports, one of each version, of the longest kind the tool has: of several intervals if it can."""
    kind = "several" if "intervals" in workload.features else "one"
    pattern = f"{workload.name}-[0-9]*-{kind}.*"  # not of sockperf-ping-pong, for sockperf
    return sorted(file for folder in CAPTURED_BY_ALL for file in folder.glob(pattern))


def reporting():
    """Workloads whose clients print a report; of the others, the launcher tells when they were done."""
    return [workload for workload in workloads() if "time" in workload.features]


#: Each tool that prints a report, with that of each version.
REPORTS = [
    pytest.param(workload, file.read_text(), id=file.name) for workload in reporting() for file in reports_of(workload)
]
