"""netcat: it prints nothing, and sends files that are made beforehand."""

import pytest

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport
from pairlab.testbed.workloads.netcat import Netcat
from tests.unit.testbed.workloads.helpers import only


def test_netcat_tells_nothing_and_what_is_told_is_not_from_our_server():
    assert only(Netcat().parse("")) == FlowReport({})
    with pytest.raises(ValueError, match="netcat printed"):
        Netcat().parse("hello")


def test_netcat_sends_files_of_each_size_without_holes(tmp_path):
    Netcat().prepare(Spec(flow_bytes=5_000_001, elephant_bytes=6_000_000, elephant_share=0.5), tmp_path)
    assert {file.name: file.stat().st_size for file in tmp_path.iterdir()} == {
        "payload-5000001": 5_000_001,
        "payload-6000000": 6_000_000,
    }
    assert set((tmp_path / "payload-5000001").read_bytes()) == set(b"n")
