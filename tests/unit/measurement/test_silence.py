"""Time without progress is judged as what it is, however long it lasts, and a result is left to be one."""

import numpy as np
import pytest

from pairlab.measurement.checks import silence, steady_state
from pairlab.testbed.host.link_telemetry import QUIET_PACKETS, QUIET_SHARE, Steps

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
