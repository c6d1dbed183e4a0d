"""How long all-to-all takes: its places, its factors between hosts, with truth planted."""

import pytest

from pairlab.analysis.questions.collectives import all_to_all
from pairlab.model.spec import Spec
from tests.support.claimed import HALVES, exchanging


def runs(repetitions=3):
    for repetition in range(repetitions):
        for pairs in (1, 2):
            at = {"pairs": pairs, "repetition": repetition}
            yield exchanging(pairs, driver="process", **at)
            yield exchanging(1.5 * pairs, **at)
            yield exchanging(15 * pairs, **at, **HALVES)


def test_two_hosts_take_as_many_times_as_was_planted():
    found = all_to_all.factors(all_to_all.by_repetition(runs()), 0.95)
    assert found["value"].to_list() == pytest.approx([10.0, 10.0])
    assert set(found["kind"]) == {all_to_all.WITH}


def test_containers_are_held_against_processes_in_the_same_place():
    found = all_to_all.gaps(all_to_all.by_repetition(runs()), 0.95)
    within = found[found["place"] == all_to_all.WITHIN]
    assert within["value"].to_list() == pytest.approx([50.0, 50.0])


def test_the_mean_round_is_told_by_number_of_containers():
    cells = all_to_all.cells(all_to_all.by_repetition(runs()), 0.95)
    bridge = cells[cells["driver"] == "bridge"]
    assert dict(zip(bridge["containers"], bridge["value"], strict=True)) == pytest.approx({2: 150e-6, 4: 300e-6})


def test_an_odd_number_of_containers_is_a_number_of_its_own():
    assert all_to_all.containers(Spec(workload="all-to-all", pairs=2, ranks=3)) == 3


def test_without_runs_there_are_no_numbers():
    repetitions = all_to_all.by_repetition([])
    for frame in (all_to_all.cells(repetitions, 0.95), all_to_all.factors(repetitions, 0.95)):
        assert frame.empty
