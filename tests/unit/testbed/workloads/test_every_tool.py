"""Every tool: its report is read, and refused where it is cut off (anything else: test_input_reports)."""

import json
import re

import pytest

from pairlab.model.tables import TABLES, table
from pairlab.testbed import registry
from pairlab.testbed.contracts import FEATURES
from tests.unit.testbed.workloads.helpers import REPORTS, captured, only, reporting, reports_of


def test_every_workload_that_reports_has_captured_output():
    for workload in reporting():
        assert reports_of(workload), f"capture what {workload.name} prints"


@pytest.mark.parametrize(("workload", "report"), REPORTS)
def test_output_cut_off_anywhere_is_refused(workload, report):
    last_line = report.rstrip().rfind("\n" if workload.name != "iperf3" else "}")
    for end in range(0, last_line, 41):
        with pytest.raises(ValueError, match=r"\w"):
            workload.parse(report[:end])


@pytest.mark.parametrize(("workload", "report"), REPORTS)
def test_what_is_read_fits_the_tables(workload, report):
    measured = only(workload.parse(report))
    flows = table("flows", [{"pair": 0, "flow": 0, **measured.flow}], workload.metrics)
    intervals = table("intervals", [{"pair": 0, "flow": 0, "warmup": False, **row} for row in measured.intervals])
    of_bytes = flows["flow_bytes"][0] * 8 / flows["duration_s"][0]
    assert flows["throughput_bps"][0] == pytest.approx(of_bytes, rel=1e-3, nan_ok=not workload.sends_traffic)
    if "intervals" in workload.features:
        assert intervals["retransmits"].sum() == flows["retransmits"][0]
        assert set(measured.intervals[0]) <= set(TABLES["intervals"])


@pytest.mark.parametrize("name", registry.workloads.names())
def test_only_a_tool_whose_containers_all_exchange_messages_has_ranks(name):
    """A feature that a tool is told to have and has not would be left out without a word."""
    workload = registry.workloads.get(name)
    assert ("ranks" in workload.features) == workload.all_connect
    assert workload.features <= set(FEATURES)


#: By captured output: how the reason begins.
WENT_WRONG = {
    "flowgen-0.1.0-refused.jsonl": "cannot connect to 127.0.0.1:5299: Connection refused; a server must listen there",
    "flowgen-0.1.0-server-died.jsonl": "the connection broke: Connection reset by peer",
    "iperf-2.1.8-refused.txt": "reported no transfer",
    "iperf3-3.12-refused.json": "unable to connect to server: Connection refused",
    "iperf3-3.12-terminated.json": "interrupt - the client has terminated",
    "iperf3-3.12-server-died.json": "unable to write to stream socket: Connection reset by peer",
    "netperf-2.7.1-refused.txt": "establish control: are you sure there is a netserver listening",
    "rr-0.3.0-server-died.jsonl": "the connection broke: ",
    "sockperf-3.7-refused.txt": ".*errno=111 Connection refused",
    "sockperf-3.7-server-died.txt": ".*A connection was forcibly closed by a peer",
    "sockperf-ping-pong-3.7-refused.txt": ".*Connection refused",
    "sockperf-ping-pong-3.7-server-died.txt": ".*A connection was forcibly closed by a peer",
}


@pytest.mark.parametrize(("file", "told"), WENT_WRONG.items(), ids=WENT_WRONG)
def test_what_went_wrong_is_told_in_the_tools_own_words(file, told):
    name = re.match(r"(.*?)-\d", file)[1]
    try:
        (measured,) = registry.workloads.get(name)().parse(captured(file))
        assert measured.flow == {}
        said = measured.error
    except ValueError as error:
        said = str(error)
    assert re.match(f"{name}:? {told}", said)


@pytest.mark.parametrize("file", ["rr-0.3.0-one.jsonl", "all-to-all-0.3.0-client.jsonl"])
def test_a_histogram_that_lacks_transactions_is_refused(file):
    latencies, total = captured(file).splitlines()
    fewer = json.loads(latencies)
    fewer["buckets"] = fewer["buckets"][1:]
    with pytest.raises(ValueError, match="not as many latencies as it counted"):
        registry.workloads.get(file.partition("-0")[0])().parse(f"{json.dumps(fewer)}\n{total}\n")
