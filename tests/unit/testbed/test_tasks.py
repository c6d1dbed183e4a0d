"""Which clients send elephants, or UDP: drawn from the seed alone, and the same for all that are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab.model.spec import Spec
from pairlab.testbed.endpoints import Task
from pairlab.testbed.plans import draw

ELEPHANTS = {"flow_bytes": 5, "elephant_bytes": 50}


def elephants(**values):
    return [index for index, task in enumerate(draw(Spec(**ELEPHANTS, **values))) if task.role == "elephant"]


@given(st.integers(1, 300), st.floats(0.01, 1), st.integers(0, 2**63 - 1))
def test_as_many_are_elephants_as_the_share_says(pairs, share, seed):
    assert len(elephants(pairs=pairs, elephant_share=share, seed=seed)) == round(share * pairs)


def test_the_draw_is_the_same_on_every_machine_and_in_every_version():
    assert elephants(pairs=20, elephant_share=0.2) == [2, 3, 8, 15]
    assert elephants(pairs=20, elephant_share=0.2, backend="docker", driver="ovs", workload="netcat") == [2, 3, 8, 15]


def test_another_seed_and_another_repetition_are_another_draw():
    draws = {
        tuple(elephants(pairs=50, elephant_share=0.2, seed=seed, repetition=repetition))
        for seed in range(5)
        for repetition in range(5)
    }
    assert len(draws) == 25


def test_over_many_repetitions_each_pair_is_as_often_an_elephant():
    counts = [0] * 10
    for repetition in range(2000):
        for pair in elephants(pairs=10, elephant_share=0.2, repetition=repetition):
            counts[pair] += 1
    assert min(counts) > 300  # of 400 expected; its standard deviation is 18
    assert max(counts) < 500


def test_an_elephant_has_its_own_size_and_all_others_are_mice():
    tasks = draw(Spec(pairs=5, elephant_share=0.2, **ELEPHANTS))
    assert sorted(tasks, key=lambda task: task.flow_bytes) == [Task("tcp", "mouse", 5)] * 4 + [
        Task("tcp", "elephant", 50)
    ]


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.5, 2), (1.0, 4)])
def test_a_share_of_the_pairs_sends_udp(share, count):
    tasks = draw(Spec(pairs=4, udp_share=share))
    assert [task.protocol for task in tasks].count("udp") == count
    assert all(task == Task(task.protocol) for task in tasks)
