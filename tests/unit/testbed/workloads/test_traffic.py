"""flowgen traffic's report, its commands, and its flows as it records them."""

import errno
from types import SimpleNamespace

import numpy as np
import pytest

from pairlab import Spec
from pairlab.measurement.flow_table import read_table
from pairlab.model import flow_records
from pairlab.testbed.endpoints import Endpoint, Pair
from pairlab.testbed.process_launcher import Process
from pairlab.testbed.workloads.traffic import Traffic, seed_of
from tests.support import CAPTURED

WHOLE, DIED = ((CAPTURED / f"traffic-0.3.0-{name}.jsonl").read_text() for name in ("one", "server-died"))
SPEC = Spec(workload="traffic", flow_sizes="prv2-1", offered_load_bps=1e8, requests=4, pairs=2)
NS = 10**9


def test_a_report_has_the_payload_and_the_load_of_all_flows():
    (total,) = Traffic().parse(WHOLE)
    assert total.flow["throughput_bps"] == pytest.approx(total.flow["flow_bytes"] * 8 / total.flow["duration_s"], 1e-6)
    assert total.flow["throughput_bps"] == pytest.approx(1e8, rel=0.05)


def test_a_report_of_which_some_flows_failed_is_whole():
    (total,) = Traffic().parse(DIED)
    assert total.error == ""
    assert total.flow["throughput_bps"] < 0.95e8


def test_without_a_complete_flow_the_report_says_why():
    lost = '{"event":"traffic","flow_bytes":0,"error":"Connection reset by peer"}'
    assert Traffic().parse(lost)[0].error == "traffic: Connection reset by peer"


def test_each_repetition_draws_anew_and_all_drivers_draw_the_same():
    assert seed_of(SPEC) == seed_of(SPEC.replace(driver="macvlan", offered_load_bps=1e9))
    assert len({seed_of(SPEC.replace(repetition=n, seed=seed)) for n in range(3) for seed in range(3)}) == 9


@pytest.fixture
def recorded(tmp_path):
    """The folder of a client that made three flows and failed with one; recorded as they ended."""
    flows = np.zeros(4, flow_records.RECORD)
    flows["request"], flows["server"] = [1, 0, 3, 2], [1, 0, 0, 1]
    flows["flow_bytes"] = [1000, 2000, 3000, 4000]
    flows["received_bytes"] = [1000, 2000, 3000, 0]
    flows["intended_ns"] = [11 * NS, 10 * NS, 13 * NS, 12 * NS]
    flows["start_ns"] = flows["intended_ns"] + NS // 10
    flows["first_byte_ns"] = [12 * NS, 11 * NS, 14 * NS, 0]
    flows["completed_ns"] = [13 * NS, 12 * NS, 14 * NS, 0]
    flows["error"] = [0, 0, 0, errno.ECONNRESET]
    heading = b"flowgen traffic 1\n".ljust(flow_records.RECORD.itemsize, b"\0")
    (tmp_path / "flows").write_bytes(heading + flows.tobytes())
    return tmp_path


def process(name, **values):
    end = Endpoint(name, "10.77.0.1", None)
    return Process(name, end, (), ended=True, start_ns=9 * NS, end_ns=15 * NS, **{"exit_code": 0, **values})


def test_flows_are_rows_in_the_order_of_their_requests_with_times_from_the_release(recorded):
    client, servers = (
        process("client-0", exit_code=1, cpu_s=2.0, stdout=DIED),
        [process(f"server-{n}", cpu_s=n) for n in (0, 1)],
    )
    reading = read_table(
        SPEC, Traffic(), client, servers, 10 * NS, recorded, [("host-0", "host-0"), ("host-0", "host-1")]
    )
    flows = reading.table
    assert list(zip(flows["pair"], flows["flow"], flows["request"], strict=True)) == [
        *[(0, 0, 0.0), (1, 0, 1.0), (1, 1, 2.0), (0, 1, 3.0)]
    ]
    assert list(flows["status"]) == ["ok", "ok", "failed", "ok"]
    assert list(flows["error"]) == ["", "", "flowgen: Connection reset by peer", ""]
    assert list(flows["server_host"]) == ["host-0", "host-1", "host-1", "host-0"]
    assert flows["intended_start_s"].to_list() == [0, 1, 2, 3]
    assert flows["fct_s"].dropna().to_list() == pytest.approx([1.9, 1.9, 0.9])
    assert flows["intended_fct_s"].dropna().to_list() == [2, 2, 1]
    assert flows.loc[2, ["completed_s", "first_byte_s", "fct_s", "flow_bytes", "throughput_bps"]].isna().all()
    assert flows["throughput_bps"].dropna().to_list() == pytest.approx([16000 / 1.9, 8000 / 1.9, 24000 / 0.9])
    assert flows["client_cpu_s"].dropna().to_dict() == {0: 2.0}
    assert flows["server_cpu_s"].dropna().to_dict() == {0: 0.0, 1: 1.0}
    assert (reading.count, reading.failed, reading.first_error) == (4, 1, "flowgen: Connection reset by peer")
    assert reading.checks["unbegun"] == 0.0
    assert reading.received_bytes == {}  # of a failed flow it is not known


def test_flowgen_waits_for_requests_that_fall_behind_as_long_as_the_time_limit_allows():
    ends = [Endpoint(name, f"10.77.0.{n}", None) for n, name in enumerate(("client-0", "server-0"), 1)]
    site = SimpleNamespace(flowgen="flowgen", directory="/x")
    argv = {}
    for behind in (False, True):
        pair = Pair(0, *ends, port=5001, task=None, targets=(("10.77.0.2", 5001),))
        argv[behind] = Traffic().client(pair, SPEC.replace(may_fall_behind=behind, duration_s=30.0), site)
    assert "--limit" not in argv[False]
    assert argv[True][-6:] == ["--limit", "30", "--requests", "4", "--within", "30"]


def test_requests_that_may_fall_behind_are_incomplete_where_their_flows_ran_out_of_time(recorded):
    client, servers = process("client-0", exit_code=1, stdout=DIED), [process("server-0"), process("server-1")]
    behind = SPEC.replace(may_fall_behind=True)
    assert read_table(behind, Traffic(), client, servers, 10 * NS, recorded).checks["incomplete"] == 0.0
    flows = np.fromfile(recorded / "flows", flow_records.RECORD)
    flows["error"][-1] = errno.ETIMEDOUT
    flows.tofile(recorded / "flows")
    assert read_table(behind, Traffic(), client, servers, 10 * NS, recorded).checks["incomplete"] == 0.25
    assert read_table(SPEC, Traffic(), client, servers, 10 * NS, recorded).checks["incomplete"] is None


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ({"signal": 9, "exit_code": None}, "ended by signal 9"),
        ({"exit_code": 2, "stderr": "flowgen traffic: no"}, "ended with 2: flowgen traffic: no"),
        ({"stdout": ""}, "no complete report: 0 lines"),
    ],
)
def test_of_a_client_that_came_to_no_end_each_pair_has_a_failed_flow(recorded, client, why):
    servers = [process("server-0"), process("server-1")]
    reading = read_table(SPEC, Traffic(), process("client-0", **{"stdout": WHOLE, **client}), servers, 0, recorded)
    assert list(reading.table["status"]) == ["failed"] * 2
    assert why in reading.first_error
