"""pairlab's Dask processes: a scheduler that listens on this host, and a worker with one testbed."""

import asyncio
import contextlib
import importlib.util
import logging
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pairlab.base import credentials, schedulers
from pairlab.batch import kernels
from pairlab.errors import Unavailable
from pairlab.testbed.cleanup.workdir import working_directory

#: By default a worker samples its stack a hundred times a second, also during measurements.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "5s"}


def serve_scheduler(
    host: str, port: int, dashboard_port: int | None, file: Path, *, say: Callable[[str], None]
) -> None:
    """Runs a scheduler until it is interrupted. Raises Unavailable if it cannot listen there.

    file: of credentials, made if missing. dashboard_port: of Dask's dashboard, which any user of this host can read; if
    it is in use, another one is taken, and say is called with it. None: there is no dashboard.
    """
    schedulers.require()
    from distributed import Scheduler

    async def serve() -> None:
        shown = dashboard_port is not None
        listening = _listening(host, dashboard_port or 0)
        async with Scheduler(**listening, port=port, dashboard=shown, protocol="tls://", security=secured) as scheduler:
            if not shown:
                _stop_http(scheduler)
            say(f"scheduler at {scheduler.address}: `pairlab worker --scheduler {scheduler.address}` on each host")
            say(
                f"whoever has {file} can run commands as the workers' users: copy it to their hosts, and to nobody else"
            )
            if shown and importlib.util.find_spec("bokeh"):
                say(f"Dask's dashboard at http://{listening['host']}:{scheduler.http_server.port}/status")
            await scheduler.finished()

    credentials.make(file)
    secured = credentials.security(file)
    try:
        # UserWarning: the dashboard's port is in use
        with warnings.catch_warnings(action="ignore", category=UserWarning), _dasks_settings():
            asyncio.run(serve())
    except (OSError, RuntimeError) as error:
        why = _cause(error)
        raise Unavailable(
            f"no scheduler can listen at {host}:{port}: {why.strerror or why}: give another --host or --port"
        ) from error


def serve_worker(address: str, host: str | None, wait_s: float, file: Path, *, say: Callable[[str], None]) -> None:
    """Runs a worker until it is interrupted; reconnects to a scheduler that was gone.

    file: of credentials. host: the address to listen at, by default the one from which this host reaches the scheduler.
    Raises Unavailable after wait_s without a scheduler, or if the worker cannot listen there.
    """
    schedulers.require()
    from distributed import Worker

    schedulers.check_address(address)
    secured = credentials.security(file)

    async def serve() -> None:
        async with Worker(
            address,
            nthreads=2,  # one measures; the other can describe the host meanwhile
            resources={schedulers.RESOURCE: 1},
            memory_limit=0,
            dashboard=False,
            death_timeout=5,
            **_listening(host or _own_address_towards(address), 0),
            protocol="tls://",
            security=secured,
        ) as worker:
            _stop_http(worker)
            say(f"worker at {worker.address}: waits for cells from {address}")
            await worker.finished()

    with _dasks_settings(QUIET), kernels.kept():
        gone_at = time.monotonic()
        while True:
            try:
                asyncio.run(serve())
                gone_at = time.monotonic()
                say("the scheduler is gone: waiting for it")
            except (OSError, RuntimeError) as error:
                why = _cause(error)
                if host and why is not error:
                    raise Unavailable(
                        f"no worker can listen at {host}: {why.strerror or why}: give another --host"
                    ) from error
                if time.monotonic() - gone_at > wait_s:
                    raise Unavailable(
                        f"no Dask scheduler answered at {address} for {wait_s:g} s: start one with `pairlab scheduler`,"
                        " and then this worker"
                    ) from error
                time.sleep(1)


def _stop_http(server: Any) -> None:
    """Ends the HTTP server of a scheduler or a worker of Dask's, which answers everybody, even without a dashboard."""
    server.http_server.stop()
    server.services.pop("dashboard", None)


def _cause(error: OSError | RuntimeError) -> OSError:
    """The OSError of Dask's scheduler or worker, also if wrapped in a RuntimeError. Raises any other error again."""
    why = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(why, OSError):
        raise error
    return why


@contextlib.contextmanager
def _dasks_settings(more: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Makes Dask log little, with its files in a folder of this process: the default folder is for all users."""
    import dask

    logging.getLogger("distributed").setLevel(logging.WARNING)
    with working_directory() as folder, dask.config.set({"temporary-directory": str(folder), **more}):
        yield


def _listening(host: str, dashboard_port: int) -> dict[str, Any]:
    """Dask's options to listen only there: an IPv6 address takes brackets in the first option only."""
    bare = host.strip("[]")
    return {"host": f"[{bare}]" if ":" in bare else bare, "dashboard_address": (bare, dashboard_port)}


def _own_address_towards(address: str) -> str:
    """The address from which this host reaches the scheduler; nothing is sent. Raises OSError without a route."""
    from distributed.comm import get_address_host_port

    (family, _, _, _, target), *_ = socket.getaddrinfo(*get_address_host_port(address), type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
