"""The processes of Dask that pairlab starts: a scheduler that listens at this host, and a worker with one testbed."""

import asyncio
import contextlib
import importlib.util
import logging
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pairlab.base import credentials, schedulers
from pairlab.base.optional_imports import require
from pairlab.batch import kernels
from pairlab.errors import Unavailable
from pairlab.testbed.cleanup.workdir import working_directory

#: A worker samples its own stack a hundred times a second, unless told not to: that would be in each measurement.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "5s"}
#: What Dask logs of each connection and each cell, pairlab says in its own words.
LOUD = "distributed"


def serve_scheduler(host: str, port: int, dashboard_port: int, file: Path, *, say: Callable[[str], None]) -> None:
    """Runs a scheduler until it is interrupted. Raises Unavailable where it cannot listen there.

    file: of credentials, made where it is not there. dashboard_port: another one is taken where it is in use; say is
    called with it.
    """
    require("distributed", "dask")
    from distributed import Scheduler

    logging.getLogger(LOUD).setLevel(logging.WARNING)

    async def serve() -> None:
        asked: dict[str, Any] = _listening(host, dashboard_port) | {"port": port, "protocol": "tls://"}
        async with Scheduler(**asked, security=secured) as scheduler:
            say(f"scheduler at {scheduler.address}: `pairlab worker --scheduler {scheduler.address}` on each host")
            say(
                f"whoever has {file} can run commands as the workers' users: copy it to their hosts, and to nobody else"
            )
            if importlib.util.find_spec("bokeh"):
                say(f"Dask's dashboard at http://{asked['host']}:{scheduler.http_server.port}/status")
            await scheduler.finished()

    credentials.make(file)
    secured = credentials.security(file)
    try:
        # UserWarning: of a dashboard's port in use
        with warnings.catch_warnings(action="ignore", category=UserWarning), _own_folder():
            asyncio.run(serve())
    except (OSError, RuntimeError) as error:
        why = _cause(error)
        raise Unavailable(
            f"no scheduler can listen at {host}:{port}: {why.strerror or why}: give another --host or --port"
        ) from error


def serve_worker(address: str, host: str | None, wait_s: float, file: Path, *, say: Callable[[str], None]) -> None:
    """Runs a worker until it is interrupted; comes back to a scheduler that was gone.

    file: of credentials. host: where it listens, by default only at the address from which this host reaches the
    scheduler. Raises Unavailable where there was no scheduler for longer than wait_s, or where the worker cannot
    listen there.
    """
    require("distributed", "dask")
    import dask
    from distributed import Worker

    schedulers.check_address(address)
    secured = credentials.security(file)
    logging.getLogger(LOUD).setLevel(logging.WARNING)

    async def serve() -> None:
        asked = Worker(
            address,
            nthreads=2,  # one measures; the other can say who it is meanwhile
            resources={schedulers.RESOURCE: 1},
            memory_limit=0,
            dashboard=False,
            death_timeout=5,
            **_listening(host or _own_address_towards(address), 0),
            protocol="tls://",
            security=secured,
        )
        async with asked as worker:
            say(f"worker at {worker.address}: waits for cells from {address}")
            await worker.finished()

    with dask.config.set(QUIET), _own_folder(), kernels.kept():
        gone_at = time.monotonic()
        while True:
            try:
                asyncio.run(serve())
                gone_at = time.monotonic()
                say("the scheduler is gone: waiting for it")
            except (OSError, RuntimeError) as error:
                why = _cause(error)
                if host and why is not error:
                    told = f"no worker can listen at {host}: {why.strerror or why}: give another --host"
                    raise Unavailable(told) from error
                if time.monotonic() - gone_at > wait_s:
                    raise Unavailable(
                        f"no Dask scheduler answered at {address} for {wait_s:g} s: start one with `pairlab scheduler`,"
                        " and then this worker"
                    ) from error
                time.sleep(1)


def _cause(error: OSError | RuntimeError) -> OSError:
    """What Dask's scheduler or worker raised, of which Dask makes a RuntimeError. Raises others of these again."""
    why = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(why, OSError):
        raise error
    return why


@contextlib.contextmanager
def _own_folder() -> Iterator[None]:
    """Dask's files are in a folder of this process: Dask's own default is one for all users of a host, the first's."""
    import dask

    with working_directory() as folder, dask.config.set({"temporary-directory": str(folder)}):
        yield


def _listening(host: str, dashboard_port: int) -> dict[str, Any]:
    """Dask's options to listen only there: an address of IPv6 is in brackets for the one, and not for the other."""
    bare = host.strip("[]")
    return {"host": f"[{bare}]" if ":" in bare else bare, "dashboard_address": (bare, dashboard_port)}


def _own_address_towards(address: str) -> str:
    """The address from which this host reaches that scheduler; nothing is sent. Raises OSError where it has no way."""
    from distributed.comm import get_address_host_port

    (family, _, _, _, target), *_ = socket.getaddrinfo(*get_address_host_port(address), type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
