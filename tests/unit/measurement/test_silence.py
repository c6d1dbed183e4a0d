"""Time without progress is judged as what it is, however long it lasts, and a result is left to be one."""

import numpy as np
import pytest

from pairlab.measurement.checks import silence, steady_state
from pairlab.testbed.host.link_recorder import QUIET_PACKETS, QUIET_SHARE
from pairlab.testbed.host.link_telemetry import Steps

EVERY_S = 0.1


def steps(packets, again=()):
    """Of a link that sent so many packets in each tenth of a second. again: segments sent again by then, by step."""
    packets = np.asarray(packets, float)
    counted = np.asarray(again, float) if len(again) else np.zeros(len(packets))
    quiet = packets <= max(QUIET_PACKETS, QUIET_SHARE * packets.max())
    return Steps(np.full(len(packets), EVERY_S), packets, np.where(quiet, counted, np.nan))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.55, 0.95])
@pytest.mark.parametrize("speeds", [(1e4, 1e4), (1e4, 2e4)], ids=["one speed", "two speeds"])
def test_a_stall_is_found_however_much_of_the_time_it_takes(share, speeds):
    packets = np.repeat(speeds, 50)
    begin = round(50 * (1 - share))  # in the middle
    packets[begin : begin + round(100 * share)] = 0
    assert silence.share_of_steps(packets * silence.SEGMENT_BYTES) == pytest.approx(share)
    assert silence.of_steps(steps(packets)) == pytest.approx(100 * share * EVERY_S)


def test_outliers_tell_of_a_stall_of_half_a_run():
    assert steady_state.outliers([1e10] * 5 + [0] * 10 + [1e10] * 5) == pytest.approx(-0.5)


def test_a_flow_that_waits_for_a_timeout_of_its_own_is_a_result():
    lost = [500] * 10 + [0, 0, 1, 0, 0, 0, 0, 1, 0, 0] + [500] * 10
    counted = [0] * 10 + [0, 0, 1, 1, 1, 1, 1, 2, 2, 2] + [2] * 10
    assert silence.of_steps(steps(lost, counted)) == 0.0
    assert silence.of_steps(steps(lost)) == pytest.approx(1.0)  # as a window's probes


def test_a_receiver_that_stands_still_and_takes_a_few_segments_now_and_then_is_silent():
    """As measured: a server of 10 Gbit/s that was stopped for 0.9 s."""
    packets = [2600, 2750, 2990, 2830, 151, 110, 127, 169, 0, 0, 1, 0, 0, 2400, 2900, 2950]
    assert silence.of_steps(steps(packets)) == pytest.approx(0.9)
    assert silence.of_steps(steps([2600, 2750, 290, 250, 280, 270, 290, 2700])) == 0.0  # slow, and not silent


def test_of_few_packets_none_may_be_chance():
    assert silence.of_steps(steps([3, 0, 0, 0, 4, 0, 0])) == 0.0
    assert silence.share_of_steps([3 * silence.SEGMENT_BYTES, 0, 0]) is None
    assert silence.share_of_steps([]) is None


def quiet(again_at_s, lasts_s):
    """Steps of 0.1 s: busy for 1 s, then quiet for so long, with a segment sent again at these times of that."""
    quiet_steps = round(lasts_s * 10)
    again = [float(sum(at <= 0.1 * (step + 1) for at in again_at_s)) for step in range(quiet_steps)]
    packets = np.array([1000.0] * 10 + [0.0] * quiet_steps)
    return Steps(np.full(10 + quiet_steps, 0.1), packets, np.array([np.nan] * 10 + again))


@pytest.mark.parametrize(
    ("again_at_s", "lasts_s", "stood_still_s"),
    [
        ([], 0.9, 0.9),
        ([0.25], 0.5, 0.0),  # the next timeout is not over
        ([0.25, 0.65, 1.45], 2.9, 0.0),  # timeouts that double
        ([0.15], 0.9, 0.7),  # a receiver that was stopped, whose full buffer dropped one segment
    ],
)
def test_a_segment_sent_again_explains_a_silence_until_its_next_timeout(again_at_s, lasts_s, stood_still_s):
    assert silence.of_steps(quiet(again_at_s, lasts_s)) == pytest.approx(stood_still_s, abs=0.11)


def reports(*intervals, pair=0):
    """Of one flow, one after the other: how long each took, in s, and its rate in bytes a second."""
    ends_s = np.cumsum([took_s for took_s, _ in intervals])
    return [
        {"pair": pair, "flow": 0, "start_s": end_s - took_s, "end_s": end_s, "interval_bytes": rate * took_s}
        for end_s, (took_s, rate) in zip(ends_s, intervals, strict=True)
    ]


STEADY = [(0.1, 1e9)] * 10


def test_a_report_that_comes_late_with_little_in_it_is_a_stall_however_little_that_is():
    """As measured over loopback: a client that was stopped for 1 s, in an interval of 1.1 s with 12 % of the rate."""
    late = reports(*STEADY, (1.1, 0.12e9), *STEADY)
    assert silence.of_intervals(late, EVERY_S, 0.0) == pytest.approx(1.1 - 1.1 * 0.12)
    assert silence.of_intervals(reports(*STEADY, *STEADY, pair=1) + late, EVERY_S, 0.0) == pytest.approx(0.968)
    told_in_time = reports(*STEADY, *[(0.1, 0.0)] * 7, (0.3, 0.01e9), *STEADY)
    assert silence.of_intervals(told_in_time, EVERY_S, 0.0) == pytest.approx(1.0)


def test_a_report_that_comes_late_of_a_flow_that_went_on_is_none():
    assert silence.of_intervals(reports(*STEADY, (1.1, 1.1e9), *STEADY), EVERY_S, 0.0) == pytest.approx(0.0)
    assert silence.of_intervals(reports(*STEADY, (0.1, 0.3e9), (0.2, 0.2e9), *STEADY), EVERY_S, 0.0) < 0.2
    sends_now_and_then = [(0.1, 1e9), *[(0.1, 0.0)] * 9] * 3
    assert silence.of_intervals(reports(*sends_now_and_then), EVERY_S, 0.0) == 0.0
    assert silence.of_intervals([], EVERY_S, 0.0) is None


def test_what_was_silent_in_the_warm_up_does_not_count():
    assert silence.of_intervals(reports((1.0, 0.0), *STEADY), EVERY_S, 1.0) == 0.0
    assert silence.of_intervals(reports(*STEADY, (1.1, 0.0), *STEADY), EVERY_S, 1.8) == pytest.approx(0.3)
