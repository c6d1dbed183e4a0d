"""What any traffic tool printed, cut, mixed or changed anywhere: a finite report or a ValueError, and soon.

Promise: bad input. By contract over every workload there is, each with every captured output."""

import math
import random
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlab.model.tables import table
from pairlab.testbed import registry
from pairlab.testbed.contracts import Measured
from pairlab.testbed.workloads import flowgen, iperf, sockperf, stress_ng
from tests.support import CAPTURED

OUTPUT = {file.name: file.read_text() for file in sorted(CAPTURED.iterdir())}
WORKLOADS = [registry.workloads.get(name)() for name in registry.workloads.names()]

#: What has no bound takes hours.
BOUNDED_S = 60

quick = settings(max_examples=60)
each_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)


def its(workload):
    return {name: text for name, text in OUTPUT.items() if name.startswith(f"{workload.name}-")}


def tells(refused):
    assert str(refused)


def read(workload, text, served=""):
    """What it makes of it, which must fit the tables; None where it refuses it with a reason."""
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


@pytest.mark.ci
@each_workload
def test_a_report_cut_anywhere_is_whole_or_refused(workload):
    for name, text in its(workload).items():
        for end in cuts(text):
            told = read(workload, text[:end])
            assert told is None or all(isinstance(each, Measured) for each in told), name


@pytest.mark.ci
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


@each_workload
@quick
@given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=50))
def test_any_text_at_all_is_read_or_refused(workload, text, served):
    read(workload, text, served)


PATTERNS = [
    iperf.LINE,
    iperf.CONGESTION,
    sockperf.TOTAL,
    sockperf.RATE,
    sockperf.BANDWIDTH,
    sockperf.ERROR,
    sockperf.NOTE,
    sockperf.BY_UDP,
    sockperf.RECEIVED,
    stress_ng.DONE,
    stress_ng.RATE,
    stress_ng.ERROR,
    stress_ng.ENDED,
]
PUMPED = [" ", "1", "[", "[ ", "[1] ", "[1] 0.0-", "1/", "\n", "[\n", "sockperf: ", "sockperf: ERROR: ", "a", "0.0"]


@pytest.mark.parametrize("pumped", PUMPED, ids=repr)
def test_no_pattern_takes_more_than_its_texts_length_in_time(pumped):
    """A pattern that goes back over what it read needs hours for so much of the same."""
    text = pumped * (1_000_000 // len(pumped))
    for pattern in PATTERNS:
        for before in ("", "[  1] 0.00-1.00 sec  ", "[  1] 0.00-1.00 sec  1 Bytes  1 bits/sec  "):
            assert not list(pattern.finditer(before + text))[1_000_001:]


@pytest.mark.parametrize(
    "report",
    [
        '{"event": "total", "duration_s": NaN, "flow_bytes": 1, "throughput_bps": 1, "congestion_control": "", '
        '"connected_ns": 1}',
        '{"event": "total", "duration_s": 1, "flow_bytes": Infinity, "throughput_bps": 1, "congestion_control": "", '
        '"connected_ns": 1}',
        '{"event": "total", "duration_s": -1, "flow_bytes": 1, "throughput_bps": 1, "congestion_control": "", '
        '"connected_ns": 1}',
        '{"event": "total", "duration_s": 1, "flow_bytes": 1, "throughput_bps": 1, "congestion_control": "", '
        f'"connected_ns": 1{"0" * 400}}}',
        '{"event": "total", "duration_s": 1, "flow_bytes": 1, "throughput_bps": 1, "congestion_control": "\\ud800", '
        '"connected_ns": 1}',
    ],
    ids=["not a number", "infinite", "negative", "beyond all clocks", "half a character"],
)
def test_what_no_tool_can_have_measured_is_a_damaged_report(report):
    with pytest.raises(ValueError, match=r"\w"):
        flowgen.Flowgen().parse(report)


def test_the_reasons_of_failed_flows_can_be_kept_whatever_a_tool_said(tmp_path):
    from pairlab import store
    from pairlab.measurement.flow_rows import read_flows
    from pairlab.model.records import Run
    from pairlab.model.spec import Spec
    from pairlab.testbed.endpoints import Endpoint, Task
    from pairlab.testbed.launch.conductor import Process
    from pairlab.testbed.workloads.iperf3 import Iperf3

    ends = [Endpoint(name, "10.77.0.1", lambda *_: None) for name in ("client-0", "server-0")]
    client, server = (Process("slot", end, (), over=True, start_ns=1, end_ns=2, exit_code=0) for end in ends)
    client.stdout = '{"error": "half a \\ud800 character"}'
    flows = read_flows(Spec(), [Task()], Iperf3(), [client], [server], 0).flows
    kept = store.write(Run(Spec(), "failed", flows=table("flows", flows)), tmp_path)
    assert "half a ? character" in kept.flows["error"][0]
