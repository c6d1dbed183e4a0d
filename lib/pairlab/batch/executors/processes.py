"""The processes of Dask that pairlab starts: a scheduler that listens at this host, and a worker with one testbed."""

import asyncio
import importlib.util
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pairlab.base import schedulers
from pairlab.base.optional_imports import require
from pairlab.batch import kernels
from pairlab.errors import Unavailable
from pairlab.testbed.cleanup.workdir import working_directory

#: A worker samples its own stack a hundred times a second, unless told not to: that would be in each measurement.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "5s"}
#: What Dask logs of each connection and each cell, pairlab says in its own words.
LOUD = "distributed"


def serve_scheduler(
    host: str, port: int, dashboard_port: int, tls: Mapping[str, str | None], *, say: Callable[[str], None]
) -> None:
    """Runs a scheduler until it is interrupted. Raises Unavailable where it cannot listen there.

    dashboard_port: another one is taken where it is in use; say is called with it.
    """
    require("distributed", "dask")
    from distributed import Scheduler

    logging.getLogger(LOUD).setLevel(logging.WARNING)

    async def serve() -> None:
        asked: dict[str, Any] = {"host": host, "port": port, "dashboard_address": f"{host}:{dashboard_port}"}
        async with Scheduler(**asked, **schedulers.security(tls)) as scheduler:
            say(f"scheduler at {scheduler.address}: `pairlab worker --scheduler {scheduler.address}` on each host")
            if importlib.util.find_spec("bokeh"):
                say(f"Dask's dashboard at http://{host}:{scheduler.http_server.port}/status")
            await scheduler.finished()

    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of a dashboard's port in use
            asyncio.run(serve())
    except (OSError, RuntimeError) as error:  # Dask raises RuntimeError for what its scheduler raised
        why = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(why, OSError):
            raise
        raise Unavailable(
            f"no scheduler can listen at {host}:{port}: {why.strerror or why}: give another --host or --port"
        ) from error


def serve_worker(
    address: str, host: str | None, wait_s: float, tls: Mapping[str, str | None], *, say: Callable[[str], None]
) -> None:
    """Runs a worker until it is interrupted; comes back to a scheduler that was gone.

    host: where it listens, by default only at the address from which this host reaches the scheduler. Raises
    Unavailable where there was no scheduler for longer than wait_s, or the worker cannot listen there.
    """
    require("distributed", "dask")
    import dask
    from distributed import Worker
    from distributed.comm import get_address_host
    from distributed.utils import get_ip

    schedulers.check_address(address, tls)
    logging.getLogger(LOUD).setLevel(logging.WARNING)

    async def serve(folder: str) -> None:
        listens_at = host or get_ip(get_address_host(address))
        asked = Worker(
            address,
            nthreads=2,  # one measures; the other can say who it is meanwhile
            resources={schedulers.RESOURCE: 1},
            local_directory=folder,
            memory_limit=0,
            dashboard=False,
            host=listens_at,
            dashboard_address=f"{listens_at}:0",
            death_timeout=5,
            **schedulers.security(tls),
        )
        async with asked as worker:
            say(f"worker at {worker.address}: waits for cells from {address}")
            await worker.finished()

    with dask.config.set(QUIET), working_directory() as folder, kernels.kept():
        gone_at = time.monotonic()
        while True:
            try:
                asyncio.run(serve(str(folder)))
                gone_at = time.monotonic()
                say("the scheduler is gone: waiting for it")
            except RuntimeError as error:  # Dask raises it for what its worker raised
                if not isinstance(error.__cause__, OSError):
                    raise
                raise Unavailable(
                    f"no worker can listen at {host}: {error.__cause__.strerror}: give another --host"
                ) from error
            except (OSError, TimeoutError) as error:
                if time.monotonic() - gone_at > wait_s:
                    raise Unavailable(
                        f"no Dask scheduler answered at {address} for {wait_s:g} s: start one with `pairlab scheduler`,"
                        " and then this worker"
                    ) from error
                time.sleep(1)
