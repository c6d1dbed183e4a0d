import pytest

from pairlab import store
from pairlab.analysis import question
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed


def test_drift_common_to_a_repetition_does_not_widen_the_interval_of_a_change(tmp_path):
    for repetition, speed in enumerate((1.0, 2.0, 4.0)):
        for policy, factor in (("none", 1.0), ("same-core", 0.9)):
            told = {"experiment": "pinning", "pinning": policy, "repetition": repetition}
            store.write(synthetic.client_run([speed * factor], **told), tmp_path)
    change = question.ask("pinning", tmp_path)["change"].iloc[0]
    assert (change["value"], change["low"], change["high"]) == pytest.approx((-10, -10, -10))


def test_without_the_policy_none_there_is_no_change_and_no_figure_of_it(tmp_path):
    synthetic.write_pinning(tmp_path / "pinned", policies=("same-core", "different-cores"), backends=("netns",))
    executed = Executed("06-pinning", tmp_path / "pinned", tmp_path)
    assert "figures/pinned/pinning-total.pdf" in executed.made
    assert "figures/pinned/pinning-change.pdf" not in executed.made
    assert executed.told("change") == "pinning-change: there are no changes from runs without pinning\n"
