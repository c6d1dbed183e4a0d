"""Runs by age, whatever a clock said."""

from dataclasses import replace
from datetime import UTC, datetime

from pairlab import store
from pairlab.store import index
from pairlab.store.dataset import load_runs
from tests.support.synthetic import run

IN_2099 = datetime(2099, 1, 1, tzinfo=UTC)


def of_kernel(made, kernel):
    return replace(made, facts={**made.facts, "host": {**made.facts["host"], "kernel": kernel}})


def test_a_run_of_a_clock_that_was_ahead_is_the_oldest_and_named(tmp_path):
    honest = store.write(of_kernel(run([1.0]), "6.1"), tmp_path)
    ahead = store.write(replace(of_kernel(run([9.0], pairs=2), "5.0"), measured_at=IN_2099), tmp_path)
    loaded = load_runs(tmp_path)
    assert [each.key for each in loaded] == [honest.key]  # the newest kernel is that of an honest clock
    assert (
        f"1 run is dated in the future, such as {ahead.key}: the clock of their host was wrong" in loaded.elsewhere[-1]
    )
    assert [row["key"] for row in index.rows(tmp_path)[0]] == [honest.key, ahead.key]


def test_of_one_spec_the_run_that_was_measured_last_is_not_that_of_a_wrong_clock(tmp_path):
    store.write(replace(run([9.0]), measured_at=IN_2099), tmp_path)
    honest = store.write(run([1.0]), tmp_path)
    assert store.latest(honest.spec, tmp_path).key == honest.key
