"""What a container may do: as Docker tells of it, and as one finds who tries from inside."""

import contextlib
import os

import docker
import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.errors import MeasurementFailed
from pairlab.testbed.docker import engine
from pairlab.testbed.docker.reaper import LABEL
from tests.conftest import mostly_whole, need

pytestmark = pytest.mark.usefixtures("clean_host")


@pytest.fixture(scope="module", params=mostly_whole(["bridge", "host"], but=["bridge"]))
def bed(request):
    need("docker", request.param)
    with open_testbed(Spec(backend="docker", driver=request.param, pairs=1)) as bed:
        yield bed


@pytest.fixture
def inspected(bed):
    run = bed.directory.name.removeprefix("pairlab-")
    with contextlib.closing(docker.from_env()) as client:
        containers = client.api.containers(filters={"label": f"{LABEL}={run}"})
        assert len(containers) == 2
        return [client.api.inspect_container(each["Id"]) for each in containers]


def inside(bed, *argv):
    done = bed.pairs[0].client.run(argv)
    return done.returncode, done.stdout + done.stderr


def test_docker_was_told_to_confine_every_container(inspected):
    for told in inspected:
        host, config = told["HostConfig"], told["Config"]
        assert config["User"] == engine.USER
        assert (host["CapAdd"], host["CapDrop"]) == (None, ["ALL"])
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert not any(option.startswith(("seccomp", "apparmor")) for option in host["SecurityOpt"])  # the default's
        assert (host["Privileged"], host["ReadonlyRootfs"], host["IpcMode"]) == (False, True, "none")
        assert (host["PortBindings"] or {}, host["PublishAllPorts"]) == ({}, False)
        assert not config.get("ExposedPorts")
        assert host["LogConfig"]["Type"] == "none"
        assert host["PidsLimit"] == engine.MOST_PIDS
        assert host["Memory"] > 1 << 28
        assert not host["Devices"]
        written = [mount["Destination"] for mount in told["Mounts"] if mount["RW"]]
        assert written == ["/pairlab/run"]


def test_nobody_is_who_runs_there_without_a_capability(bed):
    _, told = inside(bed, "cat", "/proc/self/status")
    status = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["65534"] * 4
    assert status["Gid"].split() == ["65534"] * 4
    assert status["Groups"].split() in ([], ["65534"])
    found = {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert found == dict.fromkeys(found, 0)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_it_gets_at_no_descriptor_of_process_1_or_of_its_launcher(bed):
    """All are nobody, without a capability: that alone would let them (ptrace(2), "access mode checking")."""
    for pid in ("1", "$PPID"):
        assert inside(bed, "sh", "-c", f"readlink /proc/{pid}/fd/*; cat /proc/{pid}/environ 2> /dev/null") == (1, "")
    # Without a pipe, of which the shell would have an end open for a moment.
    own = "for each in /proc/$$/fd/*; do readlink $each > /dev/null && echo ${each##*/}; done; true"
    assert set(inside(bed, "sh", "-c", own)[1].split()) == {"0", "1", "2"}


@pytest.mark.parametrize("path", ["/mine", "/etc/passwd", "/usr/bin/iperf", "/pairlab/flowgen", "/pairlab/run/mine"])
def test_its_files_cannot_be_written(bed, path):
    code, told = inside(bed, "sh", "-c", f"echo >> {path}")
    assert code != 0
    assert any(why in told for why in ("Read-only file system", "Permission denied", "Text file busy")), told


def test_nothing_can_be_mounted_and_no_program_gives_more_rights(bed):
    code, told = inside(bed, "mount", "-t", "tmpfs", "none", "/tmp")
    assert code != 0
    assert "permission denied" in told.lower() or "superuser" in told
    assert inside(bed, "su", "-c", "true")[0] != 0
    assert inside(bed, "unshare", "--mount", "true")[0] != 0
    code, told = inside(bed, "ip", "link", "set", "lo", "down")
    assert code != 0
    assert "not permitted" in told


def test_in_tmp_files_can_be_kept_and_not_run(bed):
    assert inside(bed, "sh", "-c", "cp /bin/true /tmp/mine && test -s /tmp/mine")[0] == 0
    with pytest.raises(MeasurementFailed, match="cannot run /tmp/mine: Permission denied"):
        inside(bed, "/tmp/mine")


def test_its_limits_are_in_force(bed):
    """As its cgroup's files tell, in both versions of cgroups(7)."""
    here = "/sys/fs/cgroup"
    told = inside(bed, "sh", "-c", f"cat {here}/pids.max {here}/pids/pids.max 2>/dev/null")[1].split()
    assert str(engine.MOST_PIDS) in told


@pytest.fixture
def strict_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.parametrize("workload", mostly_whole(["netcat", "iperf"], but=["netcat"]))
def test_nobody_can_read_what_it_is_given_whatever_our_umask_is(workload, strict_umask, tmp_path):
    need("docker", workload=workload)
    what = {"flow_bytes": 100_000, "duration_s": 20} if workload == "netcat" else {"duration_s": 0.5}
    run = measure(Spec(backend="docker", workload=workload, pairs=1, max_skew_s=5, **what), root=tmp_path)
    assert list(run.flows["status"]) == ["ok"]
