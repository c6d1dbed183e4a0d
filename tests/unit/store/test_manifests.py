"""The store: the cells that a sweep has."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab import store
from pairlab.errors import NoRuns, StoreError
from pairlab.model.spec import Spec
from pairlab.store import manifests
from pairlab.store.dataset import load_runs
from tests.support.runs import FULL, Failing, files_below, made_up, truncate


def test_a_sweep_remembers_its_cells_and_only_these_are_loaded(tmp_path):
    mine = store.write(made_up(pairs=1), tmp_path)
    store.write(made_up(pairs=2), tmp_path)
    store.remember_sweep("small", [mine.spec, Spec(pairs=9)], tmp_path)
    assert store.keys_of_sweep("small", tmp_path) == {mine.key, Spec(pairs=9).key}
    assert [run.key for run in load_runs(tmp_path, sweep="small")] == [mine.key]
    store.remember_sweep("small", [Spec(pairs=9)], tmp_path)
    assert store.keys_of_sweep("small", tmp_path) == {Spec(pairs=9).key}
    assert len(files_below(tmp_path / ".sweeps")) == 1


def test_a_sweep_measured_in_another_backend_too_has_the_cells_of_both(tmp_path):
    netns, docker = (store.write(made_up(backend=backend), tmp_path) for backend in ("netns", "docker"))
    store.remember_sweep("small", [netns.spec], tmp_path)
    store.remember_sweep("small", [docker.spec], tmp_path)
    store.remember_sweep("smallest", [Spec(pairs=9)], tmp_path)
    for sweep, keys in (
        ("small", {netns.key, docker.key}),
        ("small/netns", {netns.key}),
        ("small/docker", {docker.key}),
    ):
        assert {run.key for run in load_runs(tmp_path, sweep=sweep)} == keys
    told = r"no sweep 'small/podman' was started in .*: pairlab sweep sweeps/small\.yaml --backend podman"
    with pytest.raises(NoRuns, match=told):
        load_runs(tmp_path, sweep="small/podman")


@pytest.mark.parametrize("name", ["smoke", "x" * 300, "[a-z]", ".."])
def test_a_sweep_that_was_never_started_is_no_runs(tmp_path, name):
    with pytest.raises(NoRuns) as caught:
        load_runs(tmp_path, sweep=name)
    assert str(caught.value) == f"no sweep '{name}' was started in {tmp_path}: pairlab sweep sweeps/{name}.yaml"


def test_a_damaged_list_of_a_sweeps_cells_is_named(tmp_path):
    store.remember_sweep("small", [Spec()], tmp_path)
    truncate(*tmp_path.glob(".sweeps/small/*"))
    with pytest.raises(StoreError, match=r"netns-\w+\.json is damaged .*start the sweep again"):
        store.keys_of_sweep("small", tmp_path)


def test_a_sweeps_cells_that_cannot_be_noted_are_a_store_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", Failing(Path.write_text, FULL))
    with pytest.raises(StoreError, match="No space left on device"):
        store.remember_sweep("small", [Spec()], tmp_path)


def test_what_a_sweep_notes_of_its_start_is_given_back_and_an_older_pairlabs_keys_are_read(tmp_path):
    store.remember_sweep("small", [Spec()], tmp_path, start={"at": "noon"})
    assert store.starts_of_sweep("small", tmp_path) == {"netns": {"at": "noon"}}
    (tmp_path / ".sweeps" / "older").mkdir()
    (tmp_path / ".sweeps" / "older" / "netns.json").write_text(json.dumps([Spec().key]))
    assert store.keys_of_sweep("older", tmp_path) == {Spec().key}
    assert store.starts_of_sweep("older/netns", tmp_path) == {"netns": None}
    store.remember_sweep("older", [Spec(pairs=9)], tmp_path)
    assert store.keys_of_sweep("older", tmp_path) == {Spec(pairs=9).key}


RUNS_UNTIL_KILLED = """
import sys
from pathlib import Path
from pairlab import store
with store.running("small", ["netns"], Path(sys.argv[1])):
    print("running", flush=True)
    sys.stdin.read()
"""


def test_a_sweep_is_running_until_its_process_ends_however_that_is(tmp_path):
    store.remember_sweep("small", [Spec()], tmp_path)
    assert store.is_running("small", "netns", tmp_path) is False
    command = [sys.executable, "-c", RUNS_UNTIL_KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"running\n"
        assert store.is_running("small", "netns", tmp_path) is True
        with store.running("small", ["netns"], tmp_path):  # two may measure it at once: the host's lock is another
            process.kill()
            process.wait()
            assert store.is_running("small", "netns", tmp_path) is True
    assert store.is_running("small", "netns", tmp_path) is False
    assert store.is_running("small", "docker", tmp_path) is False


def test_where_there_are_no_locks_nobody_knows_whether_a_sweep_runs(tmp_path, monkeypatch):
    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    store.remember_sweep("small", [Spec()], tmp_path)
    monkeypatch.setattr(manifests.fcntl, "fcntl", no_locks)
    with store.running("small", ["netns"], tmp_path):
        assert store.is_running("small", "netns", tmp_path) is None
