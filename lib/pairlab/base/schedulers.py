"""Dask's side of pairlab: how its scheduler is reached, and what its workers offer. Source: distributed.dask.org."""

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pairlab.base.environment import setting
from pairlab.base.optional_imports import require
from pairlab.errors import BadInput, Unavailable

#: What each worker of pairlab has one of. Each cell needs it, so that one host measures one cell at a time, and so does
#: what only computes: it would be in the cell's numbers.
RESOURCE = "testbed"
#: How long a scheduler has for an answer.
ANSWER_S = 10.0
#: The scheduler whose workers compute what this process and its kernels would; unset: none.
VARIABLE = "PAIRLAB_SCHEDULER"


def named() -> str:
    """The address that VARIABLE names; empty where there is none."""
    return os.environ.get(VARIABLE, "")


def connect(address: str, within_s: float, tls: Mapping[str, str | None] | None = None) -> Any:
    """Dask's Client of the scheduler at that address, such as tcp://127.0.0.1:8786.

    tls: as `security`. Raises BadInput for what is no address, Unavailable where no scheduler answers in time.
    """
    require("distributed", "dask")
    from distributed import Client
    from distributed.utils import sync

    check_address(address, tls or {})
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is raised, in pairlab's words
    secured, loop = security(tls or {}), _loop(os.getpid())
    try:
        sync(loop, _greet, address, within_s, secured)
        return Client(address, timeout=within_s, set_as_default=False, loop=loop, **secured)
    except Exception as error:  # of the network, of TLS, or of what answers there and is no scheduler
        raise Unavailable(
            f"no Dask scheduler answers at {address} within {within_s:g} s ({first_line(error)}): start one with"
            " `pairlab scheduler`, or see whether this host may connect to it"
        ) from error


async def _greet(address: str, within_s: float, secured: Mapping[str, Any]) -> None:
    """Exchanges Dask's greeting with what listens there; Dask itself waits for that without end."""
    from distributed.core import connect
    from distributed.security import Security

    arguments = (secured.get("security") or Security()).get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=within_s, **arguments), within_s)
    comm.abort()


@functools.cache
def _loop(pid: int) -> Any:
    """The event loop of this process's clients, in a thread: a client that fails leaves one of its own running."""
    from distributed.utils import LoopRunner

    runner = LoopRunner()
    runner.start()
    return runner.loop


def workers_of(client: Any) -> set[str]:
    """The addresses of the scheduler's workers that are pairlab's.

    Raises OSError where it does not answer. The scheduler itself is asked: Client.scheduler_info returns what the
    client keeps, and each 2 s, possibly just before that, it is overwritten by a description without workers.
    """
    workers = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_S)["workers"]
    return {address for address, each in workers.items() if RESOURCE in each.get("resources", {})}


def security(tls: Mapping[str, str | None]) -> dict[str, Any]:
    """Dask's Security of these files, as a keyword; none where there are none: then Dask's configuration decides.

    tls: tls_ca_file, tls_cert and tls_key, as of Dask's own commands.
    """
    files = {name: path for name, path in tls.items() if path}
    if not files:
        return {}
    from distributed.security import Security

    named_files = {"tls_ca_file": files.get("tls_ca_file")}
    for role in ("client", "scheduler", "worker"):
        named_files |= {f"tls_{role}_cert": files.get("tls_cert"), f"tls_{role}_key": files.get("tls_key")}
    return {"security": Security(require_encryption=True, **named_files)}


@contextlib.contextmanager
def computing_on(address: str, tls: Mapping[str, str | None], within_s: float = 30.0) -> Iterator[None]:
    """Inside, this process and those that it starts compute on the workers of that scheduler; "": where they are.

    tls: as `security`. Raises as `connect`.
    """
    if not address:
        yield
        return
    connect(address, within_s, tls).close()
    of_dask = {"tls_ca_file": "CA_FILE", "tls_cert": "CLIENT__CERT", "tls_key": "CLIENT__KEY"}
    files = {f"DASK_DISTRIBUTED__COMM__TLS__{of_dask[name]}": path for name, path in tls.items() if path}
    if files:  # the names by which Dask reads its configuration
        files["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "true"
    with setting(**{VARIABLE: address}, **files):
        yield


def check_address(address: str, tls: Mapping[str, str | None], role: str = "client") -> None:
    """Raises BadInput for what is no address, or one whose TLS and the files for it do not go together.

    tls: as `security`. role: whose files, in Dask's configuration: client, scheduler or worker.
    """
    from distributed.comm import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except ValueError as error:
        raise BadInput(f"scheduler {address!r} is no address ({error}): give tcp://HOST:PORT") from None
    if address.startswith("tls://"):
        check_files(tls, role)
    elif any(tls.values()):
        raise BadInput(f"scheduler {address!r} is without TLS, and files for TLS are given: give tls://HOST:PORT")


def check_files(tls: Mapping[str, str | None], role: str) -> None:
    """Raises BadInput where TLS cannot be used with these files, or else with those of Dask's configuration."""
    from distributed.security import Security

    try:
        if (security(tls).get("security") or Security()).get_connection_args(role)["ssl_context"]:
            return
    except (OSError, ValueError) as error:
        raise BadInput(f"TLS cannot be used with these files: {first_line(error)}") from error
    raise BadInput("TLS needs --tls-ca-file, --tls-cert and --tls-key, or these files in Dask's configuration")


def options(address: str, tls: Mapping[str, str | None]) -> list[str]:
    """The command line's words for that scheduler. tls: as `security`."""
    words = ["--scheduler", address]
    for name, path in tls.items():
        words += [f"--{name.replace('_', '-')}", path] if path else []
    return words


def first_line(error: BaseException) -> str:
    """What went wrong in Dask or on a worker, in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
