"""Executors of pure computation: threads of this process, or the workers of a Dask scheduler.

`pairlab report --scheduler` names the scheduler (base/schedulers.py). The workers read the runs at the same paths as
this process, so they must share the store.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from pairlab._version import __version__
from pairlab.base import schedulers
from pairlab.base.printing import echo
from pairlab.errors import Unavailable

#: The timeout for a scheduler, and for a worker's answer.
WAIT_S = 30.0
#: The interval between checks for a worker.
LOOK_S = 5.0
#: The time after which a silent scheduler counts as gone, though the connection stands.
SILENT_S = 60.0

Item = TypeVar("Item")
Made = TypeVar("Made")


def at_once(work: Callable[[Item], Made], items: Iterable[Item], most: int | None = None) -> list[Made]:
    """The results of `work` on the items, in order: as many in parallel as there are CPUs, at most `most`."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, most or sys.maxsize)) as pool:
        return list(pool.map(work, items))


def on_workers(work: Callable[[Item], Made], items: Sequence[Item], places: Iterable[Path]) -> list[Made]:
    """The results of `work` on the items, in order, computed by the workers of the named scheduler.

    work and items must be picklable. places: folders that the workers must have, too. If a worker dies, another one
    takes its item. Raises Unavailable if no worker has the folders, all such workers are gone, several died of the same
    item, or the scheduler does not answer or is gone; and whatever `work` raises.
    """
    schedulers.require()
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
    """The workers that can compute from runs in these places; the others are listed on stderr with the reason."""
    workers = sorted(schedulers.workers_of(client))
    options: dict[str, Any] = {"allow_other_workers": False, "retries": 0, "pure": False}
    answers = {each: client.submit(_lack, __version__, places, workers=[each], **options) for each in workers}
    able, why = [], ""
    for address, future in answers.items():
        try:
            lack = future.result(timeout=WAIT_S)
        except Exception as error:  # of Dask, of the network, or of a worker that has no pairlab
            lack = f"did not say what it has: {schedulers.first_line(error)}"
        if lack:
            why = f"worker {address} {lack}"
            echo(f"left out: {why}", err=True)
        else:
            able.append(address)
    if not able:
        remedy = why or "start `pairlab worker --scheduler ...` on hosts that share the store"
        raise Unavailable(f"no worker of {schedulers.named()} can compute this: {remedy}")
    return able


def _await(client: Any, futures: Sequence[Any], able: Sequence[str]) -> None:
    from distributed import wait

    heard_at = time.monotonic()
    while True:
        try:
            with client.as_current():
                wait(futures, timeout=LOOK_S)
            return
        except TimeoutError:
            pass
        try:
            present, heard_at = schedulers.workers_of(client), time.monotonic()
        except OSError as error:  # the scheduler is slow, or gone, for which Dask's futures raise CancelledError
            if client.status == "running" and time.monotonic() - heard_at < SILENT_S:
                continue
            raise CancelledError from error
        if not {*able} & present:
            raise Unavailable(f"all workers of {schedulers.named()} that could compute this are gone")


def _lack(version: str, places: Sequence[str]) -> str:
    """The reason why this worker cannot compute from runs in these places; empty: it can."""
    if version != __version__:
        return f"has pairlab {__version__}, and this is {version}: update it"
    if missing := [place for place in places if not os.path.isdir(place)]:
        return f"has no {missing[0]}: what computes on workers needs a store that they share"
    return ""
