"""Dask's side of pairlab: how its scheduler is reached, and what its workers offer. Source: distributed.dask.org."""

import asyncio
import contextlib
import functools
import importlib.util
import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pairlab.base import credentials
from pairlab.base.caller import caller, caller_with
from pairlab.base.environment import setting
from pairlab.errors import BadInput, Unavailable

#: What each worker of pairlab has one of. Each cell needs it, so that one host measures one cell at a time, and so does
#: what only computes: it would be in the cell's numbers.
RESOURCE = "testbed"
#: How long a scheduler has for an answer.
ANSWER_S = 10.0


def named() -> str:
    """The scheduler whose workers compute what this process would; empty: none."""
    return caller().scheduler


def require() -> None:
    """Raises Unavailable where Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        install = "pip install --editable '.[dask]' in the checkout installs it"
        raise Unavailable(f"distributed is not installed here: {install}")


def connect(address: str, within_s: float, file: str | Path | None = None, *, data_only: bool = False) -> Any:
    """Dask's Client of the scheduler at that address, such as tls://127.0.0.1:8786.

    file: as credentials.security; None: this user's. data_only: refuse results that are not plain data (MessagePack).
    Raises BadInput for what is no address, Unavailable where no scheduler answers in time.
    """
    require()
    from distributed import Client
    from distributed.utils import sync

    check_address(address)
    secured = credentials.security(credentials.file(file))
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is raised, in pairlab's words
    loop = _loop(os.getpid())
    asked: dict[str, Any] = {"deserializers": ["msgpack"]} if data_only else {}
    try:
        sync(loop, _greet, address, within_s, secured)
        return Client(address, timeout=within_s, set_as_default=False, loop=loop, security=secured, **asked)
    except Exception as error:  # of the network, of TLS, or of what answers there and is no scheduler
        raise Unavailable(
            f"no Dask scheduler answers at {address} within {within_s:g} s ({first_line(error)}): start one with"
            " `pairlab scheduler`, or see whether this host may connect to it, and has its credentials"
        ) from error


async def _greet(address: str, within_s: float, secured: Any) -> None:
    """Exchanges Dask's greeting with what listens there; Dask itself waits for that without end."""
    from distributed.core import connect

    to_it = connect(address, timeout=within_s, **secured.get_connection_args("client"))
    comm = await asyncio.wait_for(to_it, within_s)
    comm.abort()


@functools.cache
def _loop(pid: int) -> Any:
    """The event loop of this process's clients, in a thread: a client that fails leaves one of its own running."""
    from distributed.utils import LoopRunner

    runner = LoopRunner()
    runner.start()
    return runner.loop


def workers_of(client: Any) -> set[str]:
    """The addresses of the scheduler's workers that are pairlab's. Raises OSError where it does not answer."""
    return ask_for_workers(client).result(ANSWER_S)


def ask_for_workers(client: Any) -> Future[set[str]]:
    """A future of the same.

    The scheduler itself is asked: Client.scheduler_info returns what the client keeps, and each 2 s, possibly just
    before that, it is overwritten by a description without workers.
    """

    async def ask() -> set[str]:
        workers = (await client.scheduler.identity(n_workers=-1))["workers"]
        return {address for address, each in workers.items() if RESOURCE in each.get("resources", {})}

    return asyncio.run_coroutine_threadsafe(ask(), client.loop.asyncio_loop)


@contextlib.contextmanager
def computing_on(address: str, file: str | Path | None = None, within_s: float = 30.0) -> Iterator[None]:
    """Inside, this process and those that it starts compute on the workers of that scheduler; "": where they are.

    file: as `connect`. Raises as it does.
    """
    if not address:
        yield
        return
    connect(address, within_s, file).close()
    with caller_with(scheduler=address), setting(**{credentials.VARIABLE: str(credentials.file(file))}):
        yield


def check_address(address: str) -> None:
    """Raises BadInput for what is no address of a scheduler, or one without TLS."""
    from distributed.comm import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except ValueError as error:
        raise BadInput(f"scheduler {address!r} is no address ({error}): give tls://HOST:PORT") from None
    if not address.startswith("tls://"):
        raise BadInput(
            f"scheduler {address!r} is without TLS, so whoever reaches that network could run commands as you: give the"
            " tls://HOST:PORT that `pairlab scheduler` prints"
        )


def options(address: str, file: str | Path | None) -> list[str]:
    """The command line's words for that scheduler. file: as `connect`."""
    return ["--scheduler", address, *(["--credentials", str(file)] if file else [])]


def first_line(error: BaseException) -> str:
    """What went wrong in Dask or on a worker, in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
