"""What is mounted, and what the control groups above this process leave it, on files like those of the kernel."""

import os
from pathlib import Path

import pytest

from pairlab.model import environment
from pairlab.testbed.host.cgroups import (
    Hierarchy,
    Throttling,
    above,
    hierarchies,
    mounts,
    quota,
    throttled_share,
    throttlings,
    weights,
)


def group(place, version, quota_us=-1, periods=None):
    """A group of that version with a quota per 100 ms; periods: how many it had, and how many were throttled."""
    place.mkdir(parents=True, exist_ok=True)
    if version == 1:
        (place / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
        (place / "cpu.cfs_period_us").write_text("100000\n")
        (place / "cpu.shares").write_text("1024\n")
    else:
        (place / "cpu.max").write_text(f"{quota_us if quota_us > 0 else 'max'} 100000\n")
        (place / "cpu.weight").write_text("100\n")
    if periods:
        more = "usage_usec 7\nuser_usec 5\n" if version == 2 else ""
        (place / "cpu.stat").write_text(f"{more}nr_periods {periods[0]}\nnr_throttled {periods[1]}\nthrottled_usec 9\n")


@pytest.fixture(params=[1, 2])
def tree(request, tmp_path):
    """/outer/inner, of which inner is ours."""
    version, inner = request.param, tmp_path / "outer" / "inner"
    group(inner, version)
    group(inner.parent, version)
    return Hierarchy(version, tmp_path, inner)


def test_the_least_quota_of_all_groups_above_counts(tree):
    assert quota(tree) == 0
    group(tree.own.parent, tree.version, quota_us=150_000)
    assert quota(tree) == 1.5
    group(tree.own, tree.version, quota_us=50_000)
    assert quota(tree) == 0.5
    assert above(tree) == [tree.own, tree.own.parent, tree.mount]
    assert (quota(None), above(None), throttlings(None)) == (0, [], {})


def test_a_quota_that_is_enforced_anywhere_above_is_found(tree):
    group(tree.own.parent, tree.version, 50_000, periods=(1000, 900))
    before = throttlings(tree)
    assert before == {str(tree.own.parent): Throttling(1000, 900)}
    group(tree.own.parent, tree.version, 50_000, periods=(1081, 979))
    assert throttled_share(before, throttlings(tree)) == pytest.approx(79 / 81)


def test_a_quota_that_is_never_reached_holds_nobody_up(tree):
    group(tree.own, tree.version, 50_000, periods=(1000, 900))
    before = throttlings(tree)
    assert throttled_share(before, throttlings(tree)) == 0  # nothing ran
    group(tree.own, tree.version, 50_000, periods=(1020, 900))
    assert throttled_share(before, throttlings(tree)) == 0


def test_where_no_group_counts_nothing_is_known(tree):
    assert throttled_share(throttlings(tree), throttlings(tree)) is None


@pytest.mark.parametrize(
    ("mine", "host"),
    [
        ({}, "a CPU, 8 CPUs"),
        ({"cpus_allowed": 8, "cpu_quota": 0}, "a CPU, 8 CPUs"),
        ({"cpus_allowed": 2, "cpu_quota": 0.0}, "a CPU, 2 of 8 CPUs"),
        ({"cpus_allowed": 8, "cpu_quota": 0.5}, "a CPU, 8 CPUs with a quota of 0.5"),
    ],
)
def test_what_a_process_may_use_is_part_of_its_environment(mine, host):
    assert environment.of_host({"kernel": "6.1", "cpu_model": "a CPU", "cpus": 8, **mine}).host == host


def test_the_weights_of_all_groups_above_are_known_ours_first(tree):
    file, values = ("cpu.weight", (50, 200)) if tree.version == 2 else ("cpu.shares", (512, 2048))
    for place, value in zip((tree.own, tree.own.parent), values, strict=True):
        (place / file).write_text(f"{value}\n")
    assert weights(tree) == list(values)
    assert weights(None) == []


#: Linux 6.18, in a mount namespace: `mount -t tmpfs "" "/tmp/w t"`, and a name that is not UTF-8.
LINES = (
    rb"""24 1 0:22 / /sys rw,nosuid - sysfs sysfs rw
33 32 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw,nosuid master:5 - cgroup cgroup rw,cpu,cpuacct
34 32 0:30 / /sys/fs/cgroup/unified rw - cgroup2 none rw,nsdelegate
412 24 0:91 / /tmp/w\040t rw,relatime - tmpfs  rw,size=4k
413 24 0:92 / /tmp/caf"""
    + b"\xe9 rw - tmpfs none rw\n"
)


def test_a_mount_without_a_source_and_one_with_odd_bytes_in_its_name_are_read_like_others(tmp_path):
    file = tmp_path / "mountinfo"
    file.write_bytes(LINES)
    found = list(mounts(file))
    assert [each.kind for each in found] == ["sysfs", "cgroup", "cgroup2", "tmpfs", "tmpfs"]
    assert (found[3].where, found[3].options) == ("/tmp/w t", ("rw", "size=4k"))
    assert os.fsencode(found[4].where) == b"/tmp/caf\xe9"
    assert list(hierarchies(found)) == [
        (1, Path("/sys/fs/cgroup/cpu,cpuacct"), "/docker/ab"),
        (2, Path("/sys/fs/cgroup/unified"), "/"),
    ]
