"""The workers of a Dask scheduler, which measure the cells of a sweep: the sweep's side, and the worker's functions.

Dask handles everything between the hosts: connections, TLS, liveness. A cell is a task for a named worker, as its block
stays on one host, and takes the worker's only `testbed`, so that a host never gets two cells at once, from any sweep.
If a task were a whole block, a dying worker would lose the cells that have ended; and Dask's retries would hold such a
task until that worker is back, so the runner decides which cells are measured again elsewhere.
Source: distributed.dask.org, Worker Resources and Client API.
"""

import contextlib
import platform
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from pairlab import paths, store
from pairlab._version import __version__
from pairlab.base import schedulers
from pairlab.base.caller import caller, caller_with
from pairlab.base.environment import setting
from pairlab.base.foreign_files import escape_controls
from pairlab.base.schedulers import first_line
from pairlab.batch import experiments
from pairlab.batch.executors.executor import CellOutcome, LocalExecutor, WorkerLost, stored_outcome
from pairlab.errors import BadInput, DamagedRun, HostBusy, PairlabError, RunRescued, StoreError, Unavailable
from pairlab.measurement.measure import check
from pairlab.model import environment as environments
from pairlab.model.recorded import Host
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.runs import RESCUED
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.host import facts
from pairlab.testbed.host.facts import MACHINE_NAME

#: Time limit for a scheduler, or a first worker, to appear.
WAIT_S = 60.0
#: Time limit for a worker's description of itself.
ANSWER_S = 60.0
#: The longest time that a look at the scheduler may hold up the sweep.
_LOOK_S = 1.0
#: The folder of a worker's runs is a setting of the process; Dask starts a second cell if it took the worker for gone.
_one_at_a_time = threading.Lock()

#: A text that is shown, whoever wrote it.
Shown = Annotated[str, Field(strict=True, max_length=10_000), AfterValidator(escape_controls)]


class Introduction(BaseModel):
    """A worker's description of itself (`describe`); validated, as anybody may have sent it."""

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
    """A worker's reply for a cell (`measure_cell`).

    run: as of `store.export_run`, or empty; counts: whether the outcome has the run.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    state: Literal["done", "stored", "invalid", "failed", "skipped"]
    text: Shown
    run: bytes
    counts: bool


def describe(cells: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """On the worker: an Introduction, with the reasons that it cannot measure cells, by the cell's number."""
    missing = {}
    for number, values in enumerate(cells):
        try:
            check(Spec(**values))
        except (Unavailable, BadInput) as error:
            missing[str(number)] = str(error)
    return {"pairlab": __version__, "name": platform.node(), "host": facts.host(), "missing": missing}


def measure_cell(
    values: Mapping[str, Any],
    notebook: tuple[str, bytes] | None,
    attempts: int,
    wait: bool,
    block: str = "",
    label: str = "",
) -> dict[str, Any]:
    """On the worker: measures the spec, and returns a Reply.

    The run is in a separate folder until it is sent, so that hosts need not share a store. notebook: name and content
    of the experiment's notebook, if the worker may lack it. wait: for other measurements on this host, else HostBusy.
    block: the label of the cell's block. label: as of base.caller.
    """
    with _one_at_a_time, working_directory() as place:
        folder = place / "runs"
        with setting(PAIRLAB_RUNS=str(folder)), caller_with(block=block, label=label):
            spec = Spec(**values)
            if notebook:
                name, content = notebook
                (place / Path(name).name).write_bytes(content)
                experiments.named(Path(name).name, place)
            measure = partial(experiments.measure_cell, wait=wait, attempts=attempts)
            outcome = LocalExecutor(measure, retry=True).measure_cell(spec)
            stored = store.latest(spec)
            content = store.export_run(stored) if stored else b""
            shutil.rmtree(folder, ignore_errors=True)
    return {"state": outcome.state, "text": outcome.text, "run": content, "counts": outcome.run is not None}


def rescue(content: bytes, values: Mapping[str, Any]) -> str:
    """On the worker: keeps a run that it has sent, and that the sweep's host cannot store. Returns the folder."""
    folder = tempfile.mkdtemp(prefix=RESCUED)
    try:
        store.import_run(content, Spec(**values), Path(folder))
    except StoreError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


class WorkerPool:
    """Context manager: the present and future workers of a scheduler.

    address: of the scheduler, such as tls://127.0.0.1:8786. wait_s: time limit without scheduler or worker.
    credentials: the file that authenticates scheduler and workers, as in schedulers.connect. measure: the function that
    a worker runs for a cell. dashboard: for a browser; empty: none. failures: a worker's errors since its last result,
    by address.
    """

    def __init__(
        self,
        address: str,
        *,
        wait_s: float = WAIT_S,
        credentials: str | Path | None = None,
        measure: Callable[..., dict[str, Any]] = measure_cell,
    ):
        self.address, self.dashboard = address, ""
        self.credentials = str(Path(credentials).absolute()) if credentials else ""
        self.measure = measure
        self.failures: Counter[str] = Counter()
        self._wait_s = wait_s
        self._client: Any = None
        self._look: Future[set[str]] | None = None  # addresses of workers, while the scheduler's answer is pending
        self._workers: dict[str, Worker | None] = {}  # by address; None: left out
        self._asked: dict[str, tuple[Any, float]] = {}
        self._missing: set[int] | None = None
        self._seen_at = self._answered_at = time.monotonic()
        self.begin(())

    def begin(self, cells: Iterable[Spec], *, attempts: int = 1, retry: bool = False, wait: bool = True) -> None:
        """Sets the cells to measure, as of repetition 0. A worker that can measure less than the first is refused.

        attempts, retry, wait: as of runner.run; each worker waits for other measurements on its host.
        """
        self._cells = [spec.model_dump(exclude_defaults=True) for spec in cells]
        self.attempts, self.retry, self.wait = attempts, retry, wait

    def __enter__(self) -> "WorkerPool":
        self._connect(self._wait_s)
        with contextlib.suppress(Exception):  # Dask's error for a scheduler without a dashboard
            self.dashboard = str(self._client.dashboard_link or "")
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        self._disconnect()

    def _connect(self, within_s: float) -> None:
        self._client = schedulers.connect(self.address, within_s, self.credentials, data_only=True)

    def _disconnect(self) -> None:
        self._look = None
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
            self._client = None

    def arrived(self, say: Callable[[str], None]) -> list["Worker"]:
        """The workers that have come since the last call; say is called with each worker left out, and the reason.

        Raises Unavailable after wait_s without a suitable worker.
        """
        present = self._present()
        for address in self._workers.keys() - present:
            if gone := self._workers.pop(address):
                gone.lose("its connection to the scheduler is lost")
        arrived: list[Worker] = []
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
        """The addresses of pairlab's workers; none while the scheduler does not answer.

        A scheduler that is connected but slow keeps its workers until the next look: taking them for lost would lose
        their cells, and waiting would leave them idle.
        """
        try:
            if self._client is None or self._client.status != "running":
                self._disconnect()
                self._connect(1.0)
            self._look = self._look or schedulers.ask_for_workers(self._client)
            present = self._look.result(_LOOK_S)
            self._look, self._answered_at = None, time.monotonic()
            return present
        except (Unavailable, OSError, CancelledError, KeyError):  # TimeoutError is an OSError
            self._look = None if self._look and self._look.done() else self._look
            connected = self._client is not None and self._client.status == "running"
            if connected and time.monotonic() - self._answered_at < self._wait_s:
                return {*self._workers}
            self._disconnect()
            return set()

    def _ask(self, addresses: Iterable[str]) -> dict[str, Any]:
        """Futures of these workers' introductions; none if the connection has just gone: the next look asks again."""
        try:
            return {each: self.submit(each, describe, self._cells, resources={}) for each in addresses}
        except Exception:  # Dask's error for a lost connection
            return {}

    def _introductions(
        self, addresses: Collection[str], say: Callable[[str], None]
    ) -> list[tuple[str, Introduction | None]]:
        """The introductions of these workers, first of those that can measure most; None: the worker gave none.

        The pool waits for answers until the first worker is accepted; afterwards a silent worker must not hold up the
        others, and is heard at a later look.
        """
        self._asked = {each: pending for each, pending in self._asked.items() if each in addresses}
        now = time.monotonic()
        new = self._ask(each for each in addresses if each not in self._asked)
        self._asked |= {each: (future, now) for each, future in new.items()}
        introductions: dict[str, Introduction | None] = {}
        for address, (future, asked_at) in [*self._asked.items()]:
            left_s = asked_at + ANSWER_S - time.monotonic()
            if left_s > 0 and self._missing is not None and not future.done():
                continue
            del self._asked[address]
            try:
                introductions[address] = Introduction.model_validate(future.result(timeout=max(left_s, 1)))
            except Exception as error:  # of Dask or the network; or a worker without pairlab, or an invalid answer
                if future.status != "cancelled":
                    say(f"worker {address} is left out: it did not say who it is: {_what_is_wrong(error)}")
                    introductions[address] = None
        return sorted(introductions.items(), key=lambda each: len(each[1].missing) if each[1] else 0)

    def _accepted(self, address: str, introduction: Introduction, say: Callable[[str], None]) -> "Worker | None":
        """The worker, if it can measure this sweep; else say is called with the reason."""
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
        worker = Worker(self, address, name, introduction.host)
        if not worker.host.machine and any(each and each.host == worker.host for each in self._workers.values()):
            say(
                f"worker {name} counts as the same host as another one, as neither knows its machine: in a container,"
                f" tell it by {MACHINE_NAME}=NAME, another one for each host"
            )
        return worker

    def submit(self, address: str, function: Callable[..., Any], *given: Any, resources: Mapping[str, int]) -> Any:
        """A future of the call, on that worker only."""
        where = {"workers": [address], "allow_other_workers": False, "resources": dict(resources)}
        return self._client.submit(function, *given, **where, pure=False, retries=0)

    def remove(self, worker: "Worker") -> None:
        """Removes a worker. If it is still connected, it is asked again, unless it is unfit."""
        if self._workers.get(worker.address) is worker:  # not a newer worker at the same address
            if worker.unfit:
                self._workers[worker.address] = None
            else:
                del self._workers[worker.address]

    def stop(self) -> None:
        """Makes each measuring worker raise WorkerLost at once."""
        for each in filter(None, self._workers.values()):
            each.lose("the sweep has ended")


class Worker:
    """Measures cells on one host, one at a time.

    name: for people. facts: of the host, as in runs. host: the host and kernel, without versions of tools.
    lost: the reason that it can measure no more, or empty. unfit: it is not asked again while it stays connected.
    """

    def __init__(self, pool: WorkerPool, address: str, name: str, facts: Mapping[str, Any]):
        self.address, self.name, self.facts = address, name, facts
        self.host = environments.of_host(facts)
        self._pool = pool
        self.lost = ""
        self.unfit = False
        self._changed = threading.Event()

    def lose(self, why: str) -> None:
        """Marks the worker as gone: a cell under way raises WorkerLost."""
        self.lost = why
        self._changed.set()

    def measure_cell(self, spec: Spec, block: str = "") -> CellOutcome:
        """As LocalExecutor.measure_cell. block: a label. Raises WorkerLost: the cell may be measured elsewhere."""
        if outcome := stored_outcome(store.find(spec), self._pool.retry):
            return outcome
        self._changed.clear()
        if self.lost:
            raise WorkerLost(self.lost, measuring=False)
        future = self._submit(spec, block)
        try:
            future.add_done_callback(lambda _: self._changed.set())
            reply = self._reply(future)
            run = self._stored(reply.run, spec) if reply.run else None
        except DamagedRun as error:
            raise WorkerLost(str(error)) from error
        finally:
            with contextlib.suppress(Exception):
                future.cancel()
        return CellOutcome(reply.state, reply.text, run if reply.counts else None)

    def _stored(self, content: bytes, spec: Spec) -> Run:
        """The run, stored here. Raises StoreError, which says who keeps the run where the store does not take it."""
        try:
            return store.import_run(content, spec)
        except (DamagedRun, RunRescued):
            raise
        except StoreError as error:
            values = spec.model_dump(exclude_defaults=True)
            try:
                folder = self._pool.submit(self.address, rescue, content, values, resources={}).result(timeout=ANSWER_S)
            except Exception as unkept:  # of Dask or the network, or the worker's disk is full, too
                raise StoreError(f"{error}. {self.name} cannot keep it, either: {first_line(unkept)}") from error
            raise RunRescued(
                f"{error}. What {self.name} measured is whole there in {folder}: copy it here, and `pairlab import` it"
            ) from error

    def _submit(self, spec: Spec, block: str) -> Any:
        """A future of the cell's reply. Raises WorkerLost if the worker is out of reach."""
        pool, notebook = self._pool, experiments.notebook_of(spec.experiment)
        sent = None if notebook.parent == paths.EXPERIMENTS else (notebook.name, notebook.read_bytes())
        arguments = spec.model_dump(exclude_defaults=True), sent, pool.attempts, pool.wait, block, caller().label
        try:
            return pool.submit(self.address, pool.measure, *arguments, resources={schedulers.RESOURCE: 1})
        except Exception as error:  # of Dask, if the connection has just gone
            raise WorkerLost(f"it could not be asked: {first_line(error)}", measuring=False) from error

    def _reply(self, future: Any) -> Reply:
        """The worker's reply. Raises WorkerLost as soon as the worker is gone, and for an invalid reply.

        The first error of a worker may be the cell's fault; after a second one in a row, the worker gets no more cells.
        """
        self._changed.wait()
        if self.lost:
            raise WorkerLost(self.lost)
        try:
            reply = Reply.model_validate(future.result(timeout=ANSWER_S))
        except ValidationError as error:
            self.unfit = True
            raise WorkerLost(f"what it sent is no result of a cell: {_what_is_wrong(error)}") from error
        except HostBusy as error:
            self.unfit = True
            raise WorkerLost(str(error), measuring=False) from error
        except Exception as error:  # of the worker, such as a full disk; or of Dask, if worker or scheduler is gone
            if future.status == "error":
                self._pool.failures[self.address] += 1
                self.unfit = self._pool.failures[self.address] > 1
            raise WorkerLost(str(error) if isinstance(error, PairlabError) else first_line(error)) from error
        self._pool.failures.pop(self.address, None)
        return reply


def _what_is_wrong(error: Exception) -> str:
    """The fault of a worker's answer, or the error in place of an answer, in one line."""
    if not isinstance(error, ValidationError):
        return first_line(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'its answer'}: {first['msg']}"


@dataclass(frozen=True)
class WorkerState:
    """A worker's current cell, the time since when, and its number of measured cells. cell: empty while idle."""

    name: str
    cell: str
    since: datetime
    cells: int = 0


class WorkerActivity:
    """The workers of a shared sweep and their cells, noted in the store for the board."""

    #: The shortest interval between two notes.
    EACH_S = 1.0

    def __init__(self, sweep: str):
        self._sweep = sweep
        self._states: dict[Any, WorkerState] = {}  # by worker: one that came back is a new one of the same name
        self._changed, self._noted_at = True, -self.EACH_S  # the first note: no workers

    @property
    def at_work(self) -> int:
        """The number of measuring workers, at least 1."""
        return max(1, sum(bool(each.cell) for each in self._states.values()))

    def set(self, worker: Any, cell: Spec | None, *, measured: int = 0) -> None:
        """Sets the worker's current cell, None: idle. measured: to be added to its number of cells."""
        before = self._states.get(worker)
        cells = (before.cells if before else 0) + measured
        self._states[worker] = WorkerState(worker.name, str(cell) if cell else "", datetime.now(UTC), cells)
        self._changed = True

    def remove(self, worker: Any) -> None:
        self._states.pop(worker, None)
        self._changed = True

    def save(self) -> None:
        """Notes changes in the store, at most once a second."""
        if self._changed and time.monotonic() - self._noted_at >= self.EACH_S:
            states = [asdict(each) | {"since": each.since.isoformat()} for each in self._states.values()]
            store.remember_workers(self._sweep, states)
            self._changed, self._noted_at = False, time.monotonic()
