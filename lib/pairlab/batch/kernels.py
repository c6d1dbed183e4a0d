"""Notebooks' kernels, each a fresh process, forked from one that has imported what they import (kernel_parent).

Starting Python and importing pandas takes longer than a short measurement's testbed; forking takes milliseconds. A
kernel is forked when a notebook is about to be executed, never while traffic flows.
"""

import ast
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from traitlets import List, Unicode

from pairlab.base import parameters_cell
from pairlab.base.environment import setting
from pairlab.errors import BadInput
from pairlab.model.spec import Spec
from pairlab.testbed.cleanup.workdir import working_directory

_AGAIN_S = 0.01


class ForkedKernelManager(AsyncKernelManager):
    """Jupyter's manager of a kernel that is forked instead of started; inside `kept` only.

    imports: statements that the kernel's parent executes before it forks.
    """

    imports = List(Unicode()).tag(config=True)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **named: Any) -> None:
        kernel = _parent.fork(
            self.connection_file,
            arguments=kernel_cmd[kernel_cmd.index("ipykernel_launcher") + 1 :],
            imports=self.imports,
            environment=named.get("env") or os.environ,
            directory=named.get("cwd") or os.getcwd(),
        )
        self.provisioner.process = kernel
        self.provisioner.pid = self.provisioner.pgid = kernel.pid  # it leads a session of its own
        self._reconcile_connection_info(self.provisioner.connection_info)


#: What measuring imports when it is called, plugins and all.
MEASURING = (
    "import multiprocessing.connection, pandas.io.formats.html, pyarrow.pandas_compat",
    "import pairlab.store.runs",
    "from pairlab.testbed.registry import backends, drivers, pinnings, workloads;"
    " [each.names() for each in (backends, drivers, pinnings, workloads)]",
)


def probing(spec: Spec) -> list[str]:
    """What asks this host whether it has the links of the spec's driver: a fork has its parent's answer."""
    asked = f"backends.get({spec.backend!r})().lacks_for(drivers.get({spec.driver!r}))"
    return [f"from pairlab.testbed.registry import backends, drivers; {asked}"]


def imports_of(notebook: Path) -> list[str]:
    """What a notebook imports: the statements at the top level of its cells; none of one that cannot be read."""
    found: list[str] = []
    with contextlib.suppress(BadInput):
        for cell in parameters_cell.syntax_trees(notebook):
            found += [ast.unparse(each) for each in cell.body if isinstance(each, ast.Import | ast.ImportFrom)]
    return found


class Kernel:
    """A forked kernel, with as much of subprocess.Popen as Jupyter uses."""

    stdin = stdout = stderr = None

    def __init__(self, parent: "_Parent", pid: int):
        self._parent, self.pid = parent, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._parent.status(self.pid)
        return self.returncode

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(_AGAIN_S)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _can_keep_ipython() -> bool:
    """Whether IPython can write where it keeps its profiles; else it would warn, and leave a folder each time."""
    place = Path(os.environ.get("IPYTHONDIR") or os.path.expanduser("~/.ipython"))
    return os.access(place if place.exists() else place.parent, os.W_OK | os.X_OK)


class _Parent:
    """The process that kernels are forked from: started when first needed, and again where it has died."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._kernels: dict[str, Kernel] = {}
        self._stack = contextlib.ExitStack()
        #: Of the kernels' temporary files: kernels are killed in the end, and what LaTeX writes for figures would stay.
        self._folder = str(self._stack.enter_context(working_directory()))
        if not _can_keep_ipython():
            self._stack.enter_context(setting(IPYTHONDIR=self._folder))

    def fork(
        self,
        connection_file: str,
        *,
        arguments: Sequence[str],
        imports: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
    ) -> Kernel:
        """Raises OSError where it cannot be done."""
        asked = {
            "arguments": list(arguments),
            "imports": list(imports),
            "environment": {**environment, "TMPDIR": self._folder},
            "directory": str(directory),
        }
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            while "pid" not in (reply := self._request(**asked)):
                pass
        kernel = self._kernels[connection_file] = Kernel(self, reply["pid"])
        return kernel

    def status(self, pid: int) -> int | None:
        """The kernel's exit status, once; None while it runs."""
        try:
            with self._lock:
                return self._request(poll=pid)["status"]
        except OSError:  # it has died, and its kernels with it
            return -signal.SIGKILL

    def end(self, connection_file: str) -> None:
        """Kills the kernel of that connection file, where it still runs."""
        if kernel := self._kernels.pop(connection_file, None):
            kernel.kill()
            kernel.wait()

    def close(self) -> None:
        with self._lock:
            self._end()
            self._stack.close()

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._replies.close()
            self._socket.close()
            self._process = None

    def _start(self) -> None:
        self._end()
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-X", "frozen_modules=off", "-m", "pairlab.batch.kernel_parent"],
                stdin=its,
                start_new_session=True,  # Ctrl-C is for who asks
            )
        self._socket, self._replies = ours, ours.makefile("rb")

    def _request(self, **asked: Any) -> dict[str, Any]:
        """Raises OSError where it has died. Interrupted, it is ended, as its reply would be taken for the next one."""
        if not self._process:
            raise ConnectionResetError("the process that notebooks' kernels are forked from was ended")
        try:
            self._socket.sendall(json.dumps(asked).encode() + b"\n")
            if reply := self._replies.readline():
                return json.loads(reply)
            raise ConnectionResetError("the process that notebooks' kernels are forked from died")
        except BaseException:
            self._end()
            raise


_parent: _Parent | None = None
_users = 0
_lock = threading.Lock()


@contextlib.contextmanager
def kept() -> Iterator[_Parent]:
    """The process that kernels are forked from, the same one in whatever else is in it meanwhile; gone afterwards."""
    global _parent, _users
    with _lock:
        _parent = _parent or _Parent()
        _users += 1
    try:
        yield _parent
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _parent.close()
                _parent = None
