"""The capture of packets: what it is asked for, what it takes, and what a run and its readers are told of it."""

from types import SimpleNamespace

import pytest

from pairlab.errors import Unavailable
from pairlab.measurement.capture import Capture
from pairlab.measurement.measure import check
from pairlab.model.spec import Spec
from pairlab.testbed.capture import MOST_PACKETS, SNAP_BYTES, command
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.netns import sandbox
from pairlab.testbed.process_launcher import Process
from pairlab.testbed.requirements import Program
from tests.conftest import need

#: What tcpdump 4.99.3 prints to stderr.
ENDED = """tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 96 bytes
1204 packets captured
1250 packets received by filter
46 packets dropped by kernel
"""


def test_endpoints_are_captured_in_whichever_order_they_are_named():
    spec = Spec(pairs=2, capture="server-1,client-0,server-1")
    assert spec.capture == "client-0,server-1"
    assert spec.key == Spec(pairs=2, capture="client-0,server-1").key != Spec(pairs=2).key
    assert "packets captured in client-0 and server-1" in str(spec)


def test_what_is_kept_is_bounded():
    argv = command("eth0", "/x/client-0.pcap")
    assert (argv[argv.index("-s") + 1], argv[argv.index("-c") + 1]) == (str(SNAP_BYTES), str(MOST_PACKETS))
    assert MOST_PACKETS * (SNAP_BYTES + 16) < 60e6


@pytest.mark.parametrize(
    ("root", "tcpdump", "why"),
    [
        (True, False, "packet capture: tcpdump is not installed: sudo apt-get install tcpdump"),
        (False, True, "packet capture: tcpdump captures as root only: run pairlab as root"),
    ],
)
def test_what_a_capture_lacks_is_told_before_anything_is_built(monkeypatch, root, tcpdump, why):
    need("netns")
    path = Program.path
    monkeypatch.setattr(
        Program, "path", lambda each: path(each) if each.name != "tcpdump" else "/usr/bin/tcpdump" if tcpdump else None
    )
    monkeypatch.setattr(sandbox, "privileged", lambda: root)
    with pytest.raises(Unavailable) as refused:
        check(Spec(workload="flowgen", capture="client-0"))
    assert why in str(refused.value)


def test_a_run_records_what_was_kept_and_what_it_cost(tmp_path):
    endpoint = Endpoint("client-0", "10.77.0.1", lambda *given: None)
    fetched = []
    site = SimpleNamespace(fetch_files=lambda names, directory: fetched.append((names, directory)))
    bed = SimpleNamespace(directory=tmp_path, site=site)
    capture = Capture(bed)
    assert (capture.facts(), capture.raw(), fetched) == ({}, {}, [])
    (tmp_path / "client-0.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    told = {"start_ns": 10**9, "end_ns": 3 * 10**9, "cpu_s": 0.5, "ended": True, "stopped_ns": 2 * 10**9}
    capture.processes = [Process("client-0.7", endpoint, ("tcpdump",), stderr=ENDED, **told)]
    assert capture.facts() == {
        "capture": {"client-0": {"packets": 1204, "missed": 46, "full": False, "cpus_used": 0.25}}
    }
    assert capture.raw() == {"client-0.pcap": b"\xd4\xc3\xb2\xa1"}
    assert fetched == [(["client-0.pcap"], tmp_path)]
    capture.processes[0].stderr, capture.processes[0].stopped_ns = "", None
    assert capture.facts()["capture"]["client-0"] == {"packets": None, "missed": None, "full": True, "cpus_used": 0.25}
