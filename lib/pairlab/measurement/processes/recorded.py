"""What a record says of a testbed before anything is measured on it."""

from collections.abc import Sequence

from pairlab._version import __version__
from pairlab.model.metrics import declared
from pairlab.testbed.contracts import Workload
from pairlab.testbed.host import facts
from pairlab.testbed.open import Testbed


def facts_of(bed: Testbed, workloads: Sequence[Workload]) -> dict:
    """What is known before there is traffic. workloads: the first is that of the pairs that are measured."""
    client, flowgen = bed.first, bed.site.flowgen
    versions = {"pairlab": __version__, "flowgen": facts.version(client, (flowgen, "version"))}
    for workload in workloads:
        if command := workload.version_command(flowgen):
            versions[workload.name] = facts.version(client, command)
    return {
        "host": facts.host(),
        "hosts": facts.hosts(bed.plan.hosts),
        "network": dict(bed.site.facts()),
        "versions": versions,
        "waits_s": workloads[0].waits_s,
        **declared.as_fact(tuple(workloads[0].metrics)),
    }
