"""The process that notebooks' kernels are forked from: it does their imports, and nothing else.

A program for `kernels`, which talks to it over standard input, a socket: a line of JSON for each request and each
reply. {"poll": pid} requests a kernel's exit status; other requests fork a kernel, with its arguments, environment,
directory and imports. The process has one thread, so that forking is safe, and sleeps until a request. At the end of
its input it exits, and its kernels with it (prctl(2), PR_SET_PDEATHSIG).
"""

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

#: Imported libraries start no threads of their own. Before numpy, pyarrow and matplotlib are imported.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
ONE_THREAD |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
#: Shows a notebook's figures below its cells, whatever this is for the user's other programs.
INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
#: The imports of every kernel's start.
KERNELS = (
    "import ipykernel.debugger, ipykernel.kernelapp, ipykernel.ipkernel, ipykernel.zmqshell, tornado.platform.asyncio",
    "import IPython.core.debugger, IPython.core.logger, IPython.core.oinspect, IPython.extensions.storemagic",
    "import faulthandler, sqlite3",
)
#: The name of a kernel in ps and top; its command line is the parent's.
NAME = b"pairlab-kernel"
#: From <sys/prctl.h>.
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def main() -> None:
    requests = socket.socket(fileno=os.dup(0))
    os.environ.update(ONE_THREAD | INLINE)
    os.environ.pop("JPY_PARENT_PID", None)  # ipykernel would take it for its own parent, and end when that ends
    bare = "--bare" in sys.argv
    for each in KERNELS:
        _import(each)
    imported = set()
    for line in requests.makefile("rb"):
        request = json.loads(line)
        if "poll" in request:
            _reply(requests, status=_status(request["poll"]))
            continue
        if not bare:
            for each in request["imports"]:
                if each not in imported:
                    imported.add(each)
                    _import(each)
            if threads() > 1:  # a fork would keep the locks that other threads hold
                _reply(requests, again=True)
                os.execv(sys.executable, [*sys.orig_argv, "--bare"])
        gc.freeze()
        parent = os.getpid()
        if pid := os.fork():
            _reply(requests, pid=pid)
        else:
            requests.close()
            return _become_kernel(parent, request)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _reply(requests: socket.socket, **reply: Any) -> None:
    requests.sendall(json.dumps(reply).encode() + b"\n")


def _import(statement: str) -> None:
    """Executes an import, without errors and output: the notebook executes the same visibly."""
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        contextlib.suppress(Exception, SystemExit),
    ):
        exec(statement, {"__name__": "imports"})


def _status(pid: int) -> int | None:
    """A kernel's exit status as of subprocess, negative for a signal; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _become_kernel(parent: int, request: Mapping[str, Any]) -> None:
    """Gives the fork its own session, environment and random state; it ends with its parent."""
    os.setsid()
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(_PR_SET_NAME, NAME)
    if os.getppid() != parent:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # the parent's; this kernel has its own TMPDIR
    os.chdir(request["directory"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "pandas" in sys.modules:  # which took its parent for a terminal, and wraps tables at its width
        sys.modules["pandas"].set_option("display.max_columns", 20)
    sys.argv = ["ipykernel_launcher", *request["arguments"]]
    application = sys.modules["ipykernel.kernelapp"]
    # Jupyter has written the file. If it is gone, so is the client, and writing it would make its folder again.
    application.IPKernelApp.write_connection_file = lambda kernel, **_: None
    application.launch_new_instance()


if __name__ == "__main__":
    main()
