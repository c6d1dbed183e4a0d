"""What this host lacks is told before anything is built, with how to get it."""

import importlib
import os
import subprocess
import sys

import pytest

from pairlab.errors import TestbedError, Unavailable
from pairlab.measurement import measure
from pairlab.model.spec import Spec
from pairlab.store.dataset import load_runs
from pairlab.testbed import registry
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.netns import sandbox
from pairlab.testbed.open import open_testbed
from pairlab.testbed.requirements import MissingRequirement
from tests.conftest import need


def test_without_a_docker_daemon_the_remedy_is_named_and_the_skip_recorded(monkeypatch, runs_dir):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    with pytest.raises(Unavailable, match="no Docker daemon answers at unix:///nonexistent: sudo apt-get install"):
        measure.measure(Spec(backend="docker", workload="flowgen"))
    (skipped,) = load_runs()
    assert (skipped.status, len(skipped.flows)) == ("skipped", 0)
    assert "sudo systemctl start docker" in skipped.reasons[0]


@pytest.mark.parametrize("place", ["tcp://127.0.0.1:1", "ssh://nobody"])
def test_a_docker_host_that_is_none_is_a_lack_and_no_crash(monkeypatch, place):
    monkeypatch.setenv("DOCKER_HOST", place)
    (lack,) = (lack for lack in registry.backends.get("docker")().missing() if "Docker" in lack.what)
    assert lack.what.startswith(f"no Docker daemon answers at {place}")
    assert "choose another by DOCKER_HOST" in lack.remedy


def test_a_tool_that_is_not_installed_is_named_with_its_package(monkeypatch, runs_dir):
    need("netns")
    registry.backends.get("netns")().missing()  # its answer is kept: found while unshare could be
    monkeypatch.setenv("PATH", "/nonexistent")
    told = r"workload 'iperf3': iperf3 is not installed: sudo apt-get install iperf3"
    with pytest.raises(Unavailable, match=told):
        measure.check(Spec(workload="iperf3"))


def test_without_iperf_flowgen_does_the_work_by_itself(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert measure.resolve(Spec()).workload == "flowgen"
    assert measure.resolve(Spec(backend="docker")).workload == "iperf"  # it is in the image


class Imaginary(NetworkDriver):
    """A driver that wants a kind of link no kernel has."""

    name = "imaginary"
    summary = "for the tests"
    links = ("imaginary",)

    def create(self, lan):
        raise AssertionError("it was built")


FAULTY = """
from pairlab.testbed.contracts import NetworkDriver


class Faulty(NetworkDriver):
    name, summary = "faulty", "has a mistake"

    def create(self, lan):
        int("eleven")
"""


def test_a_mistake_in_a_driver_is_reported_with_its_file_and_line(monkeypatch, tmp_path):
    need("netns")
    (tmp_path / "faulty_driver.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    faulty = importlib.import_module("faulty_driver").Faulty
    monkeypatch.setitem(registry.drivers._loaders, "faulty", lambda: faulty)
    message = r"ValueError: invalid literal for int\(\) with base 10: 'eleven' \(.*/faulty_driver\.py, line 9\)"
    with pytest.raises(TestbedError, match=message), open_testbed(Spec(driver="faulty")):
        pass


def test_a_kind_of_link_the_kernel_lacks_is_told_before_anything_is_built(monkeypatch, runs_dir):
    need("netns")
    monkeypatch.setitem(registry.drivers._loaders, "imaginary", lambda: Imaginary)
    told = "driver 'imaginary': this kernel has no imaginary links: sudo modprobe imaginary, or leave 'imaginary' out"
    with pytest.raises(Unavailable, match=told):
        measure.check(Spec(driver="imaginary", workload="flowgen"))
    with pytest.raises(Unavailable, match="this kernel has no imaginary links"), open_testbed(Spec(driver="imaginary")):
        pass
    with pytest.raises(Unavailable):
        measure.measure(Spec(driver="imaginary", workload="flowgen"))
    assert [run.status for run in load_runs()] == ["skipped"]


@pytest.fixture
def rootless_host(monkeypatch, tmp_path):
    """A host whose unshare fails as AppArmor makes it fail, with switches in /proc/sys as given."""

    def rootless_host(
        *, said="unshare: write failed /proc/self/uid_map: Operation not permitted", root=False, **switches
    ):
        stub = tmp_path / "bin" / "unshare"
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        stub.chmod(0o755)
        for name, value in switches.items():
            place = "user" if name.startswith("max_") else "kernel"
            file = tmp_path / "sys" / place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
        monkeypatch.setenv("PATH", str(stub.parent), prepend=os.pathsep)
        monkeypatch.setattr(sandbox, "SYSCTLS", tmp_path / "sys")
        monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
        return sandbox.missing.__wrapped__()

    return rootless_host


@pytest.mark.parametrize(
    ("switches", "remedy"),
    [
        (
            {"apparmor_restrict_unprivileged_userns": 1},
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run pairlab as root",
        ),
        ({"unprivileged_userns_clone": 0}, "sudo sysctl -w kernel.unprivileged_userns_clone=1, or run pairlab as root"),
        ({"max_user_namespaces": 0}, "sudo sysctl -w user.max_user_namespaces=15000, or run pairlab as root"),
        (
            {"apparmor_restrict_unprivileged_userns": 0, "unprivileged_userns_clone": 1, "max_user_namespaces": 9000},
            "allow user namespaces for this user, or run pairlab as root",
        ),
    ],
    ids=["AppArmor", "Debian's switch", "none allowed", "another reason"],
)
def test_without_user_namespaces_the_switch_to_turn_is_named(rootless_host, switches, remedy):
    lack = rootless_host(**switches)
    what = "no sandbox can be made (unshare: write failed /proc/self/uid_map: Operation not permitted)"
    assert lack == MissingRequirement(what, remedy)


def test_root_without_its_rights_is_not_told_to_become_root(rootless_host):
    lack = rootless_host(said="unshare: unshare failed: Operation not permitted", root=True, max_user_namespaces=0)
    assert lack.what == "no sandbox can be made (unshare: unshare failed: Operation not permitted)"
    assert lack.remedy.startswith("this root lacks CAP_SYS_ADMIN (a container?): start it with --security-opt seccomp=")
    assert lack.remedy.endswith("as .devcontainer does, or run on the host")


FULL = "unshare: unshare failed: No space left on device"


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("kind", ["net", "mnt", "pid"])
def test_a_limit_of_namespaces_is_named_with_what_is_needed_and_its_sysctl(rootless_host, kind, root):
    limits = {f"max_{each}_namespaces": 0 if each == kind else 90_000 for each in ("net", "mnt", "pid", "user")}
    lack = rootless_host(said=FULL, root=root, **limits)
    assert lack.what == "no sandbox can be made (unshare: unshare failed: No space left on device)"
    needed = f"user.max_{kind}_namespaces is 0, and a sandbox needs 1"
    assert lack.remedy == f"{needed}: sudo sysctl -w user.max_{kind}_namespaces=15000"


def test_where_all_namespaces_are_in_use_the_lowest_limit_is_named(rootless_host):
    lack = rootless_host(said=FULL, max_net_namespaces=4, max_mnt_namespaces=90_000, max_pid_namespaces=90_000)
    assert lack.remedy.startswith(
        "all namespaces that this user may have are in use (user.max_net_namespaces is 4): end"
    )
    assert "sudo sysctl -w user.max_net_namespaces=15000" in lack.remedy


def test_pairs_for_which_there_are_too_few_network_namespaces_are_refused_before_anything_is_built():
    program = """
from pairlab import Spec
from pairlab.testbed import plans
from pairlab.testbed.links.namespaces import new_namespaces
print(plans.layout(Spec(workload="flowgen", pairs=5)).missing())
try:
    new_namespaces(5)
except Exception as error:
    print(type(error).__name__, error)
"""
    inner = 'echo 4 > /proc/sys/user/max_net_namespaces && exec "$@"'
    sandbox = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", inner, "sh"]
    argv = [*sandbox, sys.executable, "-P", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    refused, failed = done.stdout.splitlines() or [done.stderr, ""]
    assert "user.max_net_namespaces is 4, and 5 pairs need 11 network namespaces" in refused
    assert "sudo sysctl -w user.max_net_namespaces=15000, or fewer pairs" in refused
    assert failed.startswith("TestbedError ")
    assert " of 5 network namespaces could be made: user.max_net_namespaces, of this user namespace or" in failed


def test_the_backend_tells_what_its_sandbox_lacks(rootless_host, monkeypatch):
    lack = rootless_host(max_user_namespaces=0)
    monkeypatch.setattr(sandbox, "missing", lambda: lack)
    with pytest.raises(Unavailable, match=r"backend 'netns': no sandbox can be made.*user\.max_user_namespaces=15000"):
        measure.check(Spec(workload="flowgen"))
    with pytest.raises(Unavailable, match=r"user\.max_user_namespaces=15000"):
        sandbox.Sandbox()
