"""The sweep board: what it makes of a store. The sweeps here are made up; a real one is in tests/host."""

import collections
import contextlib
import dataclasses
import functools
import json
import os
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pairlab import store
from pairlab.batch import sweep_manifest
from pairlab.batch.executors.workers import WorkerActivity
from pairlab.batch.watcher import Watcher
from pairlab.errors import NoRuns, StoreError
from pairlab.measurement.estimate import OVERHEAD_S
from pairlab.model import reasons
from pairlab.store import follower as following
from pairlab.store.paths import untagged
from tests.support import sweeps
from tests.support.runs import truncate
from tests.support.sweeps import START, end


@pytest.fixture
def begin(runs_dir, tmp_path):
    """Starts a sweep as sweeps.begin, in a store of the test's own."""
    return functools.partial(sweeps.begin, tmp_path)


def counted(its):
    count = its.count
    return count.done, count.failed, count.invalid, count.skipped, count.left


def one(todo, driver="bridge", pairs=1, repetition=0):
    (spec,) = [s for s in todo if (s.driver, s.pairs, s.repetition) == (driver, pairs, repetition)]
    return spec


# --- how many


def test_before_its_first_result_all_of_a_sweep_is_left(begin):
    begin()
    its = Watcher("small").board()
    assert (its.name, its.backend, its.count.total, its.most, counted(its)) == ("small", "netns", 8, 8, (0, 0, 0, 0, 8))
    assert (its.state, its.complete, its.good) == ("not running", False, False)
    assert its.left_s == 8 * (2 + OVERHEAD_S)
    assert (its.cell_s, its.newest) == (None, ())


def test_a_sweep_that_was_never_started_is_told_how_to_start_it(runs_dir):
    with pytest.raises(NoRuns, match=r"no sweep 'small/docker' was started in .*: pairlab sweep sweeps/small\.yaml"):
        Watcher("small", backend="docker").board()


def test_cells_are_counted_by_how_they_ended_and_by_driver(begin):
    todo = begin()
    end(one(todo, "bridge", 1))
    end(one(todo, "bridge", 2), "failed", "the bridge broke")
    end(one(todo, "host", 1), "invalid", "clients started apart")
    end(one(todo, "host", 2), "skipped", "no such thing here")
    its = Watcher("small").board()
    assert counted(its) == (1, 1, 1, 1, 4)
    assert [(part.experiment, part.driver, *dataclasses.astuple(part.count)) for part in its.parts] == [
        ("throughput", "bridge", 4, 1, 1, 0, 0),
        ("throughput", "host", 4, 0, 0, 1, 1),
    ]


def test_runs_of_other_sweeps_are_not_counted(begin):
    todo = begin()
    end(todo[0].replace(pairs=7))
    assert counted(Watcher("small").board()) == (0, 0, 0, 0, 8)


def test_what_failed_before_a_retry_is_left_until_it_is_measured_again(begin):
    todo = begin()
    for number, status in enumerate(["ok", "failed", "invalid", "skipped"]):
        end(todo[number], status, *(["so it was"] if number else []))
    assert counted(Watcher("small").board()) == (1, 1, 1, 1, 4)
    begin(retry=True, at=START + timedelta(hours=1))
    its = Watcher("small").board()
    assert counted(its) == (1, 0, 0, 1, 6)
    assert its.left_s == 6 * (2 + OVERHEAD_S)
    assert [(trouble.cells, trouble.status) for trouble in its.troubles] == [(1, "skipped")]
    end(todo[1], "failed", "again", after_s=4000)
    assert counted(Watcher("small").board()) == (1, 1, 0, 1, 5)


def test_a_complete_sweep_is_as_good_as_its_own_exit_status(begin):
    todo = begin()
    for spec in todo[:-1]:
        end(spec)
    last = todo[-1]
    for status in ("failed", "invalid", "skipped"):
        end(last, status, "so it was")
        its = Watcher("small").board()
        assert (its.complete, its.good, its.state) == (True, False, "complete")
    begin(unavailable="skip")
    assert Watcher("small").board().good
    begin()
    end(last)
    its = Watcher("small").board()
    assert (its.complete, its.good, its.state) == (True, True, "complete")


def test_the_backends_of_a_sweep_are_told_together_or_one_by_one(begin):
    for backend in ("netns", "docker"):
        end(begin(backend=backend)[0])
    both, one = Watcher("small").board(), Watcher("small", backend="docker").board()
    assert (both.backend, both.count.total, both.count.done) == ("docker, netns", 16, 2)
    assert (one.backend, one.count.total, one.count.done) == ("docker", 8, 1)
    assert Watcher("small/docker").board() == one
    assert re.search(r"^  docker +throughput +bridge +4 ", str(both), re.MULTILINE)


# --- adaptive repetition


UNTIL = {"estimate": "total_throughput_bps", "within": 0.1, "at_least": 3, "at_most": 10}
ONE = {"driver": "bridge", "pairs": 1, "duration_s": 2, "workload": "flowgen", "until": UNTIL}


@pytest.fixture
def adaptive(begin, runs_dir):
    """Starts a sweep of one cell that is repeated until it is known; returns how to end its next repetitions."""
    first, *_ = begin(experiments={"throughput": ONE})

    def ended(*rates):
        for number, rate in enumerate(rates):
            end(first.replace(repetition=number), bps=rate, after_s=number)
        return Watcher("small").board()

    return ended


def test_the_number_of_cells_is_a_range_where_it_depends_on_results(adaptive):
    its = adaptive()
    assert (its.count.total, its.most) == (3, 10)
    assert "0 of about 3, at most 10, cells ended" in str(its)


def test_a_cell_that_is_known_closely_enough_is_done_and_one_that_spreads_goes_on(adaptive):
    its = adaptive(1e9, 1.01e9, 0.99e9)
    assert (its.count.total, its.most, its.count.left, its.complete, its.imprecise) == (3, 3, 0, True, ())
    its = adaptive(1e9, 1.3e9, 0.8e9)
    assert its.count.left > 0
    assert its.most == 10


def test_a_cell_that_is_never_known_closely_enough_says_so(adaptive):
    its = adaptive(*[1e9, 2e9] * 5)
    assert its.complete
    assert "total_throughput_bps is ± " in its.imprecise[0]
    assert "not as precise as asked: throughput: flowgen over bridge" in str(its)


# --- the time left


def test_the_time_left_goes_by_what_cells_cost_since_the_latest_start(begin):
    todo = begin()
    end(todo[0], after_s=-86400)  # the day before: the night between is nobody's cost
    for number, spec in enumerate(todo[1:4]):
        end(spec, after_s=10 + 7 * number)
    its = Watcher("small").board()
    assert its.cell_s == 7
    assert its.left_s == 4 * 7
    assert "4 left; about 28 s to go, at 7.0 s a cell" in str(its)


def test_skipped_cells_do_not_make_the_others_cheaper(begin):
    todo = begin()
    end(todo[0], after_s=0)
    for number in (1, 2, 3):
        end(todo[number], "skipped", "no such thing", after_s=10 + 0.01 * number)
    end(todo[4], after_s=10.05)
    assert Watcher("small").board().cell_s == pytest.approx(10.01)


# --- whether it runs


def test_it_runs_while_its_process_holds_the_lock(begin):
    begin()
    watcher = Watcher("small")
    assert not watcher.board().running
    with store.running("small", ["netns"]):
        assert watcher.board().state == "running"
    assert watcher.board().state == "not running"


def test_a_sweep_that_ends_while_it_is_looked_at_is_never_seen_to_have_died(begin, monkeypatch):
    *most, last = begin()
    for spec in most:
        end(spec)
    process, look = contextlib.ExitStack(), following.Follower.look
    process.enter_context(store.running("small", ["netns"]))

    def ends_after(follower):
        found = look(follower)
        end(last)
        process.close()
        return found

    watcher = Watcher("small")
    monkeypatch.setattr(following.Follower, "look", ends_after)
    assert (watcher.board().state, watcher.board().state) == ("running", "complete")


def test_a_sweep_whose_process_is_gone_says_since_when_and_how_to_go_on(begin):
    todo = begin(retry=True)
    with store.running("small", ["netns"]):
        assert not Watcher("small").board().died
    end(todo[0], after_s=9)
    its = Watcher("small").board()
    assert (its.died, its.heard_at) == (True, START + timedelta(seconds=9))
    assert f"process {os.getpid()} has ended; its last sign of life was at " in str(its)
    assert f"`pairlab sweep {its.start.file} --backend netns --retry` measures the rest" in str(its)
    for spec in todo:
        end(spec)
    assert not Watcher("small").board().died


def test_of_another_host_a_silent_sweep_is_not_said_to_have_died(begin, monkeypatch):
    with monkeypatch.context() as other_host:
        other_host.setattr(sweep_manifest.platform, "node", lambda: "elsewhere")
        begin()
    its = Watcher("small").board()
    assert (its.state, its.died) == ("not running", False)
    assert f"no sign of life of process {os.getpid()} on elsewhere since " in str(its)


def test_in_a_store_copied_from_another_host_new_results_tell_that_it_runs(begin, monkeypatch):
    with monkeypatch.context() as other_host:
        other_host.setattr(sweep_manifest.platform, "node", lambda: "elsewhere")
        begin(at=datetime.now(UTC) - timedelta(seconds=20))
        assert Watcher("small").board().running is False
    assert Watcher("small").board().running is True


def test_without_locks_the_age_of_the_newest_result_tells_whether_it_runs(begin, monkeypatch):
    monkeypatch.setattr(store, "is_running", lambda *arguments: None)
    ago = (datetime.now(UTC) - START).total_seconds()
    todo = begin()
    end(todo[0], after_s=ago - 300)
    assert Watcher("small").board().running is False
    end(todo[1], after_s=ago - 180)  # cells take 2 minutes: three of them are not yet over
    assert Watcher("small").board().running is True


# --- the newest result


def test_the_newest_result_is_told_against_its_repetitions_and_the_other_drivers(begin):
    todo = begin(repetitions=3)
    end(one(todo, "bridge", 1, 0), bps=8e9)
    end(one(todo, "bridge", 1, 1), bps=10e9, after_s=1)
    end(one(todo, "host", 1, 0), bps=20e9, after_s=2)
    end(one(todo, "host", 2, 0), bps=1e9, after_s=3)  # another cell
    end(one(todo, "bridge", 1, 2), bps=8.73e9, after_s=9)
    newest = Watcher("small").board().newest
    assert [result.measured_at - START for result in newest] == [timedelta(seconds=s) for s in (9, 3, 2, 1, 0)]
    assert newest[0].text == (
        "8.73 Gbit/s, 3.0 % below the median of its 2 other repetitions; 56 % below host (20 Gbit/s, one run)"
    )
    assert newest[0].cell == "throughput: flowgen over bridge, 1 pair, 2 s, repetition 2 (netns)"
    assert newest[1].text == "1 Gbit/s"


def test_the_first_repetition_has_none_to_be_held_against_and_the_second_has_one(begin):
    todo = begin()
    end(one(todo), bps=5e8)
    assert Watcher("small").board().newest[0].text == "500 Mbit/s, its first valid repetition"
    end(one(todo, repetition=1), bps=5e8, after_s=1)
    assert Watcher("small").board().newest[0].text == "500 Mbit/s, equal to its other repetition"


def test_flows_with_an_end_are_told_by_their_completion_times(begin):
    todo = begin(experiments={"fct": {"driver": "bridge", "pairs": 1, "workload": "flowgen"}})
    end(one(todo), bps=1e9)
    end(one(todo, repetition=1), bps=2e9, after_s=1)
    assert Watcher("small").board().newest[0].text == "median FCT 500 µs, 50 % below its other repetition"


def test_a_newest_result_that_does_not_count_tells_its_reason(begin):
    todo = begin()
    end(todo[0], "invalid", "clients started apart", "and the clock was set")
    newest = Watcher("small").board().newest[0]
    assert (newest.status, newest.text) == ("invalid", "clients started apart; and the clock was set")


# --- what is wrong


def test_reasons_are_grouped_whatever_their_figures(begin):
    todo = begin()
    for number, skew in enumerate((0.2, 0.35, 1.25)):
        end(todo[number], "invalid", f"clients started within {skew} s", after_s=number)
    end(todo[3], "failed", "the bridge broke", after_s=4)
    told = [(trouble.cells, trouble.status, trouble.reason) for trouble in Watcher("small").board().troubles]
    assert told == [(3, "invalid", "clients started within 1.25 s"), (1, "failed", "the bridge broke")]


def test_reasons_that_name_other_processes_are_one_and_the_last_ones_are_named(begin):
    todo = begin()
    for number, name in enumerate(("firefox", "(sd-pam)")):
        reason = reasons.naming(f"other processes used {number}.5 % of the CPU time", [(name, 70 + number, 0.2)] * 2)
        end(todo[number], "invalid", reason, after_s=number)
    (trouble,) = Watcher("small").board().troubles
    named = "(sd-pam) (pid 71) 20.0 %, (sd-pam) (pid 71) 20.0 %"
    said = f"other processes used 1.5 % of the CPU time (the largest: {named})"
    assert (trouble.cells, trouble.reason) == (2, said)


def test_a_damaged_run_is_named_and_left_and_a_half_written_one_is_not_shown(begin):
    todo = begin()
    place = end(todo[0]).path
    truncate(place / "run.json")
    with store.draft(todo[1]) as draft:
        (draft / "run.json").write_text("{")
        its = Watcher("small").board()
    assert counted(its) == (0, 0, 0, 0, 8)
    assert len(its.damaged) == 1
    assert f"{place} is not a whole run" in str(its)


def test_a_run_whose_table_proves_to_be_damaged_is_named(begin):
    todo = begin()
    flows = end(todo[0]).path / "flows.parquet"
    whole = flows.read_bytes()
    flows.write_bytes(b"PAR1" + bytes(40) + whole[44:])
    its = Watcher("small").board()
    assert any(todo[0].key in told for told in its.damaged)
    assert its.newest == () or its.newest[0].text.startswith("without a value")


@pytest.mark.parametrize("start", [None, 3, {"cells": []}, {"at": "noon"}])
def test_a_start_that_cannot_be_read_says_to_start_again(runs_dir, begin, start):
    todo = begin()
    store.remember_sweep("small", todo, start=start)
    with pytest.raises(StoreError, match=r"the cells of sweep 'small' cannot be read .*: start it again"):
        Watcher("small").board()


# --- one board after another


def test_a_watcher_reads_each_run_once(begin, monkeypatch):
    todo = begin()
    read, real = [], following.read
    monkeypatch.setattr(following, "read", lambda place: read.append(untagged(place.name)) or real(place))
    watcher = Watcher("small")
    for number, spec in enumerate(todo):
        end(spec, after_s=number)
        assert counted(watcher.board()) == (number + 1, 0, 0, 0, 7 - number)
    assert read == [spec.key for spec in todo]


def test_boards_without_news_between_them_are_equal(begin):
    end(begin()[0])
    watcher = Watcher("small")
    assert watcher.board() == watcher.board() == Watcher("small").board()


def test_a_watcher_goes_on_over_a_restart_with_other_cells(begin):
    todo = begin()
    watcher = Watcher("small")
    end(todo[0])
    assert counted(watcher.board()) == (1, 0, 0, 0, 7)
    begin(repetitions=3, at=START + timedelta(hours=1))
    assert counted(watcher.board()) == (1, 0, 0, 0, 11)


def test_a_watcher_may_begin_before_the_sweep(runs_dir, begin):
    watcher = Watcher("small")
    with pytest.raises(NoRuns):
        watcher.board()
    begin()
    assert watcher.board().count.total == 8


# --- how it shows


def test_text_says_where_it_stands_what_is_new_and_what_to_do(begin):
    todo = begin()
    for number, spec in enumerate(todo):
        end(spec, *(("failed", "the bridge broke") if number == 2 else ["ok"]), after_s=number)
    board = Watcher("small").board()
    lines = str(board).splitlines()
    assert lines[0].startswith("sweep small (netns): complete, started 2026-03-01 ")
    assert lines[1] == f"[{'#' * 40}] 8 of 8 cells ended: 7 done, 1 failed"
    assert (
        lines[2]
        == f"`pairlab sweep {board.start.file} --backend netns --retry` measures again what failed or was invalid"
    )
    assert lines[-1] == "  1 failed: the bridge broke"
    in_no_file = dataclasses.replace(board, start=board.start.model_copy(update={"file": "/dev/fd/7"}))
    assert str(in_no_file).splitlines()[2] == "Go on measures again what failed or was invalid"


def test_html_escapes_what_came_from_outside_and_tells_a_screen_reader_how_far_it_is(begin):
    todo = begin()
    end(todo[0], "failed", "<script>alert('x')</script>")
    html = Watcher("small").board()._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    bar = re.search(r'<div role="progressbar"[^>]*>', html)[0]
    assert 'aria-valuenow="1"' in bar
    assert 'aria-valuemax="8"' in bar


def test_json_has_all_of_it(begin):
    todo = begin()
    end(todo[0])
    told = json.loads(json.dumps(Watcher("small").board().as_dict()))
    assert told["count"] == {"total": 8, "done": 1, "failed": 0, "invalid": 0, "skipped": 0, "left": 7}
    assert (told["state"], told["good"], told["started_at"]) == ("not running", False, START.isoformat())
    assert sum(part["count"]["left"] for part in told["parts"]) == 7
    assert told["newest"][0]["measured_at"] == START.isoformat()


# --- several workers


#: What an executor is to whoever notes what it does.
Named = collections.namedtuple("Named", "name")
FIRST, SECOND, THIRD = map(Named, ("first", "second", "third"))
SHARED = SimpleNamespace(address="tls://10.0.0.1:8786", credentials="", dashboard="http://10.0.0.1:8787/status")


def test_a_shared_sweep_is_resumed_on_its_scheduler(begin):
    begin(pool=SHARED)
    its = Watcher("small").board()
    assert its.start.scheduler == "tls://10.0.0.1:8786"
    assert "--backend netns --scheduler tls://10.0.0.1:8786` measures the rest" in str(its)


def test_a_shared_sweep_is_resumed_with_the_same_credentials(begin):
    begin(pool=SimpleNamespace(address="tls://10.0.0.1:8786", credentials="/its own/scheduler.pem", dashboard=""))
    words = "--scheduler tls://10.0.0.1:8786 --credentials '/its own/scheduler.pem'` measures the rest"
    assert words in str(Watcher("small").board())


def test_the_time_left_of_a_shared_sweep_goes_by_what_all_workers_have_measured(begin):
    """Cells end more often than one takes: here each second, where one takes two and more."""
    todo = begin(pool=SHARED)
    for number, spec in enumerate(todo[:4]):
        end(spec, after_s=1.0 + number)
    assert Watcher("small").board().left_s == pytest.approx(4 * 1.0)


def test_every_worker_that_has_begun_a_cell_is_shown_with_it(begin, monkeypatch):
    todo = begin(pool=SHARED)
    activity = WorkerActivity("small")
    activity.save()
    monkeypatch.setattr(WorkerActivity, "EACH_S", 1000.0)
    with store.running("small", ("netns",)):
        for worker, spec in zip((FIRST, SECOND, THIRD), todo, strict=False):
            activity.set(worker, spec)
        activity.remove(THIRD)
        activity.save()
        assert not Watcher("small").board().workers  # the store is written once in that time at most
        monkeypatch.setattr(WorkerActivity, "EACH_S", 0.0)
        activity.save()
        workers = Watcher("small").board().workers
    assert [(each.name, each.cell) for each in workers] == [("first", str(todo[0])), ("second", str(todo[1]))]


def test_a_worker_that_is_idle_is_not_counted_among_those_at_work(begin):
    todo = begin(pool=SHARED)
    activity = WorkerActivity("small")
    for worker in (FIRST, SECOND):
        activity.set(worker, todo[0])
        activity.set(worker, todo[1], measured=1)
    assert activity.at_work == 2
    activity.set(SECOND, None)
    assert activity.at_work == 1
    activity.save()
    with store.running("small", ("netns",)):
        told = str(Watcher("small").board())
    assert re.search(r"first measures throughput.* since .*, after 1 cells", told)
    assert re.search(r"second is idle since .*, after 1 cells", told)
