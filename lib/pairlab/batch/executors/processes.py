"""The processes of Dask that pairlab starts: a scheduler that listens at this host, and a worker with one testbed."""

import asyncio
import importlib.util
import logging
import time
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
    """Runs a scheduler until it is interrupted. Raises Unavailable where it cannot listen there."""
    require("distributed", "dask")
    from distributed import Scheduler

    logging.getLogger(LOUD).setLevel(logging.WARNING)

    async def serve() -> None:
        asked: dict[str, Any] = {"host": host, "port": port, "dashboard_address": f"{host}:{dashboard_port}"}
        async with Scheduler(**asked, **schedulers.security(tls)) as scheduler:
            say(f"scheduler at {scheduler.address}: `pairlab worker --scheduler {scheduler.address}` on each host")
            if importlib.util.find_spec("bokeh"):
                say(f"Dask's dashboard at http://{host}:{dashboard_port}/status")
            await scheduler.finished()

    try:
        asyncio.run(serve())
    except OSError as error:
        raise Unavailable(
            f"no scheduler can listen at {host}:{port}: {error.strerror or error}: take another"
        ) from error


def serve_worker(
    address: str, host: str | None, wait_s: float, tls: Mapping[str, str | None], *, say: Callable[[str], None]
) -> None:
    """Runs a worker until it is interrupted; comes back to a scheduler that was gone.

    Raises Unavailable where there was no scheduler for longer than wait_s.
    """
    require("distributed", "dask")
    import dask
    from distributed import Worker

    logging.getLogger(LOUD).setLevel(logging.WARNING)

    async def serve(folder: str) -> None:
        options: dict[str, Any] = {"host": host} if host else {}
        asked = Worker(
            address,
            nthreads=2,  # one measures; the other can say who it is meanwhile
            resources={schedulers.RESOURCE: 1},
            local_directory=folder,
            memory_limit=0,
            dashboard=False,
            death_timeout=5,
            **options,
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
            except (OSError, TimeoutError) as error:
                if time.monotonic() - gone_at > wait_s:
                    raise Unavailable(
                        f"no Dask scheduler answered at {address} for {wait_s:g} s: start one with `pairlab scheduler`,"
                        " and then this worker"
                    ) from error
                time.sleep(1)
