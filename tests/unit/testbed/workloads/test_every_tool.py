"""Every tool: its report is read, what is cut off is refused, and so is any text at all, with a reason."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.model.tables import TABLES, table
from pairlab.testbed import registry
from pairlab.testbed.contracts import FEATURES
from pairlab.testbed.workloads import iperf, netperf, sockperf
from tests.support import CAPTURED, CAPTURED_BY_ALL
from tests.support.edited import edited, places
from tests.unit.testbed.workloads.helpers import REPORTS, captured, only, reporting, reports_of, workloads


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
    assert flows["throughput_bps"][0] == pytest.approx(of_bytes, rel=1e-3, nan_ok=not workload.carries)
    if "intervals" in workload.can:
        assert intervals["retransmits"].sum() == flows["retransmits"][0]
        assert set(measured.intervals[0]) <= set(TABLES["intervals"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["event", "end", "streams", "sender", "intervals", "seconds", "bytes", "error"])
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=8,
)


DAMAGED = (
    "rr-0.3.0-one.jsonl",
    "rr-0.3.0-udp.jsonl",
    "iperf3-3.12-one.json",
    "iperf3-3.12-shaped.json",
    "flowgen-0.1.0-one.jsonl",
    "flowgen-0.2.0-finite-client.jsonl",
    "flowgen-0.2.0-finite-server.jsonl",
    "flowgen-0.2.0-udp-client.jsonl",
    "flowgen-0.3.0-both-client.jsonl",
    "all-to-all-0.3.0-one.jsonl",
    *(file.name for folder in CAPTURED_BY_ALL if folder != CAPTURED for file in sorted(folder.glob("*.jsonl"))),
)


def damaged_reports():
    """Whole reports in which one value, anywhere, is another."""

    def damaged(name):
        lines = [json.loads(line) for line in _documents(name)]
        where = list(places(lines))
        return st.tuples(st.sampled_from(where), json_values).map(lambda chosen: _with(lines, *chosen))

    return st.sampled_from(DAMAGED).flatmap(damaged)


def _documents(name):
    return captured(name).splitlines() if name.endswith("jsonl") else [captured(name)]


def _with(documents, path, value):
    return "\n".join(json.dumps(document) for document in edited(documents, path, value))


any_text = st.one_of(
    st.text(),
    st.from_regex(iperf.LINE),
    st.tuples(*map(st.from_regex, (sockperf.TOTAL, sockperf.RATE, sockperf.BANDWIDTH))).map("\n".join),
    st.lists(st.from_regex(iperf.LINE), max_size=4).map("\n".join),
    st.lists(st.from_regex(iperf.LINE) | st.from_regex(iperf.CONNECTED), max_size=6).map("\n".join),
    st.lists(st.from_regex(sockperf.ARRIVED), max_size=4).map("\n".join),
    st.tuples(*map(st.from_regex, (sockperf.RAN, sockperf.BUCKET, sockperf.WINDOW))).map("\n".join),
    st.lists(st.from_regex(netperf.LINE), max_size=4).map("\n".join),
    json_values.map(json.dumps),
    st.lists(json_values.map(json.dumps), max_size=3).map("\n".join),
    damaged_reports(),
)


@given(any_text, any_text)
def test_any_text_is_read_or_refused_with_a_reason(text, served):
    for workload in workloads():
        try:
            told = workload.parse(text, served)
        except ValueError as refused:
            reason = str(refused)
            assert reason
            continue
        assert told
        for measured in told:
            if "time" in workload.can and workload.carries and not measured.error:
                for column in ("duration_s", "flow_bytes", "throughput_bps"):
                    assert isinstance(measured.flow[column], (int, float))
            table("flows", [{"pair": 0, "flow": 0, **measured.flow}], workload.metrics)
            table("intervals", [{"pair": 0, "flow": 0, "warmup": False, **row} for row in measured.intervals])


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "null", '"end"', "[1]"])
def test_json_that_is_no_report_is_refused(text):
    for workload in workloads():
        with pytest.raises(ValueError, match=workload.name):
            workload.parse(text)


@pytest.mark.parametrize("name", registry.workloads.names())
def test_only_a_tool_whose_containers_all_exchange_messages_has_ranks(name):
    """A feature that a tool is told to have and has not would be left out without a word."""
    workload = registry.workloads.get(name)
    assert ("ranks" in workload.can) == workload.all_connect
    assert workload.can <= set(FEATURES)
