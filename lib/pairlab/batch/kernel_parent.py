"""The process that notebooks' kernels are forked from: it has imported what they import, and does nothing else.

A program for `kernels`, which talks to it over its standard input, a socket: a line of JSON for each request and each
reply. {"fork": …} forks a kernel, {"poll": pid} asks for its exit status. It has one thread, so that forking is safe,
and sleeps until it is asked. At the end of its input it exits, and its kernels with it (prctl(2), PR_SET_PDEATHSIG).
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
#: A notebook's figures appear below its cells; ipykernel says so too, but after matplotlib is imported here.
INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
#: What every kernel imports while it starts.
KERNELS = (
    "import ipykernel.debugger, ipykernel.kernelapp, ipykernel.ipkernel, ipykernel.zmqshell, tornado.platform.asyncio",
    "import IPython.core.debugger, IPython.core.logger, IPython.core.oinspect, IPython.extensions.storemagic",
    "import faulthandler, sqlite3",
)
#: What a kernel is called in ps and top; its command line is its parent's.
NAME = b"pairlab-kernel"
#: Of <sys/prctl.h>.
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
        asked = json.loads(line)
        if "poll" in asked:
            _reply(requests, status=_status(asked["poll"]))
            continue
        if not bare:
            for each in asked["imports"]:
                if each not in imported:
                    imported.add(each)
                    _import(each)
            if threads() > 1:  # in which locks may be held: a fork would keep them so
                _reply(requests, again=True)
                os.execv(sys.executable, [*sys.orig_argv, "--bare"])
        gc.freeze()
        parent = os.getpid()
        if pid := os.fork():
            _reply(requests, pid=pid)
        else:
            requests.close()
            return _become_kernel(parent, asked)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _reply(requests: socket.socket, **reply: Any) -> None:
    requests.sendall(json.dumps(reply).encode() + b"\n")


def _import(statement: str) -> None:
    """Errors and output are left to the notebook, which does the same where they are seen."""
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        contextlib.suppress(Exception, SystemExit),
    ):
        exec(statement, {"__name__": "imports"})


def _status(pid: int) -> int | None:
    """A kernel's exit status as subprocess has it, negative for a signal; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _become_kernel(parent: int, asked: Mapping[str, Any]) -> None:
    """What a process of its own would be: own session, environment and randomness; ends with the process it is of."""
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
    os.environ.update(asked["environment"])
    tempfile.tempdir = None  # what the parent found: this kernel has a TMPDIR of its own
    os.chdir(asked["directory"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.argv = ["ipykernel_launcher", *asked["arguments"]]
    application = sys.modules["ipykernel.kernelapp"]
    # Jupyter has written it. Where it is gone, so is who asked, and to write it again would make its folder again.
    application.IPKernelApp.write_connection_file = lambda kernel, **_: None
    application.launch_new_instance()


if __name__ == "__main__":
    main()
