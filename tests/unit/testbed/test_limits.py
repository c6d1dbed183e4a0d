"""Who is put where, and held to which limits: worked out before anything is built, and told of what was in force."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlab import Spec
from pairlab.errors import BadSpec
from pairlab.testbed import registry
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.limits import cpu_list, in_force, unmet
from pairlab.testbed.plans import layout


def sides(placed, side):
    return {name: core for name, core in placed.items() if name.startswith(side)}


def spread(placed, cores):
    """The most endpoints of one core less the fewest."""
    counted = Counter(dict.fromkeys(cores, 0)) + Counter()
    counted = dict.fromkeys(cores, 0) | Counter(placed.values())
    return max(counted.values()) - min(counted.values())


# --- who is put where

some_cores = st.lists(st.integers(0, 1023), min_size=1, max_size=40, unique=True)


@given(pairs=st.integers(1, 300), cores=some_cores)
def test_on_the_same_core_means_that_a_pair_shares_one_and_all_get_as_many_pairs(pairs, cores):
    placed = registry.pinnings.get("same-core")().place(pairs, cores)
    assert len(placed) == 2 * pairs
    assert all(placed[f"client-{index}"] == placed[f"server-{index}"] for index in range(pairs))
    assert spread(sides(placed, "client"), cores) <= 1


@given(pairs=st.integers(1, 300), cores=some_cores.filter(lambda cores: len(cores) >= 2))
def test_on_different_cores_no_pair_shares_one_and_no_core_has_two_more_than_another(pairs, cores):
    placed = registry.pinnings.get("different-cores")().place(pairs, cores)
    assert len(placed) == 2 * pairs
    assert all(placed[f"client-{index}"] != placed[f"server-{index}"] for index in range(pairs))
    for some in (placed, sides(placed, "client"), sides(placed, "server")):
        assert spread(some, cores) <= 1


@pytest.mark.parametrize("policy", ["same-core", "different-cores"])
def test_paper_cs_96_containers_are_twelve_to_each_of_eight_cores(policy):
    placed = registry.pinnings.get(policy)().place(48, range(8))
    assert Counter(placed.values()) == dict.fromkeys(range(8), 12)
    assert Counter(sides(placed, "server").values()) == dict.fromkeys(range(8), 6)


def test_every_core_has_partners_on_several_others():
    placed = registry.pinnings.get("different-cores")().place(48, range(8))
    partners = {(placed[f"client-{index}"], placed[f"server-{index}"]) for index in range(48)}
    assert len(partners) == 48


@pytest.mark.parametrize("policy", registry.pinnings.names())
def test_every_policy_places_endpoints_that_there_are_on_cores_that_there_are(policy):
    pinning = registry.pinnings.get(policy)()
    placed = pinning.place(5, [3, 7, 11][: max(pinning.least_cores, 3)])
    assert set(placed) <= {f"{side}-{index}" for side in ("client", "server") for index in range(5)}
    assert set(placed.values()) <= {3, 7, 11}


# --- the limits of a spec


def test_a_spec_without_limits_limits_nobody():
    assert layout(Spec(pairs=2), range(4)).limits == {}


def test_cores_are_the_first_of_those_this_process_may_use_and_pinning_picks_among_them():
    assert layout(Spec(cores=2), [1, 4, 6]).limits == {"client-0": Limits((1, 4)), "server-0": Limits((1, 4))}
    pinned = layout(Spec(cores=2, pinning="different-cores"), [1, 4, 6]).limits
    assert pinned == {"client-0": Limits((1,)), "server-0": Limits((4,))}


def test_without_cores_pinning_picks_among_all():
    pinned = layout(Spec(pairs=3, pinning="same-core"), [1, 4, 6]).limits
    assert [pinned[f"client-{index}"].cpus for index in range(3)] == [(1,), (4,), (6,)]


def test_quota_and_shares_are_each_endpoints_own():
    assert layout(Spec(cpu_quota=0.5, cpu_shares=512), [0]).limits == dict.fromkeys(
        ("client-0", "server-0"), Limits(None, 0.5, 512)
    )


@pytest.mark.parametrize(
    ("asked", "quota"),
    [({}, 0.1), ({"cores": 1}, 0.05), ({"cpu_quota_of_fair_share": 0.25}, 0.05), ({"pairs": 1}, 0.5)],
)
def test_a_quota_of_the_fair_share_is_of_the_cores_divided_by_the_containers(asked, quota):
    limits = layout(Spec(**{"pairs": 5, "cpu_quota_of_fair_share": 0.5} | asked), [0, 1]).limits
    assert {each.cpu_quota for each in limits.values()} == {quota}


def test_a_quota_beyond_all_cores_is_all_of_them():
    limits = layout(Spec(pairs=1, cpu_quota_of_fair_share=3), [0, 1]).limits
    assert {each.cpu_quota for each in limits.values()} == {2.0}


def test_priority_is_both_containers_of_the_pairs_that_the_seed_draws():
    plan = layout(Spec(pairs=10, priority_share=0.3, priority_cpu_shares=4096, cpu_shares=512), [0, 1])
    prior = {pair for pair, task in enumerate(plan.tasks) if task.priority == "high"}
    assert len(prior) == 3
    assert {task.priority for task in plan.tasks} == {"high", "normal"}
    for name, limits in plan.limits.items():
        assert limits.cpu_shares == (4096 if int(name.split("-")[1]) in prior else 512)
    other = layout(Spec(pairs=10, priority_share=0.3, priority_cpu_shares=4096, repetition=1), [0, 1])
    assert {pair for pair, task in enumerate(other.tasks) if task.priority == "high"} != prior
    assert {task.priority for task in layout(Spec(pairs=2)).tasks} == {""}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"cpu_quota": 0.5, "cpu_quota_of_fair_share": 0.5}, "two ways to say one thing"),
        ({"priority_share": 0.5}, "priority_share and priority_cpu_shares belong together"),
        ({"priority_cpu_shares": 2048}, "priority_share and priority_cpu_shares belong together"),
        ({"priority_share": 0.5, "priority_cpu_shares": 1024}, "1024 is the weight of the other containers, too"),
        ({"mtu_bytes": 575}, "mtu_bytes: must be at least 576"),
        ({"mtu_bytes": 65536}, "mtu_bytes: input should be less than or equal to 65535"),
        ({"cores": 4}, "cores: this process may use 3 CPUs, not 4"),
        ({"pinning": "different-cores", "cores": 1}, "'different-cores' needs at least 2 cores; 1 available"),
        ({"cpu_quota": 3.5}, "cpu_quota: must be from 0.01 to the number of CPUs, 3, not 3.5"),
        ({"cpu_quota": 0.001}, "cpu_quota: must be from 0.01"),
        ({"cpu_shares": 1}, "cpu_shares: must be at least 2"),
        ({"priority_share": 0.5, "priority_cpu_shares": 1, "pairs": 2}, "priority_cpu_shares: must be at least 2"),
        ({"cpu_quota_of_fair_share": 0.1, "pairs": 50}, "0.1 of 0.03 CPUs, .* each of 100 containers, is less than"),
    ],
)
def test_limits_that_contradict_each_other_or_cannot_be_are_refused_with_what_there_is(asked, told):
    with pytest.raises(BadSpec, match=told):
        layout(Spec(**asked), range(3))


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_list_of_cpus_is_written_as_the_kernel_writes_it(cpus):
    told = cpu_list(cpus)
    read = [range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1) for part in told.split(",")]
    assert sorted(cpus) == [cpu for each in read for cpu in each]
    assert all(later.start > earlier.stop for earlier, later in itertools.pairwise(read))  # no two touch


def test_the_record_counts_endpoints_by_what_they_were_held_to():
    seen = [("client-0", "0"), ("client-1", "1"), ("server-0", "1"), ("server-1", "0")]
    groups = {name: {"cpu_quota": 0.5, "cpu_weight": 20.0} for name, _ in seen}
    assert in_force(seen, groups) == {"cpus": {"0": 2, "1": 2}, "cpu_quota": {"0.5": 4}, "cpu_weight": {"20": 4}}


def test_limits_that_were_not_in_force_are_reported():
    asked = {"client-0": Limits((0, 1, 2), 0.5), "server-0": Limits((3,))}
    assert unmet(asked, [("client-0", "0-2"), ("server-0", "3")], {"client-0": {"cpu_quota": 0.5}}) == []
    assert unmet(asked, [("client-0", "0-3"), ("server-0", "")], {"client-0": {"cpu_quota": 0.0}}) == [
        "3 limits were not in force, the first: client-0 had CPUs 0-3 instead of 0-2"
    ]
    assert unmet({}, [("client-0", "0-3")], {}) == []
