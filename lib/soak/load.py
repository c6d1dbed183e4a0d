"""Many pairs, brought up, measured and taken down several times in a row: what stays, and what a pair costs."""

import contextlib
import os
import re
import socket
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from pairlab import Spec, measure
from pairlab.testbed import plans
from pairlab.testbed.audit import snapshot
from pairlab.testbed.contracts import no_progress
from tests.faults import host_state

CONNTRACK = Path("/proc/net/nf_conntrack")
#: How long descriptors, links and the like may take to go; the kernel and Docker remove them behind our back.
SETTLE_S = 10.0
#: How much a process may grow from the second round to the last: the first loads what Python loads late, and what
#: pandas and the allocator keep differs a little from round to round.
GROWTH = 1.1

#: What is counted over the whole host, where others may be known to work meanwhile (faults/host_state.py).
HOST_WIDE = ("daemon_descriptors", "links", "namespaces", "conntrack_entries")
#: Connections that others may begin meanwhile, and the multicast that the kernel sends for each new network and
#: remembers for ten minutes; fewer than two rounds of the fewest pairs would leave.
OTHERS = {"conntrack_entries": 10}


@dataclass(frozen=True)
class Holdings:
    """What we, the Docker daemon and the host hold at a moment; -1 where that is not to be seen.

    threads: Python's, as libraries fill pools of their own when they please.
    """

    descriptors: int
    threads: int
    children: int
    rss_bytes: int
    daemon_descriptors: int
    links: int
    namespaces: int
    conntrack_entries: int

    def beyond(self, before: "Holdings") -> dict[str, int]:
        """What is held now and was not before, memory apart."""
        left_out = ("rss_bytes", *(HOST_WIDE if host_state.SHARED else ()))
        grown = {name: value - getattr(before, name) for name, value in asdict(self).items() if name not in left_out}
        return {name: more for name, more in grown.items() if more > OTHERS.get(name, 0)}


def holdings() -> Holdings:
    us = psutil.Process()
    daemon = _daemon()
    return Holdings(
        us.num_fds(),
        threading.active_count(),
        len(us.children(recursive=True)),
        us.memory_info().rss,
        _descriptors(daemon.pid) if daemon else -1,
        len(socket.if_nameindex()),
        _namespaces(),
        _conntrack_entries(),
    )


def settled(before: Holdings) -> Holdings:
    """What is held when no more than before is, at the latest after SETTLE_S."""
    deadline = time.monotonic() + SETTLE_S
    while (now := holdings()).beyond(before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


def _daemon() -> psutil.Process | None:
    return next((each for each in psutil.process_iter(["name"]) if each.info["name"] == "dockerd"), None)


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # root's, and we are not
        return -1


def _namespaces() -> int:
    """Network namespaces that some process is in."""
    found = set()
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return len(found)


def _conntrack_entries() -> int:
    """Connections that the host's namespace remembers, but for those begun by the host itself, which are others'."""
    own = {address.address for each in psutil.net_if_addrs().values() for address in each}
    try:
        begun_by = re.findall(r"^.*?\bsrc=(\S+)", CONNTRACK.read_text(), re.MULTILINE)
    except OSError:  # no such module loaded, or root's, and we are not
        return -1
    return sum(source not in own for source in begun_by)


def netns(record, *, quick: bool = False) -> None:
    """500 pairs in namespaces, brought up, measured for 10 s and taken down, five times in a row."""
    size = {"pairs": 60, "duration_s": 1.0} if quick else {"pairs": 500, "duration_s": 10.0}
    rounds(Spec(backend="netns", **size, **_PATIENT), 3 if quick else 5, record)


def docker(record, *, quick: bool = False) -> None:
    """150 pairs in Docker, 300 containers, brought up, measured for 10 s and taken down, five times in a row."""
    size = {"pairs": 8, "duration_s": 1.0} if quick else {"pairs": 150, "duration_s": 10.0}
    rounds(Spec(backend="docker", **size, **_PATIENT), 3 if quick else 5, record)


#: Not a measurement of contention: two slow cores may start hundreds of clients over a second, and others may work.
_PATIENT = {"workload": "flowgen", "interval_s": 0.5, "max_skew_s": 10.0, "max_foreign_cpu": 1.0}


def rounds(spec: Spec, count: int, record) -> None:
    """Measures `spec` that often; asserts that nothing of ours stays, and that we hold no more after each round.

    What loads or opens once and for all does so in the first round. Raises Unavailable where this host cannot.
    """
    _ready(spec)
    kept, grew = None, []
    record("pairs", spec.pairs)
    with tempfile.TemporaryDirectory() as place:
        before = snapshot.take()
        for number in range(count):
            run = measure(spec.replace(repetition=number), root=Path(place), progress=no_progress)
            assert run.status in ("ok", "invalid"), f"round {number}: {run.status}: {'; '.join(run.reasons)}"
            record("up_per_pair_ms", 1e3 * run.times_s["up_s"] / spec.pairs)
            record("down_per_pair_ms", 1e3 * run.times_s["down_s"] / spec.pairs)
            record("skew_ms", 1e3 * run.skew_s)
            record("failed_flows", run.failed_flows)
            record("verdict", run.status)
            record("clean_after_s", host_state.wait_clean(before, SETTLE_S))
            now = settled(kept or holdings())
            grew.append(now.rss_bytes)
            if kept:
                assert not (more := now.beyond(kept)), f"held after round {number} and not after the first: {more}"
            kept = kept or now
    record("rss_growth_percent", 100 * (grew[-1] / grew[1] - 1))
    assert grew[-1] <= GROWTH * grew[1], f"resident memory after each round: {grew}"


def _ready(spec: Spec) -> None:
    """Raises Unavailable where this host lacks the backend; builds what is built once, such as Docker's image."""
    plans.layout(spec).require()
    with tempfile.TemporaryDirectory() as place:
        measure(spec.replace(pairs=1, duration_s=0.5), root=Path(place), progress=no_progress)
