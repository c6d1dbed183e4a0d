"""What is mounted, from lines as the kernel writes them."""

import os
from pathlib import Path

from pairlab.testbed.host.cgroup_tree import hierarchies, mounts

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
