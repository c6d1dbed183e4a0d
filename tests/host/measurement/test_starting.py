"""Clients that start one after the other, measured with real traffic: none before it is due, and all in their order."""

import numpy as np
import pytest

from pairlab import Spec
from tests.conftest import any_backend
from tests.support.attempts import sound_run

SPACING_S = 0.05


@pytest.mark.parametrize("backend", any_backend())
def test_each_client_starts_when_it_is_due_and_the_spread_is_that_of_the_delays(backend, runs_dir, clean_host):
    asked = {"backend": backend, "workload": "flowgen", "pairs": 5, "max_foreign_cpu": 1.0, "max_skew_s": 5.0}
    run = sound_run(Spec(experiment="starting", flow_bytes=200_000, start_spacing_s=SPACING_S, **asked))
    flows = run.flows
    assert flows["intended_start_s"].to_list() == pytest.approx(SPACING_S * np.arange(5))
    late_s = flows["start_s"] - flows["intended_start_s"]
    assert (late_s > -1e-6).all()
    assert flows["start_s"].is_monotonic_increasing
    assert run.skew_s == pytest.approx(late_s.max() - late_s.min(), abs=1e-6)
    assert flows["fct_s"].to_list() == pytest.approx((flows["completed_s"] - flows["start_s"]).to_list())
    assert (flows["intended_fct_s"] - flows["fct_s"]).to_list() == pytest.approx(late_s.to_list())


@pytest.mark.whole
def test_flows_without_an_end_count_while_all_send_and_carry_together_what_their_links_can(runs_dir):
    """Over links of a known rate, which each flow fills: whatever their starts, the total is theirs."""
    asked = {"workload": "flowgen", "pairs": 3, "link_rate_bps": 1e8, "max_foreign_cpu": 1.0, "max_skew_s": 5.0}
    run = sound_run(Spec(duration_s=2.5, warmup_s=0.5, start_spacing_s=0.4, interval_s=0.1, **asked))
    assert run.flows["duration_s"].to_list() == pytest.approx([1.7] * 3, abs=0.25)
    assert run.total_throughput_bps == pytest.approx(3 * 1e8 * 1448 / 1514, rel=0.03)
    assert run.common_throughput_bps == pytest.approx(run.total_throughput_bps, rel=0.03)
    assert run.checks["overlap"] == pytest.approx(2.2 / 3.8, abs=0.1)
