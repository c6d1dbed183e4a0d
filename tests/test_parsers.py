"""Reading what the tools print: captured output of real ones, the version in the file's name, and any text at all.

Captured on loopback in a network namespace of its own. killed: what a client of 10 s had written when it was killed;
terminated: what one ended by SIGTERM after 1.8 s wrote; server-died: what one wrote whose server was killed then.
"""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.errors import BadSpec
from pairlab.flows import whole, window
from pairlab.records import TABLES, table
from pairlab.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.contracts import Measured
from pairlab.testbed.workloads import iperf as iperf_module
from pairlab.testbed.workloads import sockperf as sockperf_module
from pairlab.testbed.workloads.flowgen import Flowgen
from pairlab.testbed.workloads.iperf import Iperf
from pairlab.testbed.workloads.iperf3 import Iperf3
from pairlab.testbed.workloads.netcat import Netcat
from pairlab.testbed.workloads.sockperf import Sockperf

CAPTURED = Path(__file__).parent / "captured"


def captured(name):
    return (CAPTURED / name).read_text()


def only(told):
    """The one flow that a tool told of."""
    (measured,) = told
    assert measured.number == 0
    return measured


def workloads():
    return [registry.workloads.get(name)() for name in registry.workloads.names()]


def report_of(workload):
    """A captured report of the longest kind the tool has: of several intervals, where it tells of those."""
    kind = "several" if "warmup" in workload.can else "one"
    (file,) = CAPTURED.glob(f"{workload.name}-*-{kind}.*")
    return file.read_text()


def reporting():
    """Workloads whose clients print a report; of the others, the launcher tells when they were done."""
    return [workload for workload in workloads() if "time" in workload.can]


def test_every_workload_that_reports_has_captured_output():
    for workload in reporting():
        assert report_of(workload), f"capture what {workload.name} prints"


# --- iperf 2


def test_iperf2_reports_the_last_line_as_the_total():
    measured = only(Iperf().parse(captured("iperf-2.1.8-several.txt")))
    assert measured.flow == {
        "duration_s": 2.0152,
        "flow_bytes": 4_389_994_556,
        "throughput_bps": 17_427_598_188,
        "retransmits": 24,
        "rtt_s": pytest.approx(76e-6),
        "cwnd_bytes": 1023 * 1024,
    }
    assert [row["interval_bytes"] for row in measured.intervals] == [
        982_777_916,
        1_134_166_016,
        1_189_740_544,
        1_083_179_008,
    ]
    assert measured.intervals[1] == {
        "start_s": 0.5,
        "end_s": 1.0,
        "interval_bytes": 1_134_166_016,
        "throughput_bps": 18_146_656_256,
        "retransmits": 2,
        "rtt_s": pytest.approx(73e-6),
        "cwnd_bytes": 1023 * 1024,
    }


def test_iperf2_reports_one_interval_and_then_the_total():
    measured = only(Iperf().parse(captured("iperf-2.1.8-one.txt")))
    assert (measured.flow["flow_bytes"], measured.flow["duration_s"]) == (2_154_168_380, 1.016)
    assert [(row["start_s"], row["end_s"], row["interval_bytes"]) for row in measured.intervals] == [
        (0.0, 1.0, 2_154_037_308)
    ]


def test_iperf2_keeps_a_shorter_last_interval():
    measured = only(Iperf().parse(captured("iperf-2.1.8-uneven.txt")))
    assert [(row["start_s"], row["end_s"]) for row in measured.intervals] == [(0.0, 1.0), (1.0, 1.5043)]
    assert (measured.flow["duration_s"], measured.flow["retransmits"]) == (1.5043, 22)


def test_iperf2_without_a_connection_reported_no_transfer():
    with pytest.raises(ValueError, match="iperf reported no transfer"):
        Iperf().parse(captured("iperf-2.1.8-refused.txt"))


@pytest.mark.parametrize("intervals", [1, 2, 3])
def test_iperf2_killed_midway_passes_no_interval_off_as_the_total(intervals):
    lines = captured("iperf-2.1.8-killed.txt").splitlines(keepends=True)
    kept = "".join(lines[: len(lines) - 3 + intervals])
    with pytest.raises(ValueError, match=rf"iperf reported no total, and its last interval at {intervals * 0.5:g} s"):
        Iperf().parse(kept)


def test_iperf2_reads_senders_that_tell_nothing_of_tcp():
    text = "".join(
        f"[  3] 0.00-{end} sec  1250000 Bytes  10000000 bits/sec  10/0\n" for end in ("1.00", "1.01")
    )  # what follows the rate is missing where the system has no TCP_INFO
    assert only(Iperf().parse(text)).flow == {
        "duration_s": 1.01,
        "flow_bytes": 1_250_000,
        "throughput_bps": 10_000_000,
    }


def test_iperf2_leaves_out_an_unknown_window():
    text = captured("iperf-2.1.8-one.txt").replace("1023K/", "-1K/")
    flow = only(Iperf().parse(text)).flow
    assert "cwnd_bytes" not in flow
    assert flow["retransmits"] == 10


def test_iperf2_tells_of_each_of_its_flows():
    told = Iperf().parse(captured("iperf-2.1.8-flows.txt"))
    assert [(flow.number, flow.flow["flow_bytes"], flow.flow["duration_s"]) for flow in told] == [
        (0, 461_035_580, 1.5667),
        (1, 247_689_276, 1.5666),
        (2, 215_824_444, 1.5570),
    ]
    assert sum(flow.flow["retransmits"] for flow in told) == 14
    assert [[row["interval_bytes"] for row in flow.intervals] for flow in told] == [
        [129_356_860, 154_955_776, 176_720_896],
        [80_711_740, 64_433_152, 102_542_336],
        [74_842_172, 64_358_400, 76_622_848],
    ]
    assert {flow.flow["congestion_control"] for flow in told} == {"reno"}


def test_iperf2_that_was_killed_midway_passes_no_flow_off_as_whole():
    whole_text = captured("iperf-2.1.8-flows.txt")
    with pytest.raises(ValueError, match=r"iperf reported no total, and its last interval at 1\.5 s"):
        Iperf().parse(whole_text[: whole_text.index("[  3] 0.0000-1.5570")])


# --- iperf3


def test_iperf3_reports_what_was_sent():
    measured = only(Iperf3().parse(captured("iperf3-3.12-several.json")))
    assert measured.flow == {
        "duration_s": 2.000451,
        "flow_bytes": 4_890_296_320,
        "throughput_bps": 19_556_775_227.186268,
        "retransmits": 56,
        "min_rtt_s": pytest.approx(52e-6),
        "rtt_s": pytest.approx(52e-6),
        "cwnd_bytes": 785_796,
        "congestion_control": "bbr",
    }
    assert [row["retransmits"] for row in measured.intervals] == [13, 23, 13, 7]
    assert measured.intervals[2] == {
        "start_s": 1.0007,
        "end_s": 1.500203,
        "interval_bytes": 1_270_087_680,
        "throughput_bps": 20_341_622_995.583977,
        "retransmits": 13,
        "rtt_s": pytest.approx(78e-6),
        "cwnd_bytes": 1_047_728,
    }


def test_iperf3_reports_one_interval():
    measured = only(Iperf3().parse(captured("iperf3-3.12-one.json")))
    assert measured.flow["flow_bytes"] == 2_266_234_880
    assert [(row["end_s"], row["interval_bytes"]) for row in measured.intervals] == [(1.000114, 2_266_234_880)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("refused", "unable to connect to server: Connection refused"),
        ("terminated", "interrupt - the client has terminated"),
        ("server-died", "unable to write to stream socket: Connection reset by peer"),
    ],
)
def test_iperf3_tells_what_went_wrong_in_its_own_words(name, told):
    with pytest.raises(ValueError, match=f"^iperf3: {told}$"):
        Iperf3().parse(captured(f"iperf3-3.12-{name}.json"))


def test_iperf3_without_tcp_info_leaves_it_missing():
    report = json.loads(captured("iperf3-3.12-one.json"))
    for told in (report["intervals"][0]["streams"][0], report["end"]["streams"][0]["sender"]):
        for key in ("retransmits", "rtt", "min_rtt", "snd_cwnd"):
            told.pop(key, None)
    flow = only(Iperf3().parse(json.dumps(report))).flow
    assert [flow[key] for key in ("retransmits", "rtt_s", "min_rtt_s", "cwnd_bytes")] == [None] * 4
    assert flow["flow_bytes"] == 2_266_234_880


def test_iperf3_tells_of_each_of_its_flows():
    told = Iperf3().parse(captured("iperf3-3.12-flows.json"))
    report = json.loads(captured("iperf3-3.12-flows.json"))
    assert [flow.number for flow in told] == [0, 1, 2]
    assert sum(flow.flow["flow_bytes"] for flow in told) == report["end"]["sum_sent"]["bytes"]
    assert sum(flow.flow["retransmits"] for flow in told) == report["end"]["sum_sent"]["retransmits"]
    for flow in told:
        assert sum(row["interval_bytes"] for row in flow.intervals) == flow.flow["flow_bytes"]
        assert flow.flow["congestion_control"] == "reno"


@pytest.mark.parametrize(
    ("asked", "told"),
    [({"flows_per_pair": 129}, "at most 128 flows_per_pair"), ({"message_bytes": 1_048_577}, "up to 1048576")],
)
def test_iperf3_says_what_it_cannot_take(asked, told):
    with pytest.raises(BadSpec, match=told):
        Iperf3().check(Spec(**asked))


# --- flowgen


def test_flowgen_reports_what_was_acknowledged():
    measured = only(Flowgen().parse(captured("flowgen-0.1.0-several.jsonl")))
    assert measured.flow == {
        "duration_s": 2.000008874,
        "flow_bytes": 4_117_949_468,
        "throughput_bps": 16_471_724_787,
        "congestion_control": "bbr",
        "retransmits": 11,
        "rtt_s": 0.000077,
        "min_rtt_s": 0.000001,
        "cwnd_bytes": 916_762,
        "delivery_rate_bps": 12_934_913_576,
    }
    assert [row["interval_bytes"] for row in measured.intervals] == [
        1_215_529_959,
        973_313_224,
        942_401_856,
        986_704_429,
    ]
    assert sum(row["interval_bytes"] for row in measured.intervals) == measured.flow["flow_bytes"]
    assert measured.intervals[0]["throughput_bps"] == pytest.approx(1_215_529_959 * 8 / 0.500006624)


def test_flowgen_reports_one_interval():
    measured = only(Flowgen().parse(captured("flowgen-0.1.0-one.jsonl")))
    assert (len(measured.intervals), measured.flow["flow_bytes"]) == (1, 1_953_450_728)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("refused", "cannot connect to 127.0.0.1:5299: Connection refused; a server must listen there first"),
        ("server-died", "the connection broke: Connection reset by peer"),
    ],
)
def test_flowgen_tells_what_went_wrong_in_its_own_words(name, told):
    assert only(Flowgen().parse(captured(f"flowgen-0.1.0-{name}.jsonl"))).error == f"flowgen: {told}"


def test_flowgen_that_was_killed_reported_no_total():
    killed_before_any_report, killed_after_two_lines = "", captured("flowgen-0.1.0-several.jsonl").splitlines()[:2]
    for text in (killed_before_any_report, "\n".join(killed_after_two_lines)):
        with pytest.raises(ValueError, match="flowgen reported 0 totals"):
            Flowgen().parse(text)


def test_flowgen_tells_of_each_of_its_flows():
    told = Flowgen().parse(captured("flowgen-0.2.0-flows-client.jsonl"))
    assert [flow.number for flow in told] == [0, 1, 2]
    for flow in told:
        assert len(flow.intervals) == 2
        assert sum(row["interval_bytes"] for row in flow.intervals) == flow.flow["flow_bytes"]
        assert flow.completed_ns is None


def finite(text=None, served=None):
    names = ("flowgen-0.2.0-finite-flows-client.jsonl", "flowgen-0.2.0-finite-flows-server.jsonl")
    return Flowgen().parse(
        *(captured(name) if told is None else told for name, told in zip(names, (text, served), strict=True))
    )


def test_a_flow_with_an_end_is_complete_when_its_server_had_the_last_byte():
    told = finite()
    received = {
        line["peer"]: line for line in map(json.loads, captured("flowgen-0.2.0-finite-flows-server.jsonl").splitlines())
    }
    sent = [json.loads(line) for line in captured("flowgen-0.2.0-finite-flows-client.jsonl").splitlines()]
    totals = {line["flow"]: line for line in sent if line["event"] == "total"}
    assert [flow.number for flow in told] == [0, 1, 2]
    for flow in told:
        total = totals[flow.number]
        server = received[total["local"]]
        assert not flow.error
        assert (flow.first_byte_ns, flow.completed_ns) == (server["first_ns"], server["last_ns"])
        assert flow.connected_ns < flow.first_byte_ns < flow.completed_ns <= total["end_ns"]
        assert server["flow_bytes"] == 5_000_000


def test_a_flow_of_which_its_server_did_not_get_all_has_failed_and_no_other():
    lines = captured("flowgen-0.2.0-finite-flows-server.jsonl").replace(
        '"flow_bytes":5000000', '"flow_bytes":4999999', 1
    )
    assert sorted(flow.error for flow in finite(served=lines)) == [
        "",
        "",
        "flowgen: the server had 4999999 of 5000000 bytes",
    ]
    assert {flow.error for flow in finite(served="")} == {"flowgen: the server had 0 of 5000000 bytes"}


def test_a_flow_that_was_not_complete_has_failed_whatever_its_server_had():
    text = captured("flowgen-0.2.0-finite-flows-client.jsonl").replace('"complete":true', '"complete":false')
    assert all(flow.error for flow in finite(text))


def test_flowgen_tells_of_udp_what_the_server_counted():
    first, second = Flowgen().parse(captured("flowgen-0.2.0-udp-client.jsonl"))
    assert (first.number, second.number) == (0, 1)
    assert first.flow == {
        "duration_s": 1.003964019,
        "flow_bytes": 24_468 * 1448,
        "throughput_bps": pytest.approx(24_468 * 1448 * 8 / 1.003964019),
        "datagrams_sent": 99_612,
        "datagrams_received": 24_468,
        "datagrams_lost": 75_144,
        "datagrams_reordered": 0,
    }
    assert (first.connected_ns, first.first_byte_ns, first.completed_ns) == (None, 13_361_396_231_228, None)


def test_flowgen_that_had_no_answer_of_its_udp_server_has_failed():
    (total, _) = map(json.loads, captured("flowgen-0.2.0-udp-client.jsonl").splitlines())
    total |= {"flow_bytes": None, "datagrams_received": None, "error": "the server did not answer"}
    assert only(Flowgen().parse(json.dumps(total))).error == "flowgen: the server did not answer"


@pytest.mark.parametrize(
    ("asked", "told"),
    [({"warmup_s": 1.0}, "no intervals of UDP"), ({"message_bytes": 23}, "from 24 to 65507, not 23")],
)
def test_flowgen_says_what_it_cannot_do_of_udp(asked, told):
    with pytest.raises(BadSpec, match=told):
        Flowgen().check(Spec(udp_share=0.5, **asked))


# --- sockperf


@pytest.mark.parametrize(
    ("name", "messages", "message_bytes", "rate_hz"),
    [("one", 2_560_725, 1024, 1_280_008), ("1472", 1_528_446, 1472, 764_006), ("65507", 44_520, 65_507, 22_254)],
)
def test_sockperf_reports_messages_of_a_size(name, messages, message_bytes, rate_hz):
    measured = only(Sockperf().parse(captured(f"sockperf-3.7-{name}.txt")))
    assert measured.flow == {
        "duration_s": pytest.approx(2, abs=0.001),
        "flow_bytes": messages * message_bytes,
        "throughput_bps": rate_hz * message_bytes * 8,
    }
    assert measured.intervals == ()


def test_sockperf_of_another_unit_is_refused_and_not_misread():
    text = captured("sockperf-3.7-one.txt").replace("BandWidth is 1250.008 MBps", "BandWidth is 1310.728 MBps")
    with pytest.raises(ValueError, match="that of messages of 1074 bytes, not of its 1024"):
        Sockperf().parse(text)


@pytest.mark.parametrize(
    ("name", "told"),
    [("refused", "errno=111 Connection refused"), ("server-died", "A connection was forcibly closed by a peer")],
)
def test_sockperf_tells_what_went_wrong_in_its_own_words(name, told):
    with pytest.raises(ValueError, match=f"^sockperf: .*{told}"):
        Sockperf().parse(captured(f"sockperf-3.7-{name}.txt"))


def test_sockperf_that_was_killed_reported_no_whole_test():
    text = captured("sockperf-3.7-one.txt")
    with pytest.raises(ValueError, match="sockperf reported no whole test"):
        Sockperf().parse(text[: text.index("sockperf: Summary: BandWidth")])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"message_bytes": 13}, "from 14 to 65507, not 13"),
        ({"message_bytes": 65_508}, "from 14 to 65507, not 65508"),
        ({"duration_s": 2.5}, r"whole seconds only, and duration_s is 2\.5"),
    ],
)
def test_sockperf_says_what_it_cannot_take(asked, told):
    with pytest.raises(BadSpec, match=told):
        Sockperf().check(Spec(**asked))


# --- netcat


def test_netcat_tells_nothing_and_what_is_told_is_not_from_our_server():
    assert only(Netcat().parse("")) == Measured({})
    with pytest.raises(ValueError, match="netcat printed"):
        Netcat().parse("hello")


def test_netcat_sends_files_of_each_size_without_holes(tmp_path):
    Netcat().prepare(Spec(flow_bytes=5_000_001, elephant_bytes=6_000_000, elephant_share=0.5), tmp_path)
    assert {file.name: file.stat().st_size for file in tmp_path.iterdir()} == {
        "payload-5000001": 5_000_001,
        "payload-6000000": 6_000_000,
    }
    assert set((tmp_path / "payload-5000001").read_bytes()) == set(b"n")


# --- all of them


@pytest.mark.parametrize("workload", reporting(), ids=lambda workload: workload.name)
def test_output_cut_off_anywhere_is_refused(workload):
    text = report_of(workload)
    last_line = text.rstrip().rfind("\n" if workload.name != "iperf3" else "}")
    for end in range(0, last_line, 41):
        with pytest.raises(ValueError, match=r"\w"):
            workload.parse(text[:end])


@pytest.mark.parametrize("workload", reporting(), ids=lambda workload: workload.name)
def test_what_is_read_fits_the_tables(workload):
    measured = only(workload.parse(report_of(workload)))
    flows = table("flows", [{"pair": 0, "flow": 0, **measured.flow}])
    intervals = table("intervals", [{"pair": 0, "flow": 0, "warmup": False, **row} for row in measured.intervals])
    assert flows["throughput_bps"][0] == pytest.approx(flows["flow_bytes"][0] * 8 / flows["duration_s"][0], rel=1e-3)
    if "warmup" in workload.can:
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
    "iperf3-3.12-one.json",
    "flowgen-0.1.0-one.jsonl",
    "flowgen-0.2.0-finite-client.jsonl",
    "flowgen-0.2.0-finite-server.jsonl",
    "flowgen-0.2.0-udp-client.jsonl",
)


def damaged_reports():
    """Whole reports in which one value, anywhere, is another."""

    def damaged(name):
        lines = [json.loads(line) for line in _documents(name)]
        places = list(_places(lines))
        return st.tuples(st.sampled_from(places), json_values).map(lambda chosen: _with(lines, *chosen, name))

    return st.sampled_from(DAMAGED).flatmap(damaged)


def _documents(name):
    return captured(name).splitlines() if name.endswith("jsonl") else [captured(name)]


def _places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _with(documents, path, value, name):
    changed = json.loads(json.dumps(documents))
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return "\n".join(json.dumps(document) for document in changed)


any_text = st.one_of(
    st.text(),
    st.from_regex(iperf_module.LINE),
    st.tuples(*map(st.from_regex, (sockperf_module.TOTAL, sockperf_module.RATE, sockperf_module.BANDWIDTH))).map(
        "\n".join
    ),
    st.lists(st.from_regex(iperf_module.LINE), max_size=4).map("\n".join),
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
            if "time" in workload.can and not measured.error:
                for column in ("duration_s", "flow_bytes", "throughput_bps"):
                    assert isinstance(measured.flow[column], (int, float))
            table("flows", [{"pair": 0, "flow": 0, **measured.flow}])
            table("intervals", [{"pair": 0, "flow": 0, "warmup": False, **row} for row in measured.intervals])


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "null", '"end"', "[1]"])
def test_json_that_is_no_report_is_refused(text):
    for workload in workloads():
        with pytest.raises(ValueError, match=workload.name):
            workload.parse(text)


# --- what a measurement then makes of it


@pytest.mark.parametrize("name", ["server-died", "terminated"])
def test_a_flow_that_ended_before_its_time_did_not_do_its_work(name):
    measured = only(Iperf().parse(captured(f"iperf-2.1.8-{name}.txt")))  # iperf itself ends well then
    assert measured.flow["duration_s"] == pytest.approx(1.8, abs=0.02)
    with pytest.raises(ValueError, match=r"it ended after 1\.8\d? s of 10"):
        whole(measured, 10)


@pytest.mark.parametrize("workload", reporting(), ids=lambda workload: workload.name)
def test_a_flow_that_lasted_as_long_as_asked_is_whole(workload):
    measured = only(workload.parse(report_of(workload)))
    assert whole(measured, 2) is measured


def test_totals_after_a_warm_up_are_those_of_the_later_intervals():
    measured = window(only(Iperf().parse(captured("iperf-2.1.8-several.txt"))), 1.0)
    assert measured.flow["flow_bytes"] == 1_189_740_544 + 1_083_179_008
    assert measured.flow["throughput_bps"] == pytest.approx((1_189_740_544 + 1_083_179_008) * 8)
    assert measured.flow["retransmits"] == 7
    assert len(measured.intervals) == 4
    assert not math.isnan(measured.flow["rtt_s"])
