"""The workers of a Dask scheduler, which measure the cells of a sweep.

Everything between the hosts is Dask's: connections, TLS, who is alive. A cell is a task for one worker by name, as its
block stays on one host, and takes the worker's only `testbed`, so that a host is never asked for two cells at once,
whoever asks. A task for a whole block would lose the cells that have ended with a worker that dies, and Dask's retries
keep a task with such a restriction until that worker is back: what is measured again elsewhere is decided in runner.
Source: distributed.dask.org, Worker Resources and Client API.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from pairlab import paths, store
from pairlab._version import __version__
from pairlab.base import schedulers
from pairlab.base.foreign_files import visible
from pairlab.base.schedulers import first_line
from pairlab.batch import experiments
from pairlab.batch.executors import worker
from pairlab.batch.executors.executor import CellOutcome, Executor, WorkerLost, stored_outcome
from pairlab.errors import DamagedRun, HostBusy, PairlabError, Unavailable
from pairlab.model import ground as grounds
from pairlab.model.recorded import Host
from pairlab.model.spec import Spec
from pairlab.testbed.host.facts import MACHINE_NAME

#: How long a scheduler, or a first worker, is waited for.
WAIT_S = 60.0
#: How long a worker has to say who it is.
ANSWER_S = 60.0


#: A text that is shown, whoever wrote it.
Shown = Annotated[str, Field(strict=True, max_length=10_000), AfterValidator(visible)]


class Introduction(BaseModel):
    """What a worker says of itself (worker.describe): it may be anybody's answer, so it is checked."""

    model_config = ConfigDict(extra="ignore")

    pairlab: Shown
    name: Shown
    host: dict[str, Any]
    missing: dict[int, Shown] = {}

    @field_validator("host")
    @classmethod
    def _is_known(cls, host: dict[str, Any]) -> dict[str, Any]:
        Host.model_validate(host)
        if absent := {"cpu_model", "cpus", "kernel"} - host.keys():
            raise ValueError(f"it has no {', '.join(sorted(absent))}")
        return host


class Reply(BaseModel):
    """What a worker sends of a cell (worker.measure_cell)."""

    model_config = ConfigDict(extra="ignore", strict=True)

    state: Literal["done", "stored", "invalid", "failed", "skipped"]
    text: Shown
    run: bytes
    counts: bool


class WorkerPool:
    """Context manager: the workers that a scheduler has, and will have.

    address: of the scheduler, such as tls://127.0.0.1:8786. cells: what the sweep measures, as of repetition 0: a
    worker that cannot measure what the first one can is refused. wait_s: how long to go on without scheduler or worker.
    wait: each worker waits for other measurements on its host. credentials: the file by which scheduler and workers are
    known, as schedulers.connect. measure: what a worker runs for a cell. dashboard: for a browser; empty: none.
    """

    def __init__(
        self,
        address: str,
        cells: Sequence[Spec],
        *,
        attempts: int,
        retry: bool = False,
        wait: bool = True,
        wait_s: float = WAIT_S,
        credentials: str | Path | None = None,
        measure: Callable[..., dict[str, Any]] = worker.measure_cell,
    ):
        self.address, self.dashboard = address, ""
        self.credentials = str(Path(credentials).absolute()) if credentials else ""
        self.attempts, self.retry, self.wait, self.measure = attempts, retry, wait, measure
        self._cells = [spec.model_dump(exclude_defaults=True) for spec in cells]
        self._wait_s = wait_s
        self._client: Any = None
        self._workers: dict[str, _Worker | None] = {}  # by address; None: it is left out
        self._asked: dict[str, tuple[Any, float]] = {}
        self._failures: Counter[str] = Counter()
        self._missing: set[int] | None = None
        self._seen_at = self._answered_at = time.monotonic()

    def __enter__(self) -> "WorkerPool":
        self._connect(self._wait_s)
        with contextlib.suppress(Exception):  # of whatever kind Dask has for a scheduler without one
            self.dashboard = str(self._client.dashboard_link or "")
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        self._disconnect()

    def _connect(self, within_s: float) -> None:
        self._client = schedulers.connect(self.address, within_s, self.credentials, data_only=True)

    def _disconnect(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
            self._client = None

    def arrived(self, say: Callable[[str], None]) -> list[Executor]:
        """The workers that have come since the last call; say is called with who is left out, and why.

        Raises Unavailable where there was none that can measure for longer than one waits.
        """
        present = self._present()
        for address in self._workers.keys() - present:
            if gone := self._workers.pop(address):
                gone.lose("its connection to the scheduler is lost")
        arrived: list[Executor] = []
        for address, introduction in self._introductions(present - self._workers.keys(), say):
            worker = self._workers[address] = self._accepted(address, introduction, say) if introduction else None
            arrived += [worker] if worker else []
        if any(self._workers.values()):
            self._seen_at = time.monotonic()
        elif time.monotonic() - self._seen_at > self._wait_s:
            raise Unavailable(
                f"for {self._wait_s:g} s, the scheduler {self.address} has had no worker that can measure this sweep:"
                f" start `pairlab worker --scheduler {self.address}` on each host; what is done is kept, and the same"
                " command goes on"
            )
        return arrived

    def _present(self) -> set[str]:
        """The addresses of the workers that measure for pairlab; none while the scheduler does not answer.

        One that is connected and only slow has those that it had: to take them for lost would lose their cells.
        """
        try:
            if self._client is None or self._client.status != "running":
                self._disconnect()
                self._connect(1.0)
            present = schedulers.workers_of(self._client)
            self._answered_at = time.monotonic()
            return present
        except (Unavailable, OSError, TimeoutError, KeyError):
            connected = self._client is not None and self._client.status == "running"
            if connected and time.monotonic() - self._answered_at < self._wait_s:
                return {*self._workers}
            self._disconnect()
            return set()

    def _ask(self, addresses: Iterable[str]) -> dict[str, Any]:
        """Futures of who these workers are; none where the connection has just gone: the next look asks again."""
        try:
            return {each: self.submit(each, worker.describe, self._cells, resources={}) for each in addresses}
        except Exception:  # of whatever kind Dask has for it
            return {}

    def _introductions(
        self, addresses: Collection[str], say: Callable[[str], None]
    ) -> list[tuple[str, Introduction | None]]:
        """What these workers say of themselves, those first that can measure most; None of one that does not say it.

        They are waited for until the first is taken: afterwards one that is silent must not hold up the others, and
        says it at a later look. One that was not asked, as the connection had just gone, is asked at the next look.
        """
        self._asked = {each: asked for each, asked in self._asked.items() if each in addresses}
        now = time.monotonic()
        new = self._ask(each for each in addresses if each not in self._asked)
        self._asked |= {each: (future, now) for each, future in new.items()}
        found: dict[str, Introduction | None] = {}
        for address, (future, asked_at) in [*self._asked.items()]:
            left_s = asked_at + ANSWER_S - time.monotonic()
            if left_s > 0 and self._missing is not None and not future.done():
                continue
            del self._asked[address]
            try:
                found[address] = Introduction.model_validate(future.result(timeout=max(left_s, 1)))
            except Exception as error:  # of Dask or the network; or a worker has no pairlab, or answers nonsense
                if future.status != "cancelled":
                    say(f"worker {address} is left out: it did not say who it is: {_what_is_wrong(error)}")
                    found[address] = None
        return sorted(found.items(), key=lambda each: len(each[1].missing) if each[1] else 0)

    def _accepted(self, address: str, introduction: Introduction, say: Callable[[str], None]) -> "_Worker | None":
        """That worker, if it can measure this sweep; else say is called with why not."""
        name, version = f"{introduction.name} ({address.rpartition('/')[2]})", introduction.pairlab
        if version != __version__:
            say(f"worker {name} is left out: it has pairlab {version}, and this is {__version__}: update it")
            return None
        missing = {*introduction.missing}
        if self._missing is not None and missing - self._missing:
            why = introduction.missing[min(missing - self._missing)]
            say(f"worker {name} is left out, as it cannot measure all that others can: {why}")
            return None
        self._missing = missing if self._missing is None else self._missing
        worker = _Worker(self, address, name, introduction.host)
        if not worker.host.machine and any(each and each.host == worker.host for each in self._workers.values()):
            say(
                f"worker {name} counts as the same host as another one, as neither knows its machine: in a container,"
                f" tell it by {MACHINE_NAME}=NAME, another one for each host"
            )
        return worker

    def submit(self, address: str, function: Callable[..., Any], *given: Any, resources: Mapping[str, int]) -> Any:
        """A future of that call on that worker, and on no other."""
        where = {"workers": [address], "allow_other_workers": False, "resources": dict(resources)}
        return self._client.submit(function, *given, **where, pure=False, retries=0)

    def failed_again(self, address: str) -> bool:
        """Counts an error of that worker itself; whether it is the second without a result in between.

        One may be the cell's fault. A worker that fails each cell must not have all of them.
        """
        self._failures[address] += 1
        return self._failures[address] > 1

    def worked(self, address: str) -> None:
        """That worker has sent what came of a cell."""
        self._failures.pop(address, None)

    def leave(self, worker: Executor) -> None:
        """That worker measures no more. If it is still there, it is asked again, unless it is unfit."""
        assert isinstance(worker, _Worker)
        if self._workers.get(worker.address) is worker:  # and not the one that it has become since
            if worker.unfit:
                self._workers[worker.address] = None
            else:
                del self._workers[worker.address]

    def stop(self) -> None:
        """Each worker that is measuring raises WorkerLost at once."""
        for each in filter(None, self._workers.values()):
            each.lose("the sweep has ended")


class _Worker:
    """A worker as an executor. unfit: it cannot measure, so it is not asked again while it is connected."""

    def __init__(self, pool: WorkerPool, address: str, name: str, facts: Mapping[str, Any]):
        self.address, self.name, self.facts = address, name, facts
        self.host = grounds.of_host(facts)
        self._pool = pool
        self.lost = ""
        self.unfit = False
        self._changed = threading.Event()

    def lose(self, why: str) -> None:
        """It is gone: whatever it measures raises WorkerLost."""
        self.lost = why
        self._changed.set()

    def measure_cell(self, spec: Spec) -> CellOutcome:
        if outcome := stored_outcome(store.find(spec), self._pool.retry):
            return outcome
        reply = self._reply(spec)
        try:
            run = store.receive(reply.run, spec) if reply.run else None
        except DamagedRun as error:
            raise WorkerLost(str(error)) from error
        return CellOutcome(reply.state, reply.text, run if reply.counts else None)

    def _reply(self, spec: Spec) -> Reply:
        """What the worker sent. Raises WorkerLost as soon as it is gone."""
        self._changed.clear()
        if self.lost:
            raise WorkerLost(self.lost, measuring=False)
        future = self._submitted(spec)
        try:
            future.add_done_callback(lambda _: self._changed.set())
            self._changed.wait()
            if self.lost:
                raise WorkerLost(self.lost)
            reply = Reply.model_validate(future.result(timeout=ANSWER_S))
        except WorkerLost:
            raise
        except ValidationError as error:
            self.unfit = True
            raise WorkerLost(f"what it sent is no result of a cell: {_what_is_wrong(error)}") from error
        except HostBusy as error:
            self.unfit = True
            raise WorkerLost(str(error), measuring=False) from error
        except Exception as error:  # of the worker, such as a full disk; or of Dask, as it is gone, or the scheduler
            if future.status == "error":
                self.unfit = self._pool.failed_again(self.address)
            raise WorkerLost(str(error) if isinstance(error, PairlabError) else first_line(error)) from error
        else:
            self._pool.worked(self.address)
            return reply
        finally:
            with contextlib.suppress(Exception):
                future.cancel()

    def _submitted(self, spec: Spec) -> Any:
        """A future of what comes of that cell. Raises WorkerLost where the worker cannot be asked."""
        pool, notebook = self._pool, experiments.notebook_of(spec.experiment)
        sent = None if notebook.parent == paths.EXPERIMENTS else (notebook.name, notebook.read_bytes())
        asked = spec.model_dump(exclude_defaults=True), sent, pool.attempts, pool.wait
        try:
            return pool.submit(self.address, pool.measure, *asked, resources={schedulers.RESOURCE: 1})
        except Exception as error:  # of Dask, where the connection has just gone
            raise WorkerLost(f"it could not be asked: {first_line(error)}", measuring=False) from error


def _what_is_wrong(error: Exception) -> str:
    """What a worker's answer lacks, or what went wrong instead of one, in one line."""
    if not isinstance(error, ValidationError):
        return first_line(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'its answer'}: {first['msg']}"
