"""A Docker daemon of a test's own, which may be killed: in namespaces of its own, with all that it keeps in a folder.

A measurement that uses it runs in its network namespace, where parent links are made, and in its PID namespace, by
which Docker tells of processes. The first process there only buries the orphans; its end is the end of everything.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import docker
import psutil
import pytest

from pairlab import paths
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.docker import image
from pairlab.testbed.docker.daemon import DOCKER_ERRORS

PATIENCE_S = 30.0
UNSHARED = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
DIES_WITH_US = ("setpriv", "--pdeathsig=KILL")


#: The daemon's runtime. Where the trap is set, the daemon is killed as soon as a container is made, before its start.
RUNTIME = """#!/bin/sh
runc "$@"
status=$?
case " $* " in *" create "*) rm {0}/trap 2> /dev/null && kill -9 $(cat {0}/pid) ;; esac
exit $status
"""


class Dockerd:
    """Use as a context manager. pid: the daemon's, as the test sees it."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dockerd-", dir="/tmp"))  # the path of a socket is short
        self.host = f"unix://{self.folder}/socket"
        (self.folder / "runtime").write_text(RUNTIME.format(self.folder))
        (self.folder / "runtime").chmod(0o755)
        self._log = (self.folder / "log").open("ab")
        self._first = subprocess.Popen(
            [*DIES_WITH_US, *UNSHARED, "sh", "-c", 'ip link set lo up; echo up; exec "$0" pause', str(paths.flowgen())],
            stdout=subprocess.PIPE,
        )
        assert self._first.stdout.readline() == b"up\n"
        (child,) = psutil.Process(self._first.pid).children()
        self._namespace = os.stat(f"/proc/{child.pid}/ns/pid").st_ino
        self._inside = ["nsenter", "--target", str(child.pid), "--net", "--mount", "--pid", "--"]
        self._daemon = None

    def __enter__(self):
        self.start()
        with self.client() as client:
            client.api.import_image_from_data(_tiny(), *image.tag().split(":"))
        return self

    def __exit__(self, *_):
        self._first.kill()
        self._first.wait()
        if self._daemon:
            self._daemon.kill()
            self._daemon.wait()
        self._log.close()
        self._remove_cgroups()
        deadline = time.monotonic() + PATIENCE_S
        while self.folder.exists() and time.monotonic() < deadline:  # the last mounts go with the namespace
            shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_cgroups(self):
        """Those of containers that were there at the end, which nobody else removes."""
        for top in Path("/sys/fs/cgroup").glob(f"**/{self.folder.name}"):
            for place, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(place)

    def start(self):
        """Starts the daemon, again where it was killed, and returns when it answers."""
        (self.folder / "pid").unlink(missing_ok=True)  # else a process that has its number now is taken for it
        self._daemon = self.popen(
            [
                "dockerd",
                f"--data-root={self.folder}/data",
                f"--exec-root={self.folder}/exec",
                f"--pidfile={self.folder}/pid",
                f"--host={self.host}",
                "--bridge=none",
                f"--add-runtime=trap={self.folder}/runtime",
                "--default-runtime=trap",
                f"--cgroup-parent=/{self.folder.name}",
            ],
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(*DOCKER_ERRORS), self.client() as client:
                if client.ping():
                    return
            assert self._daemon.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "dockerd does not come up"
            time.sleep(0.05)

    def kill(self):
        """As if it had crashed: SIGKILL, which its containerd gets too."""
        self.signal(signal.SIGKILL)
        self._daemon.wait()

    def alive(self):
        return self._daemon.poll() is None

    def set_trap(self):
        """Has it killed while it starts the next container."""
        (self.folder / "trap").touch()

    def await_death(self):
        self._daemon.wait(PATIENCE_S)

    def signal(self, number):
        self.signal_to(self._daemon, number)
        if number != signal.SIGSTOP:
            self._daemon.send_signal(signal.SIGCONT)  # nsenter stops itself with the daemon, and would stay so

    def client(self):
        return contextlib.closing(docker.DockerClient(base_url=self.host, timeout=10))

    def popen(self, argv, **options):
        """Starts a process in the daemon's namespaces, which uses this daemon."""
        return subprocess.Popen(
            [*DIES_WITH_US, *self._inside, *argv], env={**os.environ, "DOCKER_HOST": self.host}, **options
        )

    def python(self, script, *arguments, **options):
        return self.popen([sys.executable, "-c", script, *arguments], **options)

    @staticmethod
    def signal_to(process, number):
        """To what popen started: the child of the nsenter that we see."""
        for child in psutil.Process(process.pid).children():
            child.send_signal(number)

    def links(self):
        """Of its network namespace, by name.

        Without pairs that the daemon had made and given to no container yet: killed in that moment it forgets them for
        good, whoever asked for the container.
        """
        listed = json.loads(self._output_of("ip", "-json", "link", "show"))
        names = {each["ifname"] for each in listed}
        forgotten = {
            each["ifname"]
            for each in listed
            if each["ifname"].startswith("veth") and "master" not in each and each.get("link") in names
        }
        return sorted(names - forgotten)

    def rules_about(self, name):
        """Rules of iptables there that have this in them."""
        return [line for line in self._output_of("iptables-save").splitlines() if name in line]

    def directories(self):
        """Working directories of pairlab's whose owner is, or was, in its PID namespace."""
        for path in Path("/tmp").glob("pairlab-*"):
            with contextlib.suppress(OSError):
                owner = ownership.Owner.parse((path / "owner").read_text())
                if owner and owner.pid_namespace == self._namespace:
                    yield str(path)

    def _output_of(self, *argv):
        return subprocess.run([*self._inside, *argv], check=True, capture_output=True, text=True).stdout

    def processes(self):
        """Of containers: those under a shim, each with its command line; also runc's own, that wait for their start."""
        return self._with_words("/pairlab/flowgen", "runc init")

    def shims(self):
        """As processes does."""
        return self._with_words("containerd-shim")

    def _with_words(self, *words):
        for process in psutil.Process(self._first.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if any(each in line for each in words):
                    yield process.pid, line

    def cgroups(self):
        """Of its containers, in all hierarchies."""
        for top, groups, _ in os.walk("/sys/fs/cgroup"):  # it passes over those that vanish meanwhile
            if Path(top).name == self.folder.name:
                yield from (f"{top}/{group}" for group in groups)


def _tiny():
    """The root filesystem of an image that has nothing in it: flowgen is mounted, and needs nothing else."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
    return archive.getvalue()


def needs_a_daemon_of_our_own():
    if os.geteuid() != 0:
        pytest.skip("a Docker daemon of the test's own needs root")
    for program in ("dockerd", "unshare", "nsenter"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not on PATH: apt-get install docker.io util-linux")
