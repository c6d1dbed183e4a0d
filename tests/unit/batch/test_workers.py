"""Which of a scheduler's workers measure a sweep, and which are asked again after a loss. No Dask, and no network."""

import errno
import os
import shlex
import tempfile
from concurrent.futures import CancelledError, Future
from types import SimpleNamespace

import pytest

from pairlab import Spec, store
from pairlab._version import __version__
from pairlab.base import schedulers
from pairlab.batch.executors import workers as workers_module
from pairlab.batch.executors.executor import WorkerLost
from pairlab.batch.executors.workers import WorkerPool
from pairlab.errors import HostBusy, StoreError, UnknownName
from tests.support.runs import made_up

HERE, THERE = "tls://10.0.0.1:1", "tls://10.0.0.2:1"


class Answer:
    """A future that is done, with that result or error; status: as Dask has it, "error" of what the worker raised."""

    def __init__(self, value, status="finished"):
        self.value, self.status = value, status

    def result(self, timeout):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def add_done_callback(self, callback):
        callback(self)

    def cancel(self):
        pass

    def done(self):
        return True


class Silence(Answer):
    """A future that is not done yet."""

    def __init__(self):
        super().__init__(TimeoutError(), "pending")

    def done(self):
        return False


class Scheduler(WorkerPool):
    """The workers of a scheduler that is made up. present: what each says that it lacks, by its address."""

    def __init__(self, present, cell=None, status="error"):
        super().__init__("tls://10.0.0.9:8786")
        self.begin([Spec(pairs=1), Spec(pairs=2)], attempts=3)
        self.present, self.cell, self.status = present, cell, status
        self.said, self.broken, self.silent, self.machines = [], False, set(), {}

    def _present(self):
        return set(self.present)

    def _ask(self, addresses):
        told = {"pairlab": __version__, "name": "vm"}
        if self.broken:
            return {each: Answer(CancelledError(), "cancelled") for each in addresses}
        return {
            each: Silence()
            if each in self.silent
            else Answer(told | {"host": self._host(each), "missing": self.present[each]})
            for each in addresses
        }

    def _host(self, address):
        return {"cpu_model": "a CPU", "cpus": 2, "kernel": "6.1", "machine": self.machines.get(address, address)}

    def submit(self, address, function, *given, resources):
        return Answer(self.cell, self.status)

    def names(self):
        return [worker.address for worker in self.arrived(self.said.append)]


@pytest.mark.parametrize("first", [HERE, THERE])
def test_of_workers_that_are_there_at_once_those_are_taken_that_can_measure_more(first):
    """In whatever order they are known."""
    other = THERE if first == HERE else HERE
    workers = Scheduler({first: {}, other: {0: "no sockperf: install it"}})
    assert workers.names() == [first]
    (text,) = workers.said
    assert text.endswith("left out, as it cannot measure all that others can: no sockperf: install it")


def test_workers_that_lack_the_same_measure_together():
    workers = Scheduler({HERE: {1: "no ovs"}, THERE: {1: "no ovs"}})
    assert set(workers.names()) == {HERE, THERE}
    assert not workers.said


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "its answer: Input should be a valid dictionary"),
        ({"pairlab": __version__, "name": "vm", "missing": {}}, "host: Field required"),
        ({"host": {"cpu_model": "a CPU", "cpus": "two", "kernel": "6.1"}}, "host.cpus: "),
        ({"host": {"cpus": 2}}, "host: Value error, it has no cpu_model, kernel"),
        ({"missing": {"first": "all"}}, "missing.first.[key]: Input should be a valid integer"),
    ],
)
def test_a_worker_that_answers_nonsense_is_left_out_and_the_others_measure(answer, why):
    workers = Scheduler({HERE: {}, THERE: {}})
    asked = workers._ask([HERE, THERE])
    if answer is not None and "name" not in answer:
        answer = asked[THERE].value | answer
    asked[THERE].value = answer
    workers._ask = lambda addresses: {each: asked[each] for each in addresses}
    assert workers.names() == [HERE]
    (text,) = workers.said
    assert text.startswith(f"worker {THERE} is left out: it did not say who it is: {why}")


def test_a_worker_whose_name_would_move_a_terminals_cursor_has_a_name_that_is_shown():
    workers = Scheduler({HERE: {}})
    asked = workers._ask([HERE])
    asked[HERE].value["name"] = "vm\x1b[2J"
    workers._ask = lambda addresses: asked
    (worker,) = workers.arrived(workers.said.append)
    assert "\x1b" not in worker.name


@pytest.mark.parametrize("reply", [None, {}, {"state": "excellent", "text": "", "run": b"", "counts": True}])
def test_a_worker_that_sends_nonsense_for_a_cell_is_not_asked_again(runs_dir, reply):
    workers = Scheduler({HERE: {}}, cell=reply)
    (worker,) = workers.arrived(workers.said.append)
    with pytest.raises(WorkerLost, match="what it sent is no result of a cell: ") as lost:
        worker.measure_cell(Spec(pairs=1))
    assert lost.value.measuring
    workers.remove(worker)
    assert workers.names() == []


def test_a_worker_that_comes_back_before_its_loss_is_noticed_stays():
    workers = Scheduler({HERE: {}})
    (before,) = workers.arrived(workers.said.append)
    workers.present = {}
    assert workers.names() == []
    assert before.lost
    workers.present = {HERE: {}}
    (now,) = workers.arrived(workers.said.append)
    workers.remove(before)  # by its thread, which has only now seen that it is lost
    assert workers.names() == []
    assert not now.lost


def test_a_worker_that_could_not_be_asked_as_the_connection_broke_is_asked_at_the_next_look():
    workers = Scheduler({HERE: {}})
    workers.broken = True
    assert workers.names() == []
    assert not workers.said
    workers.broken = False
    assert workers.names() == [HERE]


def test_a_silent_newcomer_holds_up_nobody_and_is_left_out_in_the_end(monkeypatch):
    workers = Scheduler({HERE: {}})
    assert workers.names() == [HERE]
    workers.present[THERE] = {}
    workers.silent = {THERE}
    assert workers.names() == []
    assert not workers.said
    monkeypatch.setattr(workers_module, "ANSWER_S", 0.0)
    assert workers.names() == []
    (text,) = workers.said
    assert text.startswith(f"worker {THERE} is left out: it did not say who it is")
    assert workers.names() == []  # and is not asked again
    assert len(workers.said) == 1


def test_a_slow_newcomer_is_taken_when_it_has_answered():
    workers = Scheduler({HERE: {}})
    workers.names()
    slow = Silence()
    workers.present[THERE], workers._ask = {}, lambda addresses: dict.fromkeys(addresses, slow)
    assert workers.names() == []
    answered = Scheduler({THERE: {}})._ask([THERE])[THERE]
    slow.value, slow.done = answered.value, lambda: True
    assert workers.names() == [THERE]
    assert not workers.said


def test_a_scheduler_that_is_slow_to_answer_holds_up_nobody_and_loses_no_worker(monkeypatch):
    """Asked who is there, it has some seconds: those that it had measure on, and its answer counts when it comes."""
    answers, asked = [Future(), Future()], []
    monkeypatch.setattr(schedulers, "ask_for_workers", lambda client: asked.append(client) or answers[len(asked) - 1])
    monkeypatch.setattr(workers_module, "_LOOK_S", 0.01)
    pool = WorkerPool("tls://10.0.0.9:8786")
    pool._client, pool._workers = SimpleNamespace(status="running"), {HERE: None}
    assert [pool._present() for _ in range(3)] == [{HERE}] * 3
    answers[0].set_result({THERE})
    assert pool._present() == {THERE}
    assert len(asked) == 1
    answers[1].cancel()  # as where its connection is closed
    assert pool._present() == {HERE}


@pytest.mark.parametrize(("machines", "told"), [({HERE: "", THERE: ""}, 1), ({HERE: "a", THERE: ""}, 0), ({}, 0)])
def test_workers_that_would_count_as_one_host_are_told_how_to_say_which_they_are_on(machines, told):
    workers = Scheduler({HERE: {}, THERE: {}})
    workers.machines = machines
    assert set(workers.names()) == {HERE, THERE}
    assert len(workers.said) == told
    assert all("PAIRLAB_MACHINE=NAME" in text for text in workers.said)


def test_a_worker_whose_connection_broke_is_asked_again(runs_dir):
    workers = Scheduler({HERE: {}}, cell=OSError("connection reset"), status="cancelled")
    for _ in range(3):
        (worker,) = workers.arrived(workers.said.append)
        with pytest.raises(WorkerLost, match="connection reset") as lost:
            worker.measure_cell(Spec(pairs=1))
        assert lost.value.measuring
        workers.remove(worker)


def test_a_worker_whose_host_is_busy_is_not_asked_again_and_the_cell_has_lost_no_attempt(runs_dir):
    workers = Scheduler({HERE: {}}, cell=HostBusy("somebody else measures"))
    (worker,) = workers.arrived(workers.said.append)
    with pytest.raises(WorkerLost, match="somebody else measures") as lost:
        worker.measure_cell(Spec(pairs=1))
    assert not lost.value.measuring
    workers.remove(worker)
    assert workers.names() == []


@pytest.mark.parametrize("error", [ImportError("no module named papermill"), StoreError("no room on the disk")])
def test_a_worker_that_fails_twice_in_a_row_is_not_asked_again(runs_dir, error):
    """Once may be the cell's fault; a worker that fails each would have all of the sweep's cells in no time."""
    workers = Scheduler({HERE: {}})
    for result in (error, {"state": "skipped", "text": "", "run": b"", "counts": False}, error, error):
        (worker,) = workers.arrived(workers.said.append)
        workers.cell = result
        if isinstance(result, dict):
            assert worker.measure_cell(Spec(pairs=1)).state == "skipped"
        else:
            with pytest.raises(WorkerLost, match=str(error)) as lost:
                worker.measure_cell(Spec(pairs=1))
            assert lost.value.measuring
        workers.remove(worker)
    assert workers.names() == []


@pytest.fixture
def full_stores(tmp_path, monkeypatch):
    """Stores below these folders take nothing."""
    full, real = [], os.fsync

    def fsync(descriptor):
        if any(os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(each)) for each in full):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return full


def test_a_run_that_the_sweeps_host_cannot_store_is_kept_there_or_by_the_worker(tmp_path, runs_dir, full_stores):
    sent = store.write(made_up(pairs=1), tmp_path / "worker")
    reply = {"state": "done", "text": "", "run": store.export_run(sent), "counts": True}
    places = {name: tmp_path / name for name in ("of the sweep", "of the worker")}
    for place in places.values():
        place.mkdir()

    class Elsewhere(Scheduler):
        def submit(self, address, function, *given, resources):
            if function is not workers_module.rescue:
                return super().submit(address, function, *given, resources=resources)
            with pytest.MonkeyPatch.context() as on_the_worker:
                on_the_worker.setattr(tempfile, "tempdir", str(places["of the worker"]))
                return Answer(function(*given))

    def lost():
        workers = Elsewhere({HERE: {}}, cell=reply)
        (worker,) = workers.arrived(workers.said.append)
        with pytest.MonkeyPatch.context() as here:
            here.setattr(tempfile, "tempdir", str(places["of the sweep"]))
            with pytest.raises(StoreError) as error:
                worker.measure_cell(sent.spec)
        return str(error.value)

    full_stores.append(runs_dir)
    said = lost()
    (kept,) = places["of the sweep"].iterdir()
    assert f"`pairlab import {shlex.quote(str(kept))}`" in said
    full_stores.append(places["of the sweep"])
    said = lost()
    (by_worker,) = places["of the worker"].iterdir()
    assert str(by_worker) in said
    full_stores.clear()
    for folder in (kept, by_worker):
        (run,) = (store.read(each) for each in store.directories(folder))
        assert run.flows.equals(sent.flows)


def test_a_cell_that_cannot_be_sent_ends_the_sweep_and_no_worker(runs_dir, tmp_path):
    """As of a notebook of one's own that was deleted meanwhile."""
    workers = Scheduler({HERE: {}})
    (worker,) = workers.arrived(workers.said.append)
    with pytest.raises(UnknownName, match="no experiment 'mine'"):
        worker.measure_cell(Spec(experiment="mine"))
