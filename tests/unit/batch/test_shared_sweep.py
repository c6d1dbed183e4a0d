"""A sweep that several workers share, some of which are lost on the way. No traffic, and no network between them."""

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from pairlab import store
from pairlab.batch import runner
from pairlab.batch.executors import workers
from pairlab.batch.executors.executor import CellOutcome, WorkerLost, result_text, stored_outcome
from pairlab.errors import StoreError, Unavailable
from pairlab.model import environment
from pairlab.store.dataset import load_runs
from tests.support.runs import made_up
from tests.support.sweeps import GRID, load


class Worker:
    """Stores a made-up run for each cell. fate: what happens instead at which cell of its own, by number from 0."""

    def __init__(self, name, machine, fate=lambda number: None, log=None):
        self.name = name
        self.facts = {"cpu_model": "a CPU", "cpus": 2, "machine": machine, "kernel": "6.1"}
        self.host = environment.of_host(self.facts)
        self.fate = fate
        self.lost = ""
        self.log = [] if log is None else log
        self.given = []
        self.gone = threading.Event()

    def measure_cell(self, spec, block=""):
        if ended := stored_outcome(store.find(spec), False):
            return ended
        self.given.append(spec)
        self.log.append((self.name, spec))
        trouble = self.fate(len(self.given) - 1)
        if trouble:
            raise trouble
        run = replace(made_up(), spec=spec, facts={"host": self.facts}, measured_at=datetime.now(UTC))
        return CellOutcome("done", result_text(run), store.write(run))


class Crowd:
    """A pool: these workers arrive at once; after those that are left, the next ones arrive."""

    def __init__(self, *workers, later=()):
        self.address = self.dashboard = ""
        self.credentials = ""
        self._new, self._later = list(workers), list(later)
        self._present = set()

    def begin(self, cells, **how):
        self.cells, self.how = list(cells), how

    def arrived(self, say):
        new, self._new = self._new, []
        self._present |= set(new)
        if not self._present:
            raise Unavailable("nobody is left")
        return new

    def come(self, worker):
        self._new.append(worker)
        self._present.add(worker)

    def remove(self, worker):
        if self._later:
            self.come(self._later.pop(0))
        self._present.discard(worker)

    def stop(self):
        for each in self._present:
            each.gone.set()


def hosts_of_repetitions(plan):
    """By repetition, the machines that its cells were measured on."""
    found = {}
    for run in load_runs(environment="all"):
        found.setdefault(run.spec.repetition, set()).add(run.environment.machine)
    return found


def test_two_workers_share_a_sweep_and_each_repetition_stays_on_one_host(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=6)
    first, second = Worker("first", "a"), Worker("second", "b")
    reports = []
    crowd = Crowd(first, second)
    tally = runner.run(plan, pool=crowd, tell=reports.append)
    assert (tally.done, tally.good) == (24, True)
    assert crowd.cells == list(runner.rules(plan))
    assert crowd.how == {"attempts": plan.attempts, "retry": False, "wait": True}
    assert Counter(first.given + second.given) == Counter(dict.fromkeys(runner.cells(plan), 1))
    assert all(len(machines) == 1 for machines in hosts_of_repetitions(plan).values())
    assert [report.number for report in reports] == list(range(1, 25))
    assert {report.total for report in reports} == {24}


def test_what_a_lost_worker_was_measuring_is_measured_elsewhere_and_nothing_twice(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=3)
    log, said = [], []
    dies = Worker("dies", "a", lambda number: WorkerLost("its connection is lost") if number == 2 else None, log)
    stays = Worker("stays", "b", log=log)
    tally = runner.run(plan, pool=Crowd(dies, stays), say=said.append)
    assert (tally.done, tally.good) == (12, True)
    assert said == ["dies: its connection is lost"]
    assert len(dies.given) == 3
    assert Counter(spec for _, spec in log) == {**dict.fromkeys(runner.cells(plan), 1), dies.given[-1]: 2}
    assert len(load_runs(environment="all")) == 12


def test_what_is_left_of_a_block_goes_back_to_the_same_host_before_another_takes_it(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=1)
    dies = Worker("worker 1 of a", "a", lambda number: WorkerLost("killed") if number == 1 else None)
    again = Worker("worker 2 of a", "a")
    assert runner.run(plan, pool=Crowd(dies, later=[again])).good
    assert len(dies.given) == 2
    assert len(again.given) == 3
    assert hosts_of_repetitions(plan) == {0: {"a"}}


def test_a_cell_whose_every_worker_dies_has_failed_and_the_sweep_goes_on(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=1)
    poison = runner.cells(plan)[1]

    class Dies(Worker):
        def measure_cell(self, spec, block=""):
            if spec == poison:
                raise WorkerLost("out of memory")
            return super().measure_cell(spec, block)

    workers = [Dies(f"worker {number}", "a") for number in range(4)]
    tally = runner.run(plan, pool=Crowd(workers[0], later=workers[1:]), attempts=3)
    assert (tally.done, len(tally.not_done)) == (3, 1)
    assert "3 workers were lost while measuring it, the last one: out of memory" in tally.not_done[0]
    (kept,) = [run for run in load_runs(environment="all") if run.status == "failed"]
    assert kept.spec == poison
    assert kept.environment.machine == "a"


def test_a_worker_that_is_lost_for_good_takes_no_more_than_the_cell_it_was_measuring(tmp_path, runs_dir):
    """Each further cell would be lost at once: with one attempt for each, the whole rest would have failed."""
    plan = load(tmp_path, repetitions=3)
    dead = Worker("dead", "a", lambda number: WorkerLost("killed") if number >= 2 else None)
    tally = runner.run(plan, pool=Crowd(dead, later=[Worker("rest", "b")]), attempts=1)
    assert (tally.done, len(tally.not_done)) == (11, 1)
    assert len(dead.given) == 3
    assert len(load_runs(environment="all").where(status="failed")) == 1


def test_a_worker_that_is_back_before_its_loss_is_noticed_measures_on(tmp_path, runs_dir):
    """Both have one name: the first leaves when the second has begun a cell."""
    plan = load(tmp_path, repetitions=2)
    begun, back = threading.Event(), Worker("vm", "a", lambda number: begun.set())
    lost = Worker("vm", "a")

    def is_lost(spec, block):
        crowd.come(back)
        begun.wait()
        raise WorkerLost("its connection is lost")

    lost.measure_cell = is_lost
    crowd = Crowd(lost)
    tally = runner.run(plan, pool=crowd)
    assert (tally.done, len(back.given)) == (8, 8)


@pytest.mark.whole
def test_a_cell_that_a_worker_was_never_asked_for_has_lost_no_attempt(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=1)
    idle = [Worker(f"idle {n}", "a", lambda number: WorkerLost("not there", measuring=False)) for n in range(4)]
    tally = runner.run(plan, pool=Crowd(idle[0], later=[*idle[1:], Worker("rest", "a")]), attempts=1)
    assert (tally.done, tally.not_done) == (4, [])
    assert [len(each.given) for each in idle] == [1, 1, 1, 1]


def test_a_worker_that_is_lost_while_it_waits_is_given_nothing_any_more(tmp_path, runs_dir):
    """The last block is under way elsewhere, and is given back: its host keeps it."""
    plan = load(tmp_path, repetitions=1)
    waits, said = Worker("waits", "b"), []

    def dies(number):
        crowd.come(waits)
        waits.lost = "its connection is lost"
        return WorkerLost("killed")

    crowd = Crowd(Worker("dies", "a", dies), later=[Worker("again", "a")])
    tally = runner.run(plan, pool=crowd, say=said.append)
    assert tally.good
    assert not waits.given
    assert hosts_of_repetitions(plan) == {0: {"a"}}
    assert "waits: its connection is lost" in said


def test_without_any_worker_the_sweep_stops_and_goes_on_when_it_is_started_again(tmp_path, runs_dir):
    plan = load(tmp_path)
    dies = Worker("dies", "a", lambda number: WorkerLost("killed") if number == 3 else None)
    with pytest.raises(Unavailable, match="nobody is left"):
        runner.run(plan, pool=Crowd(dies))
    assert len(load_runs(environment="all")) == 3
    rest, states = Worker("rest", "b"), Counter()
    assert runner.run(plan, pool=Crowd(rest), tell=lambda report: states.update([report.state])).good
    assert states == {"stored": 3, "done": 5}


def test_a_resumed_block_goes_to_the_host_that_began_it(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=2)
    begun = Worker("first", "a", lambda number: KeyboardInterrupt() if number == 2 else None)
    with pytest.raises(KeyboardInterrupt):
        runner.run(plan, pool=Crowd(begun))
    assert runner.run(plan, pool=Crowd(Worker("other", "b"), Worker("same", "a"))).good
    assert hosts_of_repetitions(plan)[0] == {"a"}


def test_what_stops_one_worker_for_good_stops_all(tmp_path, runs_dir):
    plan = load(tmp_path, repetitions=4)
    full = Worker("full", "a", lambda number: StoreError("no room on the disk") if number == 1 else None)
    waits = Worker("waits", "b")

    def until_stopped(spec, block):
        waits.gone.wait()
        raise WorkerLost("the sweep has ended")

    waits.measure_cell = until_stopped
    with pytest.raises(StoreError, match="no room"):
        runner.run(plan, pool=Crowd(full, waits), attempts=1)
    assert set(load_runs(environment="all").index["status"]) == {
        "ok"
    }  # what it was measuring then is still to be measured


def test_a_stopping_rule_sees_all_workers_before_it_asks_for_more(tmp_path, runs_dir):
    until = {"estimate": "total_throughput_bps", "within": 0.5, "at_least": 3, "at_most": 6}
    plan = load(tmp_path, yaml.safe_dump({"name": "small", "until": until, "experiments": {"throughput": GRID}}))
    workers = Worker("first", "a"), Worker("second", "b")
    tally = runner.run(plan, pool=Crowd(*workers))
    assert (tally.done, tally.imprecise) == (12, [])  # of two values no interval is taken; three equal ones are precise


def test_a_worker_that_is_asked_for_two_cells_measures_one_after_the_other(runs_dir, monkeypatch):
    """Dask asks for a second one when a worker comes back whose connection was lost during the first."""
    second_inside, places = threading.Event(), []

    class Stub:
        def __init__(self, *_, **__):
            pass

        def measure_cell(self, spec, block=""):
            places.append(os.environ["PAIRLAB_RUNS"])
            if len(places) == 2:
                second_inside.set()
            assert not (len(places) == 1 and second_inside.wait(0.3))
            assert os.environ["PAIRLAB_RUNS"] == places[-1]
            return CellOutcome("failed", "made up")

    monkeypatch.setattr(workers, "LocalExecutor", Stub)
    with ThreadPoolExecutor(2) as pool:
        replies = [pool.submit(workers.measure_cell, {"pairs": pairs}, None, 1, True) for pairs in (1, 2)]
    assert [reply.result()["text"] for reply in replies] == ["made up"] * 2
    assert len(set(places)) == 2


def test_packed_and_received_a_run_is_the_same_and_what_is_none_is_refused(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    run = store.write(made_up(raw={"client.out": "a report"}), here)
    (run.path / "notebook.ipynb").write_text("{}")
    content = store.export_run(run)
    received = store.import_run(content, run.spec, there)
    assert received.flows.equals(run.flows)
    assert dict(received.raw) == {"client.out": "a report"}
    assert (received.path / "notebook.ipynb").exists()
    for wrong, spec in ((content[:700], run.spec), (b"nothing", run.spec), (content, run.spec.replace(pairs=7))):
        with pytest.raises(StoreError):
            store.import_run(wrong, spec, there)
    assert len(store.directories(there)) == 1
    assert not list(there.rglob("*.pairlab-draft"))
