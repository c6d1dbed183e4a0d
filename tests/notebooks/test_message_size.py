import pytest

from pairlab.analysis.questions import message_size
from pairlab.store.dataset import load_runs
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed, figures, tables


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.write_message_size(tmp_path_factory.mktemp("runs") / "sizes")


@pytest.fixture(scope="module")
def repetitions(runs):
    return message_size.repetitions(load_runs(runs).flows)


@pytest.mark.ci
def test_the_change_from_the_least_size_is_as_put_in(repetitions):
    found = message_size.changes(repetitions, 0.95)
    bridge = found[(found["driver"] == "bridge") & (found["backend"] == "netns")].set_index("message_bytes")
    for size in (1024, 16384, 65536):
        assert (bridge.loc[size, "value"] / 100 + 1).to_numpy() == pytest.approx((size / 64) ** 0.5, rel=0.1)
    assert 64 not in bridge.index


@pytest.mark.ci
def test_tools_are_systems_of_their_own(repetitions):
    assert set(message_size.cells(repetitions, 0.95)["workload"]) == {"sockperf", "flowgen"}


def test_steady_growth_has_a_trend_and_its_reverse_has_none(repetitions):
    found = message_size.trends(repetitions)
    assert (found["p"] < 0.01).all()
    assert (found["n"] == 3).all()
    reverse = repetitions.assign(total_bps=-repetitions["total_bps"])
    assert (message_size.trends(reverse)["p"] > 0.9).all()


def test_two_sizes_or_one_repetition_carry_no_trend_and_say_so(repetitions):
    for few in (repetitions[repetitions["message_bytes"] <= 1024], repetitions[repetitions["repetition"] == 0]):
        found = message_size.trends(few)
        assert found["p"].isna().all()
        assert found["gap"].str.contains("Page's test needs 2 with 3").all()


@pytest.mark.parametrize(("size", "text"), [(64, "64 B"), (1024, "1 KiB"), (65507, "65,507 B"), (2 << 20, "2 MiB")])
def test_sizes_are_told_in_the_largest_whole_unit(size, text):
    assert message_size.size_text(size) == text


@pytest.mark.ci
def test_the_notebook_makes_its_figure_tables_and_values_from_both_tools_and_backends(runs, tmp_path):
    executed = Executed("08-message-size", runs, tmp_path)
    systems = [f"{backend}-{tool}" for backend in synthetic.BACKENDS for tool in ("sockperf", "flowgen")]
    made = figures("sizes", "message-size") | tables("sizes", *(f"message-size-{system}" for system in systems))
    assert executed.made == made | {"paper/values/sizes/08-message-size.tex"}
    assert "netns-sockperf: 3 repetitions per cell; 1 of 144 flows failed" in executed.told("table")
    values = executed.values("08-message-size")
    assert "{message-size/netns-sockperf/sizes}{64 B, 1 KiB, 16 KiB, 64 KiB}" in values
    assert r"{message-size/netns-sockperf/bridge/4/trend-p}{\textless{} 0.001}" in values


def test_one_repetition_of_one_tool_is_shown_without_intervals(tmp_path):
    how = {"backends": ("netns",), "drivers": ("bridge",), "workloads": ("sockperf",), "repetitions": 1}
    synthetic.write_message_size(tmp_path / "few", **how)
    executed = Executed("08-message-size", tmp_path / "few", tmp_path)
    assert "figures/few/message-size.pdf" in executed.made
    assert "trend-p" not in executed.values("08-message-size")


def test_without_its_experiment_the_notebook_says_so_and_draws_nothing(campaign, tmp_path):
    executed = Executed("08-message-size", campaign, tmp_path)
    assert executed.made == {"paper/values/campaign/08-message-size.tex"}
    assert r"\defineresult{message-size/missing}{" in executed.values("08-message-size")
