"""Where what only computes runs: in threads of this process, or on the workers of a Dask scheduler.

The scheduler is the one that `pairlab report --scheduler` names (base/schedulers.py). Its workers read the runs where
this process does, so the store has to be one that they share.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from pairlab._version import __version__
from pairlab.base import schedulers
from pairlab.base.optional_imports import require
from pairlab.errors import Unavailable

#: How long a scheduler is waited for, and a worker until it says what it has.
WAIT_S = 30.0
#: How often it is looked whether there is still a worker.
LOOK_S = 5.0

Item = TypeVar("Item")
Made = TypeVar("Made")


def at_once(work: Callable[[Item], Made], items: Iterable[Item], most: int | None = None) -> list[Made]:
    """What `work` makes of each, in their order: as many at once as there are CPUs, and `most` at most."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, most or sys.maxsize)) as pool:
        return list(pool.map(work, items))


def on_workers(work: Callable[[Item], Made], items: Sequence[Item], places: Iterable[Path]) -> list[Made]:
    """What `work` makes of each, in their order, on the workers of the scheduler that there is.

    work and items: what can be pickled. places: folders that the workers must have, too. An item whose worker dies is
    made by another one. Raises Unavailable where no worker has them, all that had are gone, several died of the same
    item, or the scheduler does not answer or is gone; and whatever `work` raises.
    """
    require("distributed", "dask")
    from distributed.scheduler import KilledWorker

    client = schedulers.connect(schedulers.named(), WAIT_S)
    try:
        able = _able(client, [str(place) for place in places])
        options: dict[str, Any] = {"resources": {schedulers.RESOURCE: 1}, "retries": 0, "pure": False}
        futures = client.map(work, items, workers=able, allow_other_workers=False, **options)
        _await(client, futures, able)
        return client.gather(futures)
    except CancelledError as error:
        raise Unavailable(
            f"the scheduler {schedulers.named()} is gone: start it and its workers, and then this again"
        ) from error
    except KilledWorker as error:
        raise Unavailable(
            "workers died one after the other while they computed the same part, of too little memory perhaps: compute"
            " where there is more, or without --scheduler"
        ) from error
    finally:
        client.close(timeout=2)


def _able(client: Any, places: Sequence[str]) -> list[str]:
    """The workers that can compute from runs in these places; the others are told on stderr, each with the reason."""
    workers = sorted(schedulers.workers_of(client))
    options: dict[str, Any] = {"allow_other_workers": False, "retries": 0, "pure": False}
    asked = {each: client.submit(_lack, __version__, places, workers=[each], **options) for each in workers}
    able, why = [], ""
    for address, future in asked.items():
        try:
            lack = future.result(timeout=WAIT_S)
        except Exception as error:  # of Dask, of the network, or of a worker that has no pairlab
            lack = f"did not say what it has: {schedulers.first_line(error)}"
        if lack:
            why = f"worker {address} {lack}"
            print(f"left out: {why}", file=sys.stderr)
        else:
            able.append(address)
    if not able:
        told = why or "start `pairlab worker --scheduler ...` on hosts that share the store"
        raise Unavailable(f"no worker of {schedulers.named()} can compute this: {told}")
    return able


def _await(client: Any, futures: Sequence[Any], able: Sequence[str]) -> None:
    from distributed import wait

    while True:
        try:
            with client.as_current():
                wait(futures, timeout=LOOK_S)
            return
        except TimeoutError:
            if not {*able} & schedulers.workers_of(client):
                raise Unavailable(f"all workers of {schedulers.named()} that could compute this are gone") from None


def _lack(version: str, places: Sequence[str]) -> str:
    """Why this worker cannot compute from runs in these places; empty: it can."""
    if version != __version__:
        return f"has pairlab {__version__}, and this is {version}: update it"
    if missing := [place for place in places if not os.path.isdir(place)]:
        return f"has no {missing[0]}: what computes on workers needs a store that they share"
    return ""
