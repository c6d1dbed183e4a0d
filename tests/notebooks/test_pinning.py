import pytest

from tests.support import asked
from tests.support.synthetic import client_run


def test_drift_common_to_a_repetition_does_not_widen_the_interval_of_a_change(ask):
    runs = [
        client_run([speed * factor], experiment="pinning", pinning=policy, repetition=repetition)
        for repetition, speed in enumerate((1.0, 2.0, 4.0))
        for policy, factor in (("none", 1.0), ("same-core", 0.9))
    ]
    change = ask("pinning", runs)["change"].iloc[0]
    assert (change["value"], change["low"], change["high"]) == pytest.approx((-10, -10, -10))


def test_without_the_policy_none_there_is_no_change(ask):
    answer = ask("pinning", [run for run in asked.runs_of("pinning", 2) if run.spec.pinning != "none"])
    assert answer.figure("pinning-total") is not None
    assert not answer["change"]["value"].notna().any()
