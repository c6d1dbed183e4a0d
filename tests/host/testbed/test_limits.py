"""What endpoints may use of the CPUs: that they are held to it, in both backends."""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed import registry
from pairlab.testbed.audit import leftovers
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.host import cgroups, lock
from pairlab.testbed.limits import cpu_list
from pairlab.testbed.plans import layout
from tests.conftest import any_backend, at_once, mostly_whole, need, need_all_of
from tests.support import host
from tests.support.attempts import measured, sound_run
from tests.support.owners import ended

CPUS = sorted(os.sched_getaffinity(0))


# --- cgroups


def test_shares_become_the_weight_that_runc_makes_of_them():
    assert [cgroups.weight(shares) for shares in (2, 1024, 262144)] == [1, 39, 10000]


def test_the_same_limits_are_written_in_the_words_of_either_version():
    limits = Limits(None, 0.25, 1024)
    assert cgroups.settings(1, limits) == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "25000",
        "cpu.shares": "1024",
    }
    assert cgroups.settings(2, limits) == {"cpu.max": "25000 100000", "cpu.weight": "39"}
    assert cgroups.settings(2, Limits(cpu_shares=512)) == {"cpu.weight": "20"}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A cgroup v2 hierarchy of plain files: the CPU controller reaches the children of `user`, no further."""
    shell = tmp_path / "user" / "app" / "shell"
    shell.mkdir(parents=True)
    for group in (tmp_path, *(each for each in tmp_path.rglob("*") if each.is_dir())):
        (group / "cgroup.controllers").write_text("cpu io\n")
        (group / "cgroup.procs").write_text("")
        (group / "cgroup.subtree_control").write_text("")
    (tmp_path / "user" / "cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [(2, tmp_path, "/")])
    monkeypatch.setattr(cgroups, "groups_of", lambda process: {2: "/user/app/shell"})
    return tmp_path


def test_in_v2_groups_are_made_in_the_nearest_group_above_that_hands_the_controller_down(tree):
    assert cgroups.hierarchy().base() == tree / "user"
    assert cgroups.missing() is None
    (tree / "user" / "cgroup.subtree_control").write_text("io\n")
    assert cgroups.hierarchy().base() is None
    assert "cgroup.subtree_control" in cgroups.missing().remedy or os.geteuid() != 0


def test_groups_of_a_testbed_whose_guardian_was_killed_too_go_before_the_next_are_made():
    if cgroups.missing():
        pytest.skip(str(cgroups.missing()))
    base = cgroups.hierarchy().base()
    of_the_dead, of_the_living = (base / f"pairlab-{owner}-{os.getpid()}" for owner in (ended(), ownership.me()))
    for each in (of_the_dead, of_the_living):
        (each / "client-0").mkdir(parents=True)
    try:
        with cgroups.groups("next", {"client-0": Limits(cpu_quota=0.5)}):
            assert not of_the_dead.exists()
            assert of_the_living.exists()
    finally:
        cgroups.remove(of_the_living)


def test_a_user_without_a_group_of_its_own_is_told_what_to_do(tree, monkeypatch):
    def access(path, mode, may=os.access):  # programs stay as they are
        return not Path(path).is_relative_to(tree) and may(path, mode)

    monkeypatch.setattr(cgroups.os, "access", access)
    monkeypatch.setattr(cgroups.os, "geteuid", lambda: 1000)
    assert "run as root, or --backend docker" in cgroups.missing().remedy
    with pytest.raises(Unavailable, match="run as root, or --backend docker"):
        layout(Spec(backend="netns", cpu_quota=1)).require()
    pinned = layout(Spec(backend="netns", pinning="same-core"))
    assert pinned.backend.missing_for(pinned)["limits of CPU use"] == []  # affinity is anybody's


def test_a_group_in_v2_is_read_as_it_is_written(tree):
    (tree / "user" / "cpu.max").write_text("25000 100000\n")
    (tree / "user" / "cpu.weight").write_text("39\n")
    assert cgroups.read(tree / "user") == {"cpu_quota": 0.25, "cpu_weight": 39}
    (tree / "user" / "cpu.max").write_text("max 100000\n")
    assert cgroups.read(tree / "user")["cpu_quota"] == 0


def need_groups():
    need("netns")
    if lack := cgroups.missing():
        pytest.skip(str(lack))


def test_groups_are_there_with_their_limits_and_gone_afterwards(clean_host):
    need_groups()
    limits = {"client-0": Limits((0,), 0.5, 512), "server-0": Limits((0,))}
    with cgroups.groups("test", limits) as groups:
        assert list(groups) == ["client-0"]  # affinity needs none
        told = cgroups.read(groups["client-0"])
        assert told.pop("cpu_quota") == 0.5
        assert told in ({"cpu_shares": 512}, {"cpu_weight": 20})
        assert not [each for each in leftovers.find().dead if each.what == f"cgroup {groups['client-0'].parent}"]
    assert not groups["client-0"].parent.exists()


def test_a_group_that_nobody_removed_is_found_by_its_dead_owner(clean_host):
    need_groups()
    left = cgroups.hierarchy().base() / f"{cgroups.PREFIX}{ended()}-x1_y"
    mine = left.with_name(f"{cgroups.PREFIX}{ownership.me()}-x1_y")
    try:
        mine.mkdir()
        (left / "client-0").mkdir(parents=True)
        found = {each.what: each for each in leftovers.find().dead if each.what.startswith("cgroup")}
        assert f"cgroup {mine}" not in found
        found[f"cgroup {left}"].remove()
        assert not left.exists()
    finally:
        cgroups.remove(left)
        cgroups.remove(mine)


def test_a_limit_that_the_kernel_refuses_is_told_and_leaves_nothing(clean_host):
    need_groups()
    beyond = {"client-0": Limits(None, 0.0001)}
    told = "does not take these CPU limits: Invalid argument"
    with pytest.raises(TestbedError, match=told), cgroups.groups("test", beyond):
        pass


# --- in both backends, with real processes


def limited(backend, **limits):
    spec = Spec(backend=backend, **limits)
    need_all_of(spec)
    return spec


def allowed(endpoint):
    (line,) = endpoint.run(["grep", "Cpus_allowed_list", "/proc/self/status"]).stdout.splitlines()
    return line.split()[1]


PINNED = list(itertools.product(at_once(), ["same-core", "different-cores"], ["bridge", "host"]))
AT_HAND = [each for each in PINNED if each[0] == "netns"]


@pytest.mark.parametrize(("backend", "policy", "driver"), mostly_whole(PINNED, but=AT_HAND))
def test_what_runs_in_a_pinned_endpoint_has_that_core_and_no_other(backend, policy, driver, clean_host):
    if len(CPUS) < 2:
        pytest.skip("needs 2 CPUs")
    spec = limited(backend, driver=driver, pinning=policy, pairs=3, cores=2)
    with open_testbed(spec) as bed:
        ends = [end for pair in bed.pairs for end in (pair.client, pair.server)]
        found = {end.name: int(allowed(end)) for end in ends}
        assert found == registry.pinnings.get(policy)().place(3, CPUS[:2])
    assert sorted(os.sched_getaffinity(0)) == CPUS  # the harness is not limited


@pytest.mark.parametrize("backend", any_backend())
def test_endpoints_share_the_first_cores_where_they_are_limited_to_some(backend, clean_host):
    with open_testbed(limited(backend, cores=1, pairs=2)) as bed:
        assert {allowed(end) for pair in bed.pairs for end in (pair.client, pair.server)} == {str(CPUS[0])}


@pytest.mark.parametrize("backend", any_backend())
def test_a_run_tells_where_its_processes_were(backend, runs_dir, clean_host):
    if len(CPUS) < 2:
        pytest.skip("needs 2 CPUs")
    limits = {"pinning": "different-cores", "cores": 2, "cpu_quota": 0.5, "cpu_shares": 512}
    spec = limited(backend, workload="flowgen", pairs=3, duration_s=1, max_skew_s=5, max_foreign_cpu=1, **limits)
    run = sound_run(spec)
    told = dict(run.facts["pinning"])
    assert told.pop("cpus") == {str(CPUS[0]): 3, str(CPUS[1]): 3}
    assert told.pop("harness_cpus") == cpu_list(CPUS)
    assert told.pop("cpu_quota") == {"0.5": 6}
    assert told in ({"cpu_shares": {"512": 6}}, {"cpu_weight": {"20": 6}})


@pytest.mark.parametrize("backend", any_backend())
def test_processes_that_are_not_where_they_were_asked_to_be_make_the_run_invalid(
    backend, runs_dir, monkeypatch, clean_host
):
    if len(CPUS) < 2:
        pytest.skip("needs 2 CPUs")
    spec = limited(backend, workload="flowgen", pairs=2, duration_s=0.5, max_skew_s=5, max_foreign_cpu=1, cores=1)
    real = registry.backends.get(backend).open

    def forgetful(self, layout, *others):
        endpoints = tuple(replace(each, limits=Limits()) for each in layout.endpoints)
        return real(self, replace(layout, endpoints=endpoints), *others)

    monkeypatch.setattr(registry.backends.get(backend), "open", forgetful)
    run = measure(spec)
    assert run.status == "invalid"
    every = cpu_list(CPUS)
    assert f"4 limits were not in force, the first: client-0 had CPUs {every} instead of {CPUS[0]}" in run.reasons


@pytest.mark.parametrize("backend", any_backend())
def test_a_quota_holds_what_runs_in_an_endpoint_to_its_share_of_time(backend, clean_host):
    """CPU time used, against what the quota allows: a busy process gets all it may and no more."""
    seconds, quota = 1.0, 0.2
    with lock.measuring(), open_testbed(limited(backend, cpu_quota=quota, pairs=1)) as bed:
        gate = bed.launcher.gate()
        ends = (bed.pairs[0].client, bed.pairs[0].server)
        busy = bed.launcher.start([(end, ["sh", "-c", "while :; do :; done"]) for end in ends], gate=gate)
        bed.launcher.wait_ready(busy, 10)
        gate.release()
        bed.launcher.wait_ended(busy, seconds)
        bed.launcher.stop(busy)
    for process in busy:
        ran_s = (process.end_ns - process.start_ns) / 1e9
        assert 0 < process.cpu_s <= quota * (ran_s + 0.1) * 1.5  # it may use up one period's quota at once


@pytest.mark.parametrize("backend", any_backend())
def test_containers_with_priority_have_their_weight_and_more_of_a_full_cpu(backend, runs_dir, clean_host):
    asked = {"pairs": 4, "cores": 1, "priority_share": 0.5, "priority_cpu_shares": 16384, "max_foreign_cpu": 1}
    run = measured(limited(backend, workload="flowgen", duration_s=2, **asked))
    goodput_bps = run.flows.groupby("priority")["throughput_bps"].mean()
    assert goodput_bps["high"] > 2 * goodput_bps["normal"]
    weights = run.facts["pinning"].get("cpu_shares") or run.facts["pinning"]["cpu_weight"]
    assert max(weights, key=float) in ("16384", "625")
    assert weights[max(weights, key=float)] == 4


@pytest.mark.parametrize("backend", any_backend())
def test_limited_endpoints_leave_nothing_behind_when_their_process_is_killed(backend, clean_host):
    spec = limited(backend, pairs=2, cpu_quota=0.5, cpu_shares=512)
    with host.killed_builder(spec):
        assert ("cgroups" in host.difference(clean_host)) == (backend == "netns")
    assert host.settled(clean_host, within_s=20), host.difference(clean_host)


def test_the_mounted_hierarchies_of_this_host_are_read():
    found = cgroups.hierarchy()
    if found is None:
        pytest.skip("no CPU controller is mounted")
    assert found.own.is_dir()
    assert (found.own / "cgroup.procs").exists()
    assert found.own.is_relative_to(found.mount)
    assert Path("/sys/fs/cgroup") in (found.mount, *found.mount.parents)
