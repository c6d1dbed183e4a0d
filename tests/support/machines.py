"""Machines to be reached over ssh, as far as one machine can play them: network namespaces, each with an sshd.

Real ssh and a real sshd, with keys of their own; a connection is the standard input and output of an sshd that runs in
the machine's network namespace, so that none listens anywhere. What is run there is a process of this machine.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pairlab import paths
from pairlab.testbed.ssh import backend

SSHD = "/usr/sbin/sshd"
NAMES = ("left", "right")


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
        "UsePAM no\nPidFile none\nPasswordAuthentication no\n"
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
        backend._looked.cache_clear()
        yield holders
        backend._looked.cache_clear()


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
