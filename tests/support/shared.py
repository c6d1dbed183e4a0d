"""One measurement for each backend, driver and workload, which many tests read; none of them changes it."""

import functools
from dataclasses import dataclass, field

import pytest

from pairlab import Spec, measure
from pairlab.model.records import Run
from pairlab.testbed import registry
from pairlab.testbed.host.live_sampler import Sample
from pairlab.testbed.process_launcher import Gate, ProcessLauncher
from tests.conftest import need, need_all_of
from tests.support import host, sockets
from tests.support.attempts import ATTEMPTS

#: The size of each flow where a workload cannot send for a given time.
FLOW_BYTES = 2_000_000


@dataclass
class AtRelease:
    """What one endpoint's process could see of its own network, when all were ready and none had been released."""

    address: str
    port: int | None  # that the launcher waited for; None: a client's
    neighbours: set[str]
    listening: set[tuple]


@dataclass
class Observed:
    """A run, with what was seen beside it."""

    run: Run
    samples: list[Sample]
    at_release: dict[str, AtRelease] = field(default_factory=dict)  # by endpoint: client-0, server-0, ...
    new_listeners: set[tuple] = field(default_factory=set)  # on the host itself, at the release and not before


def asking(workload, **values):
    """A spec of 2 pairs and, unless told otherwise, 1 s of traffic, or one flow where it can do no other."""
    can = registry.workloads.get(workload).features
    sends = {"duration_s": 1} if "time" in can else {"duration_s": 20, "flow_bytes": FLOW_BYTES}
    if "sizes" in can:
        sends |= {"flow_sizes": "prv2-1", "offered_load_bps": 1e8, "flows_per_pair": 64}
    if "transactions" in can:  # so that they carry as much as can be compared
        sends |= {"request_bytes": 1000, "response_bytes": 1000}
    if workload == "sockperf-under-load":
        sends |= {"requests_per_s": 2000.0}
    return Spec(workload=workload, **{"pairs": 2, "max_skew_s": 5, "max_foreign_cpu": 1, **sends, **values})


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    """shared_run(backend, driver, workload) -> Observed: 2 pairs, measured when first asked for.

    flowgen's traffic lasts 2 s, for several samples, and the others' 1 s.

    Skips the test where this machine cannot do it. That nothing was left on the host is asserted here.
    """
    root = tmp_path_factory.mktemp("shared") / "runs"

    @functools.cache
    def shared(backend, driver, workload):
        need(backend, driver, workload)
        lasting = {"duration_s": 2} if workload == "flowgen" else {}
        return watched(asking(workload, backend=backend, driver=driver, **lasting), root)

    return lambda backend, driver, workload="flowgen": shared(backend, driver, workload)


@pytest.fixture(scope="session")
def shared_datagrams(tmp_path_factory):
    """shared_datagrams(backend, driver) -> Observed: 2 pairs of UDP, half a second of it, as shared_run.

    Datagrams are as large as links of 9000 bytes take, where the driver has links.
    """
    root = tmp_path_factory.mktemp("datagrams") / "runs"

    @functools.cache
    def shared_datagrams(backend, driver):
        large = {"mtu_bytes": 9000, "message_bytes": 8972} if registry.drivers.get(driver).has_links() else {}
        asked = {"udp_share": 1.0, "udp_rate_bps": 1e7, "duration_s": 0.5, **large}
        spec = asking("flowgen", backend=backend, driver=driver, **asked)
        need_all_of(spec)
        return watched(spec, root)

    return shared_datagrams


def watched(spec, root, *, attempts=ATTEMPTS):
    before, listening_before = host.snapshot(), sockets.listening_here()
    seen, processes = Observed(None, []), []
    real_start, real_release = ProcessLauncher.start, Gate.release

    def start(launcher, commands, *, options=None, **others):
        started = real_start(launcher, commands, options=options, **others)
        processes.extend(zip(started, options or [[]] * len(started), strict=True))
        return started

    def release(gate):
        alive = [each for each in processes if not each[0].ended and each[0].pid]  # none: one of another kernel's
        seen.at_release = {process.endpoint.name: look(process, options) for process, options in alive}
        seen.new_listeners = sockets.listening_here() - listening_before
        seen.samples.clear()  # those of a disturbed attempt
        return real_release(gate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProcessLauncher, "start", start)
        patch.setattr(Gate, "release", release)
        seen.run = measure(spec, root=root, fresh=True, attempts=attempts, watch=seen.samples.append)
    assert host.settled(before), host.difference(before)
    return seen


def look(process, options):
    place = f"/proc/{process.pid}/net"
    port = int(options[1]) if options and options[0].startswith("--listen") else None
    return AtRelease(process.endpoint.address, port, sockets.neighbours(place), sockets.listening_in(place))
