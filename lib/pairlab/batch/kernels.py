"""Kernels of notebooks: fresh processes, forked from a parent that has done their imports (kernel_parent).

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from traitlets import List, Unicode, default

from pairlab.base import parameters_cell
from pairlab.base.environment import setting
from pairlab.batch.kernel_parent import INLINE
from pairlab.errors import BadInput
from pairlab.model.spec import Spec
from pairlab.testbed.cleanup.workdir import working_directory

_AGAIN_S = 0.01


class KernelSpecs(KernelSpecManager):
    """Jupyter's kernelspecs, of which python3 is this interpreter, by path: sites install others by that name."""

    def find_kernel_specs(self) -> dict[str, str]:
        return super().find_kernel_specs() | {NATIVE_KERNEL_NAME: RESOURCES}

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        if kernel_name.lower() != NATIVE_KERNEL_NAME:
            return super().get_kernel_spec(kernel_name)
        about = get_kernel_dict()
        # Named here, for JUPYTER_DEFAULT_PROVISIONER_NAME would start it elsewhere.
        about["metadata"]["kernel_provisioner"] = {"provisioner_name": "local-provisioner"}
        return KernelSpec(resource_dir=RESOURCES, **about | {"display_name": "pairlab", "env": INLINE})


class OwnKernelManager(AsyncKernelManager):
    """Jupyter's manager of a kernel, with KernelSpecs."""

    @default("kernel_spec_manager")
    def _own_kernel_specs(self) -> KernelSpecs:
        return KernelSpecs(data_dir=self.data_dir)


class ForkedKernelManager(OwnKernelManager):
    """Jupyter's manager of a kernel, which forks the kernel; inside `kept` only.

    imports: statements that the kernel's parent executes before it forks.
    """

    imports = List(Unicode()).tag(config=True)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **named: Any) -> None:
        assert _parent
        kernel = _parent.fork(
            self.connection_file,
            arguments=kernel_cmd[kernel_cmd.index("ipykernel_launcher") + 1 :],
            imports=self.imports,
            environment=dict(named.get("env") or os.environ),
            directory=str(named.get("cwd") or os.getcwd()),
        )
        provisioner: Any = self.provisioner  # a LocalProvisioner, which has these attributes
        provisioner.process = kernel
        provisioner.pid = provisioner.pgid = kernel.pid  # the kernel leads its own session
        self._reconcile_connection_info(provisioner.connection_info)


#: The imports of a measurement, with those of plugins.
MEASURING = (
    "import multiprocessing.connection, pandas.io.formats.html, pyarrow.pandas_compat",
    "import pairlab.store.runs",
    "from pairlab.testbed.registry import backends, drivers, pinnings, workloads;"
    " [each.names() for each in (backends, drivers, pinnings, workloads)]",
)


def probing(spec: Spec) -> list[str]:
    """A statement that probes this host for the links of the spec's driver, so that forks have the parent's answer."""
    probe = f"backends.get({spec.backend!r})({spec.hosts}).missing_driver(drivers.get({spec.driver!r}))"
    return [f"from pairlab.testbed.registry import backends, drivers; {probe}"]


def imports_of(notebook: Path) -> list[str]:
    """A notebook's import statements at the top level of its cells; none if the notebook is unreadable."""
    statements: list[str] = []
    with contextlib.suppress(BadInput):
        for cell in parameters_cell.syntax_trees(notebook):
            statements += [ast.unparse(each) for each in cell.body if isinstance(each, ast.Import | ast.ImportFrom)]
    return statements


class Kernel:
    """A forked kernel, with the methods of subprocess.Popen that Jupyter uses."""

    stdin = stdout = stderr = None

    def __init__(self, parent: "_Parent", pid: int):
        self._parent, self.pid = parent, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._parent.status(self.pid)
        return self.returncode

    def wait(self) -> int:
        while (status := self.poll()) is None:
            time.sleep(_AGAIN_S)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Parent:
    """The process that kernels are forked from: started on the first use, and again after its death."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._kernels: dict[str, Kernel] = {}
        self._stack = contextlib.ExitStack()
        #: The folder of kernels' temporary files: kernels are killed, which would leave LaTeX's files of figures.
        self._folder = str(self._stack.enter_context(working_directory()))
        # If IPython cannot write its profiles, it warns, and leaves a folder each time.
        place = Path(os.environ.get("IPYTHONDIR") or os.path.expanduser("~/.ipython"))
        if not os.access(place if place.exists() else place.parent, os.W_OK | os.X_OK):
            self._stack.enter_context(setting(IPYTHONDIR=self._folder))

    def fork(self, connection_file: str, *, environment: Mapping[str, str], **request: Any) -> Kernel:
        """Forks a kernel. request: arguments, imports and directory, as in kernel_parent. Raises OSError on failure."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            request["environment"] = {**environment, "TMPDIR": self._folder}
            while "pid" not in (reply := self._request(**request)):
                pass
        kernel = self._kernels[connection_file] = Kernel(self, reply["pid"])
        return kernel

    def status(self, pid: int) -> int | None:
        """The kernel's exit status, once; None while it runs."""
        try:
            with self._lock:
                return self._request(poll=pid)["status"]
        except OSError:  # the parent has died, and its kernels with it
            return -signal.SIGKILL

    def end(self, connection_file: str) -> None:
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
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-X", "frozen_modules=off", "-m", "pairlab.batch.kernel_parent"],
                stdin=theirs.fileno(),
                start_new_session=True,  # Ctrl-C is for this process only
            )
        self._socket, self._replies = ours, ours.makefile("rb")

    def _request(self, **request: Any) -> dict[str, Any]:
        """The parent's reply. Raises OSError if it has died. An interrupt ends it: a late reply would be misread."""
        if not self._process:
            raise ConnectionResetError("the process that notebooks' kernels are forked from was ended")
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
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
    """The process that kernels are forked from, shared by all blocks open at a time; ends with the last one."""
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
