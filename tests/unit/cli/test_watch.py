"""`pairlab sweep --watch`: the board of a sweep that somebody else measures."""

import contextlib
import json
import os
import re
import signal
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from rich.console import Console

from pairlab import store
from pairlab.batch.watcher import Watcher
from pairlab.cli import watch
from pairlab.errors import HostBusy
from pairlab.testbed.host import lock
from tests.support import sweeps
from tests.support.screen import on_a_terminal
from tests.support.sweeps import end

WATCH = [sys.executable, "-c", "from pairlab import cli; cli.main(prog_name='pairlab')", "sweep", "small", "--watch"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(watch, "EVERY_S", 0.0)


def whole(tmp_path, how=("ok",)):
    """A sweep all of whose cells ended; how: the last one's status, and the reasons."""
    todo = sweeps.begin(tmp_path)
    for number, spec in enumerate(todo[:-1]):
        end(spec, after_s=number)
    end(todo[-1], *how, after_s=9)


def test_a_complete_sweep_is_told_in_lines_and_ends_the_watching(pairlab, tmp_path):
    whole(tmp_path)
    status, out, err = pairlab("sweep", "--watch", "small")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [line.split(": ")[-1] for line in lines[:4]] == ["1 Gbit/s"] * 4
    assert "1 Gbit/s, equal to its other repetition" in lines[4]
    assert lines[5].startswith("sweep small (netns): complete, started ")
    assert lines[6].endswith(" 8 of 8 cells ended: 8 done")


def test_a_file_says_the_name_and_an_option_the_backend(pairlab, tmp_path):
    whole(tmp_path)
    file = str(tmp_path / "small.yaml")
    assert "8 of 8 cells ended" in pairlab("sweep", "--watch", file)[1]
    assert "8 of 8 cells ended" in pairlab("sweep", file, "--watch", "--backend", "netns")[1]
    status, _, err = pairlab("sweep", file, "--watch", "--backend", "docker")
    assert (status, "no sweep 'small/docker' was started in" in err) == (1, True)


@pytest.mark.parametrize("status", ["failed", "invalid", "skipped"])
def test_a_sweep_that_is_not_well_done_ends_the_watching_with_status_1(pairlab, tmp_path, status):
    whole(tmp_path, how=(status, "so it was"))
    ended, out, _ = pairlab("sweep", "--watch", "small")
    assert ended == 1
    assert f"1 {status}: so it was" in out


def test_a_sweep_of_which_nothing_is_done_ends_the_watching_with_status_3(pairlab, tmp_path):
    for spec in sweeps.begin(tmp_path):
        end(spec, "skipped", "no such driver here")
    assert pairlab("sweep", "--watch", "small")[0] == 3


@pytest.fixture
def running(pairlab, tmp_path):
    """The cells of a sweep that is running; what is given with it ends when its process does."""
    todo = sweeps.begin(tmp_path)
    with contextlib.ExitStack() as process:
        process.enter_context(store.running("small", ["netns"]))
        yield todo, process


def test_programs_are_told_of_each_change_in_a_json_object_a_line(pairlab, running, monkeypatch):
    todo, process = running
    news = iter([None, *todo])  # and one look without

    def meanwhile(seconds):
        if spec := next(news):
            end(spec)
            if spec == todo[-1]:
                process.close()

    monkeypatch.setattr(watch.time, "sleep", meanwhile)
    status, out, err = pairlab("sweep", "--watch", "small", "--json")
    boards = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert [board["count"]["done"] for board in boards] == list(range(9))
    assert {board["event"] for board in boards} == {"board"}
    assert boards[-1]["state"] == "complete"


def test_lines_tell_each_result_once(pairlab, running, monkeypatch):
    todo, process = running
    news = iter(enumerate(todo))

    def meanwhile(seconds):
        number, spec = next(news)
        end(spec, after_s=number, bps=1e9 + number * 1e7)
        if spec == todo[-1]:
            process.close()

    monkeypatch.setattr(watch.time, "sleep", meanwhile)
    _, out, _ = pairlab("sweep", "--watch", "small")
    told, _, last = out.rpartition("sweep small (netns): complete")
    assert told.startswith("sweep small (netns): running, started ")
    for number, spec in enumerate(todo):
        assert told.count(f"{spec}: {1 + number / 100:.3g} Gbit/s") == 1
    assert "8 of 8 cells ended" in last


def test_who_measures_a_shared_sweep_is_shown_in_lines_and_on_a_terminal(runs_dir, tmp_path, capsys):
    dask = SimpleNamespace(address="tls://10.0.0.1:8786", credentials="", dashboard="http://10.0.0.1:8787/status")
    (first, *_) = sweeps.begin(tmp_path, pool=dask)
    with store.running("small", ["netns"]):
        store.remember_workers("small", [worker_row("a", first)])
        alone = Watcher("small").board()
        store.remember_workers("small", [worker_row("a", first), worker_row("b", first)])
        both = Watcher("small").board()
        watch._in_lines([alone, both, both])
    told = capsys.readouterr().out
    assert told.count("measured by a\n") == told.count("measured by a, b\n") == 1
    assert told.count("Dask shows them at http://10.0.0.1:8787/status") == 1
    console = Console(width=200)
    console.print(watch._picture(both))
    told = capsys.readouterr().out
    assert f"b measures {first} since" in told
    assert "Dask shows them at http://10.0.0.1:8787/status" in told


def worker_row(name, spec):
    return {"name": name, "cell": str(spec), "since": sweeps.START.isoformat(), "cells": 0}


@pytest.fixture
def dying(pairlab, tmp_path):
    """A sweep that has begun, with one cell done; what it enters is let go of as when its process dies."""
    todo = sweeps.begin(tmp_path)
    end(todo[0], after_s=5)
    with contextlib.ExitStack() as process:
        process.enter_context(store.running("small", ["netns"]))
        yield process


def test_in_lines_a_sweep_that_dies_is_told_with_how_to_go_on_and_ends_the_watching(
    pairlab, dying, monkeypatch, tmp_path
):
    once = iter([dying.close])
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: next(once)())
    status, out, err = pairlab("sweep", "--watch", "small")
    assert (status, err) == (1, "")
    *_, dead, standing, how = out.splitlines()
    assert dead.startswith("sweep small (netns): not running, started ")
    assert standing.startswith("  1 of 8 cells ended: 1 done, 7 left; ")
    seen = (sweeps.START + timedelta(seconds=5)).astimezone()
    assert how == (
        f"  process {os.getpid()} has ended; its last sign of life was at {seen:%Y-%m-%d %H:%M:%S};"
        f" `pairlab sweep {tmp_path / 'small.yaml'} --backend netns` measures the rest"
    )


def test_off_a_terminal_a_sweep_that_is_not_running_ends_the_watching_at_once(pairlab, tmp_path, monkeypatch):
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: pytest.fail("it waits"))
    end(sweeps.begin(tmp_path)[0])
    for options in ([], ["--json"]):
        assert pairlab("sweep", "--watch", "small", *options)[0] == 1
    monkeypatch.chdir(tmp_path)
    assert "`pairlab sweep small.yaml --backend netns` measures the rest" in pairlab("sweep", "--watch", "small")[1]


def test_the_command_that_is_advised_after_a_failure_works(pairlab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole(tmp_path, how=("failed", "so it was"))
    _, out, _ = pairlab("sweep", "--watch", "small")
    (advised,) = re.findall(r"`pairlab (sweep .* --retry)` measures again", out)
    status, out, _ = pairlab(*advised.split(), "--dry-run")
    assert (status, out.count("[ok]"), out.count("[failed]")) == (0, 7, 1)


def test_programs_are_told_that_a_sweep_has_died(pairlab, dying, monkeypatch):
    once = iter([dying.close])
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: next(once)())
    status, out, _ = pairlab("sweep", "--watch", "small", "--json")
    boards = [json.loads(line) for line in out.splitlines()]
    assert (status, [board["died"] for board in boards]) == (1, [False, True])
    assert boards[-1]["heard_at"] == (sweeps.START + timedelta(seconds=5)).isoformat()


@pytest.mark.parametrize("option", ["--dry-run", "--retry", "--stop-on-failure", "--no-wait"])
def test_what_measures_does_not_go_with_watching(refused, option):
    status, said = refused("sweep", "--watch", "small", option)
    assert (status, said.startswith("--watch measures nothing")) == (2, True)


def test_a_sweep_that_was_never_started_is_refused(refused):
    status, said = refused("sweep", "--watch", "small")
    assert (status, said.startswith("no sweep 'small' was started in ")) == (1, True)


def test_watching_takes_no_lock_of_the_host(pairlab, tmp_path, monkeypatch):
    def taken(*arguments):
        raise HostBusy("the watcher wants to measure")

    monkeypatch.setattr(lock, "measuring", taken)
    whole(tmp_path)
    assert pairlab("sweep", "--watch", "small")[0] == 0


def test_ctrl_c_ends_the_watching_with_status_0(pairlab, running, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", interrupt)
    assert pairlab("sweep", "--watch", "small")[0] == 0


def watched(when):
    """The watching on a terminal; when: what is done as soon as certain words are seen there."""
    return on_a_terminal(WATCH, environment={"PYTHONPATH": os.pathsep.join(sys.path)}, when=when)


@pytest.mark.whole
def test_on_a_terminal_it_is_drawn_anew_until_the_sweep_is_complete(runs_dir, tmp_path):
    todo = sweeps.begin(tmp_path)

    def go_on(upto):
        for number, spec in enumerate(todo[:upto]):
            end(spec, after_s=number)

    shown = watched({"0 of 8 cells ended": lambda process: go_on(3), "3 of 8 cells ended": lambda process: go_on(8)})
    assert shown.status == 0
    left = "\n".join(shown.left)
    assert left.count("sweep small (netns)") == 1  # drawn over, not below
    assert "8 of 8 cells ended: 8 done" in left
    assert any(line.split()[:4] == ["throughput", "bridge", "4", "4"] for line in shown.left)


@pytest.mark.whole
def test_on_a_terminal_a_sweep_that_died_is_waited_for(dying, tmp_path):
    def go_on(process):
        for number, spec in enumerate(sweeps.begin(tmp_path)):
            end(spec, after_s=number)

    shown = watched({": running, ": lambda process: dying.close(), f"process {os.getpid()} has ended; ": go_on})
    assert shown.status == 0
    assert "8 of 8 cells ended: 8 done" in "\n".join(shown.left)


@pytest.mark.whole
def test_on_a_terminal_ctrl_c_ends_the_watching_and_leaves_the_picture(runs_dir, tmp_path):
    end(sweeps.begin(tmp_path)[0], "failed", "[red]the bridge broke")
    shown = watched({"1 of 8 cells ended": lambda process: process.send_signal(signal.SIGINT)})
    assert shown.status == 0
    assert "1 failed: [red]the bridge broke" in "\n".join(shown.left)
