import pytest

from pairlab import store
from pairlab.analysis.questions import pinning
from pairlab.store.dataset import load_runs
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed, figures, tables


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.write_pinning(tmp_path_factory.mktemp("runs") / "pinned")


@pytest.fixture(scope="module")
def executed(runs, tmp_path_factory):
    return Executed("07-pinning", runs, tmp_path_factory.mktemp("pinning"))


def test_changes_are_those_that_were_put_in_and_paired_by_repetition(runs):
    changes = pinning.changes(pinning.repetitions(load_runs(runs).flows), 0.95)
    found = changes.set_index(["backend", "driver", "pinning"])
    for backend in ("netns", "docker"):
        gain, loss = found.loc[(backend, "ovs", "different-cores")], found.loc[(backend, "bridge", "same-core")]
        assert gain["value"] == pytest.approx(21, abs=3)
        assert loss["value"] == pytest.approx(-13, abs=3)
        assert gain["low"] > 0 > loss["high"]
        assert gain["p_holm"] < 0.05
        assert found.loc[(backend, "ovs", "same-core"), "p_holm"] > 0.05
    assert (changes["n"] == 3).all()


def test_drift_common_to_a_repetition_does_not_widen_the_interval_of_a_change(tmp_path):
    for repetition, speed in enumerate((1.0, 2.0, 4.0)):
        for policy, factor in (("none", 1.0), ("same-core", 0.9)):
            told = {"experiment": "pinning", "pinning": policy, "repetition": repetition}
            store.write(synthetic.client_run([speed * factor], **told), tmp_path)
    change = pinning.changes(pinning.repetitions(load_runs(tmp_path).flows), 0.95).iloc[0]
    assert (change["value"], change["low"], change["high"]) == pytest.approx((-10, -10, -10))


def test_the_notebook_makes_every_figure_table_and_value_from_two_backends(executed):
    made = figures("pinned", "pinning-total", "pinning-change")
    made |= tables("pinned", "pinning-netns-flowgen", "pinning-docker-flowgen")
    assert executed.made == made | {"paper/values/pinned/07-pinning.tex"}
    assert "netns-flowgen: 3 repetitions per cell; 1 of 108 flows failed" in executed.told("table")
    values = executed.values("07-pinning")
    assert r"{pinning/c/ovs/different-cores/change}{+21.2 \%}" in values
    assert r"{pinning/netns-flowgen/ovs/different-cores/change}{+2" in values


@pytest.mark.ci
def test_one_repetition_gives_changes_without_interval_or_test(tmp_path):
    synthetic.write_pinning(tmp_path / "once", repetitions=1, backends=("netns",))
    executed = Executed("07-pinning", tmp_path / "once", tmp_path)
    values = executed.values("07-pinning")
    assert r"{pinning/netns-flowgen/bridge/same-core/change-interval}{no interval from one repetition}" in values
    assert "/p}" not in values
    assert "has 1 repetition, and a comparison needs at least 2" in executed.told("differ")


def test_without_the_policy_none_there_is_no_change_and_no_figure_of_it(tmp_path):
    synthetic.write_pinning(tmp_path / "pinned", policies=("same-core", "different-cores"), backends=("netns",))
    executed = Executed("07-pinning", tmp_path / "pinned", tmp_path)
    assert "figures/pinned/pinning-total.pdf" in executed.made
    assert "figures/pinned/pinning-change.pdf" not in executed.made


def test_without_its_experiment_the_notebook_says_so_and_draws_nothing(campaign, tmp_path):
    executed = Executed("07-pinning", campaign, tmp_path)
    assert executed.made == {"paper/values/campaign/07-pinning.tex"}
    assert r"\defineresult{pinning/missing}{there are no runs of 'pinning'}" in executed.values("07-pinning")
