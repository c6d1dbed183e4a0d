"""Machines to be reached over ssh, as far as one machine can play them: network namespaces, each with an sshd.

Real ssh and a real sshd, with keys of their own; a connection is the standard input and output of an sshd that runs in
the machine's network namespace, so that none listens anywhere. What is run there is a process of this machine.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from pairlab import Run, Spec, paths
from pairlab.testbed.ssh import backend

SSHD = "/usr/sbin/sshd"
NAMES = ("left", "right")
#: In the environment of what runs for a test's machines, here and there.
MARK = "PAIRLAB_MACHINES"


def need_sshd() -> None:
    if os.geteuid() or not os.path.exists(SSHD) or not shutil.which("ssh"):
        pytest.skip("plays machines as root, with openssh-server")


@contextlib.contextmanager
def machines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """In the block, the study's hosts.yaml names two machines, whose links eth1 are one wire; by name, a process in the
    network namespace of each.
    """
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where an sshd locks itself in
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    public = (folder / "host.pub").read_text().split(" ", 2)
    (folder / "known").write_text("".join(f"{name} {public[0]} {public[1]}\n" for name in NAMES))
    (folder / "config").write_text(
        f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPermitRootLogin yes\nStrictModes no\n"
        f"UsePAM no\nPidFile none\nPasswordAuthentication no\nSetEnv {MARK}={folder}\n"
    )
    with contextlib.ExitStack() as stack:
        holders = {name: stack.enter_context(_namespace()) for name in NAMES}
        left, right = holders.values()
        wire = ["ip", "link", "add", "eth1", "netns", str(left), "type", "veth", "peer", "eth1", "netns", str(right)]
        subprocess.run(wire, check=True)
        for each in holders.values():
            subprocess.run(["nsenter", f"--net=/proc/{each}/ns/net", "ip", "link", "set", "eth1", "up"], check=True)
        hosts = [
            {
                "name": name,
                "ssh": f"root@{name}",
                "interface": "eth1",
                "options": [
                    *("-F", "none", "-i", f"{folder}/user", "-o", f"UserKnownHostsFile={folder}/known"),
                    *("-o", f"ProxyCommand=nsenter --net=/proc/{pid}/ns/net {SSHD} -i -f {folder}/config"),
                ],
            }
            for name, pid in holders.items()
        ]
        (folder / paths.STUDY_FILE).touch()
        (folder / "hosts.yaml").write_text(yaml.safe_dump({"hosts": hosts}))
        monkeypatch.setattr(paths, "STUDY", folder)
        monkeypatch.setenv("PAIRLAB_STUDY", str(folder))
        monkeypatch.setenv(MARK, str(folder))
        backend._known.clear()
        yield holders
        backend._known.clear()


@contextlib.contextmanager
def _namespace() -> Iterator[int]:
    """A network namespace, by a process in it."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up; echo there; read -r _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "there\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def across(driver: str, **asked) -> Spec:
    """Two pairs, each with its ends on two machines."""
    where = {"backend": "ssh", "hosts": 2, "placement": "across", "driver": driver}
    return Spec(workload="flowgen", pairs=2, max_foreign_cpu=1.0, max_skew_s=1.0, **where | asked)


def running() -> list[psutil.Process]:
    """What runs of agents, launchers and watchdogs on this test's machines, and what speaks for them here."""
    found = []
    for each in psutil.process_iter():
        try:
            words, mark = each.cmdline(), each.environ().get(MARK)
        except psutil.Error:
            continue
        if mark != os.environ[MARK]:  # another test's
            continue
        ours = [
            word for word in words if "pairlab.testbed.ssh" in word or word.endswith(("/run/pairlab/flowgen", "-ssh"))
        ]
        if ours:
            found.append(each)
    return found


def nothing_left(within_s: float = 60.0) -> bool:
    return not psutil.wait_procs(running(), within_s)[1] and not running()


def killed(who: str) -> None:
    """Kills the coordinator here; or of one machine ssh, its sshd, the keeper, or the sandbox. silent: ssh stops."""
    if who == "coordinator":
        victims = [each for each in running() if "pairlab.testbed.ssh.hosts" in each.cmdline()]
    else:
        names = {"keeper": ["python3"], "sandbox": ["unshare"], "sshd": ["sshd", "sshd-session"]}.get(who, ["ssh"])
        victims = [each for each in psutil.Process().children(recursive=True) if each.name() in names][-1:]
    assert victims
    for each in victims:
        each.send_signal(signal.SIGSTOP if who == "silent" else signal.SIGKILL)


def assert_each_byte_was_counted(run: Run) -> None:
    assert run.status in ("ok", "invalid"), run.reasons
    assert list(run.flows["status"]) == ["ok"] * 2, list(run.flows["error"])
    assert list(run.flows["flow_bytes"]) == [run.spec.flow_bytes] * 2
    assert run.checks["interface_bytes"] in (None, 0.0)
    assert run.checks["clock_error_s"] < 0.01
    # They are called what they are here: two names of one kernel.
    hosts = [(each["kind"], each["on"]) for each in run.facts["hosts"]]
    assert hosts == [("namespace", name) for name in NAMES]
    settings = {name.partition(": ")[0] for name in run.conditions if ": " in name}
    assert settings == {*NAMES}, "a setting of each machine is recorded with its name"
    assert [each["kernel"] for each in run.facts["network"]["kernels"]] == [os.uname().release] * 2
    alike = {name: run.facts["host"][name] for name in ("cpu_model", "virtualization")}
    assert all(alike.items() <= each.items() for each in run.facts["network"]["kernels"])
    described = ", ".join(f"{name} (Linux {os.uname().release}, {os.cpu_count()} CPUs)" for name in NAMES)
    assert run.environment.engine == f"ssh {described}"
