"""What any traffic tool printed, cut, mixed or changed anywhere: a finite report or a ValueError, and soon.

Promise: bad input. By contract over every workload there is, each with every captured output."""

import itertools
import json
import math
import random
import re
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlab.model.tables import table
from pairlab.testbed.contracts import FlowReport
from pairlab.testbed.workloads import flowgen, iperf, netperf, sockperf, stress_ng
from tests.support import CAPTURED, CAPTURED_BY_ALL
from tests.support.edited import edited, places
from tests.unit.testbed.workloads.helpers import captured, workloads

OUTPUT = {file.name: file.read_text() for file in sorted(CAPTURED.iterdir())}
WORKLOADS = workloads()

#: What has no bound takes hours.
BOUNDED_S = 60

quick = settings(max_examples=60)
each_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)


def its(workload):
    return {name: text for name, text in OUTPUT.items() if name.startswith(f"{workload.name}-")}


def tells(refused):
    assert str(refused)


def read(workload, text, served=""):
    """What it makes of it, of finite numbers; None where it refuses it with a reason."""
    try:
        told = workload.parse(text, served)
    except ValueError as refused:
        return tells(refused)
    assert told
    for measured in told:
        for row in (measured.flow, *measured.intervals):
            for column, value in row.items():
                assert value is None or isinstance(value, str) or (math.isfinite(value) and value >= 0), (column, value)
        assert isinstance(measured.error, str)
    return told


@pytest.fixture(autouse=True)
def in_bounded_time():
    def too_long(*_):
        raise TimeoutError(f"still reading after {BOUNDED_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(BOUNDED_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


#: Of the places at which a report can be cut; its end is cut at every byte.
MOST_CUTS, END_BYTES = 400, 200


def cuts(text):
    """Lengths, evenly far apart by a prime number of bytes, so that every column is met."""
    step = next(prime for prime in (1, 2, 3, 7, 17, 37, 79, 163, 331, 673) if len(text) <= prime * MOST_CUTS)
    return sorted({*range(0, len(text), step), *range(max(0, len(text) - END_BYTES), len(text))})


@pytest.mark.whole
@each_workload
def test_a_report_cut_anywhere_is_whole_or_refused(workload):
    for name, text in its(workload).items():
        for end in cuts(text):
            told = read(workload, text[:end])
            assert told is None or all(isinstance(each, FlowReport) for each in told), name


@pytest.mark.whole
@each_workload
def test_a_servers_report_cut_anywhere_is_whole_or_refused(workload):
    for name, served in its(workload).items():
        if not name.endswith("-server.jsonl"):
            continue
        client = OUTPUT[name.replace("-server", "-client")]
        whole = read(workload, client, served)
        for end in cuts(served):
            told = read(workload, client, served[:end])
            if told and whole:
                assert len(told) == len(whole), name


@each_workload
def test_a_report_with_any_byte_changed_is_read_or_refused(workload):
    chosen = random.Random(workload.name)
    for text in its(workload).values():
        for _ in range(150):
            at = chosen.randrange(len(text))
            other = chosen.choice(["", "\0", "9", "-", "\n", "e", '"', "}", "99999999999999999999", "NaN", "\ufffd"])
            read(workload, text[:at] + other + text[at + 1 :])


@each_workload
@quick
@given(st.data())
def test_reports_mixed_line_by_line_are_read_or_refused(workload, data):
    reports = st.sampled_from(sorted(OUTPUT)).map(lambda name: OUTPUT[name].splitlines(keepends=True))
    one, other = data.draw(reports), data.draw(reports)
    order = data.draw(st.lists(st.booleans(), min_size=1, max_size=40))
    lines = []
    for first in order:
        lines += (one if first else other)[:1]
        (one if first else other)[:1] = []
    read(workload, "".join([*lines, *one, *other]), "".join(other))


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
        text = captured(name)
        told = list(map(json.loads, text.splitlines() if name.endswith("jsonl") else [text]))
        chosen = st.tuples(st.sampled_from(list(places(told))), json_values)
        return chosen.map(lambda chosen: "\n".join(map(json.dumps, edited(told, *chosen))))

    return st.sampled_from(DAMAGED).flatmap(damaged)


#: What the lines of every tool look like that prints text.
PATTERNS = {
    tool: [each for each in vars(tool).values() if isinstance(each, re.Pattern)]
    for tool in (iperf, netperf, sockperf, stress_ng)
}


def lines_of(patterns):
    return st.lists(st.one_of(*map(st.from_regex, patterns)), max_size=6).map("\n".join)


any_text = st.one_of(
    st.text(),
    st.tuples(*map(st.from_regex, (sockperf.TOTAL, sockperf.RATE, sockperf.BANDWIDTH))).map("\n".join),
    st.tuples(*map(st.from_regex, (sockperf.RAN, sockperf.BUCKET, sockperf.WINDOW))).map("\n".join),
    *map(lines_of, PATTERNS.values()),
    json_values.map(json.dumps),
    st.lists(json_values.map(json.dumps), max_size=3).map("\n".join),
    damaged_reports(),
)


@pytest.mark.whole
@settings(max_examples=200)
@given(any_text, any_text)
def test_any_text_is_read_or_refused_with_a_reason(text, served):
    for workload in WORKLOADS:
        for measured in read(workload, text, served) or ():
            if "time" in workload.features and workload.sends_traffic and not measured.error:
                for column in ("duration_s", "flow_bytes", "throughput_bps"):
                    assert isinstance(measured.flow[column], (int, float))
            table("flows", [{"pair": 0, "flow": 0, **measured.flow}], workload.metrics)
            table("intervals", [{"pair": 0, "flow": 0, "warmup": False, **row} for row in measured.intervals])


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "null", '"end"', "[1]"])
def test_json_that_is_no_report_is_refused(text):
    for workload in workloads():
        with pytest.raises(ValueError, match=workload.name):
            workload.parse(text)


PUMPED = [" ", "1", "[", "[ ", "[1] ", "[1] 0.0-", "1/", "\n", "[\n", "sockperf: ", "sockperf: ERROR: ", "a", "0.0"]


@pytest.mark.parametrize("pumped", PUMPED, ids=repr)
def test_no_pattern_takes_more_than_its_texts_length_in_time(pumped):
    """A pattern that goes back over what it read needs hours for so much of the same."""
    text = pumped * (1_000_000 // len(pumped))
    for pattern in itertools.chain(*PATTERNS.values()):
        for before in ("", "[  1] 0.00-1.00 sec  ", "[  1] 0.00-1.00 sec  1 Bytes  1 bits/sec  "):
            assert not list(pattern.finditer(before + text))[1_000_001:]


TOTAL = '{"event": "total", "duration_s": 1, "flow_bytes": 1, "throughput_bps": 1, "congestion_control": "", '
TOTAL += '"connected_ns": 1}'
NO_MEASUREMENT = {
    "not a number": ('"duration_s": 1', '"duration_s": NaN'),
    "infinite": ('"flow_bytes": 1', '"flow_bytes": Infinity'),
    "negative": ('"duration_s": 1', '"duration_s": -1'),
    "beyond all clocks": ('"connected_ns": 1', f'"connected_ns": 1{"0" * 400}'),
    "half a character": ('"congestion_control": ""', '"congestion_control": "\\ud800"'),
}


@pytest.mark.parametrize(("before", "after"), NO_MEASUREMENT.values(), ids=NO_MEASUREMENT)
def test_what_no_tool_can_have_measured_is_a_damaged_report(before, after):
    assert flowgen.Flowgen().parse(TOTAL)
    assert before in TOTAL
    with pytest.raises(ValueError, match=r"\w"):
        flowgen.Flowgen().parse(TOTAL.replace(before, after))


def test_the_reasons_of_failed_flows_can_be_kept_whatever_a_tool_said(tmp_path):
    from pairlab import store
    from pairlab.measurement.flow_rows import read_flows
    from pairlab.model.records import Run
    from pairlab.model.spec import Spec
    from pairlab.testbed.endpoints import Endpoint, Task
    from pairlab.testbed.process_launcher import Process
    from pairlab.testbed.workloads.iperf3 import Iperf3

    ends = [Endpoint(name, "10.77.0.1", lambda *_: None) for name in ("client-0", "server-0")]
    client, server = (Process("slot", end, (), ended=True, start_ns=1, end_ns=2, exit_code=0) for end in ends)
    client.stdout = '{"error": "half a \\ud800 character"}'
    flows = read_flows(Spec(), [Task()], Iperf3(), [client], [server], 0).flows
    kept = store.write(Run(Spec(), "failed", flows=table("flows", flows)), tmp_path)
    assert "half a ? character" in kept.flows["error"][0]
