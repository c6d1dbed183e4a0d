"""The benchmark of what sampling costs finds a cost that is planted, and none where none is."""

import numpy as np
import pandas as pd
import pytest

from bench.telemetry import Slot, of_slots, overall

SAMPLED = (True, False, False, True, True, False, False, True)


def intervals_of(rate, flows=3, step_s=0.1, lasts_s=4.5):
    """Intervals of flows whose rate at a moment is as given, but for noise."""
    noise = np.random.default_rng(5)
    begins_s = np.arange(0, lasts_s, step_s)
    return pd.DataFrame(
        {"pair": pair, "flow": 0, "start_s": at_s, "end_s": at_s + step_s, "interval_bytes": carried}
        for pair in range(flows)
        for at_s, carried in zip(
            begins_s, [rate(at_s) * step_s * noise.normal(1, 0.01) for at_s in begins_s], strict=True
        )
    )


@pytest.mark.parametrize("cost", [0.0, 0.1])
def test_the_planted_cost_is_found(cost):
    slots = [Slot(0.2 + 0.5 * place, 0.7 + 0.5 * place, sampled) for place, sampled in enumerate(SAMPLED)]

    def rate(at_s):
        sampled = any(slot.sampled and slot.begin_s <= at_s + 0.05 < slot.end_s for slot in slots)
        return 1e9 * (1 + 0.05 * at_s) * (1 - cost if sampled else 1)  # and the machine gets faster meanwhile

    mean = overall(of_slots(slots, intervals_of(rate)))
    assert mean.n == 4
    assert mean.value == pytest.approx(1 - cost, abs=0.01)
    assert mean.low < 1 - cost < mean.high
