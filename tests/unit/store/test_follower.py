"""The store: runs as they come."""

import shutil

from pairlab import store
from pairlab.errors import StoreError
from pairlab.model.environment import Environment
from pairlab.model.spec import Spec
from pairlab.store import follower as following
from pairlab.store.paths import untagged
from tests.support.runs import Failing, made_up, rate_of, rewrite_head, truncate

SPECS = [Spec(duration_s=2.0, pairs=pairs) for pairs in (1, 2, 3)]
KEYS = [spec.key for spec in SPECS]


def test_a_look_reads_only_what_came_or_changed_since_the_one_before(tmp_path, monkeypatch):
    read, real = [], following.read
    monkeypatch.setattr(following, "read", lambda place: read.append(untagged(place.name)) or real(place))
    follower = store.Follower(SPECS, tmp_path)
    assert follower.look() == set()
    store.write(made_up(pairs=1), tmp_path)
    store.write(made_up(pairs=9), tmp_path)  # nobody's
    assert follower.look() == {KEYS[0]}
    assert follower.look() == set()
    store.write(made_up(pairs=2), tmp_path)
    store.write(made_up(5e9, pairs=1), tmp_path)  # measured again
    assert follower.look() == set(KEYS[:2])
    assert rate_of(follower.runs[KEYS[0]]) == 5e9
    shutil.rmtree(follower.runs[KEYS[1]].path)
    assert follower.look() == {KEYS[1]}
    assert list(follower.runs) == [KEYS[0]]
    assert sorted(read) == sorted([KEYS[0], KEYS[0], f"{KEYS[0]}.2", KEYS[1]])


def test_a_run_that_is_being_written_is_not_there_yet(tmp_path):
    follower = store.Follower(SPECS, tmp_path)
    with store.draft(SPECS[0], tmp_path) as draft:
        (draft / "run.json").write_text("{")
        assert follower.look() == set()
    assert (follower.runs, follower.troubles) == ({}, {})


def test_a_damaged_run_is_named_until_it_is_whole(tmp_path):
    follower = store.Follower(SPECS, tmp_path)
    run = store.write(made_up(pairs=1), tmp_path)
    truncate(run.path / "run.json")
    assert follower.look() == {KEYS[0]}
    assert f"{run.path} is not a whole run" in follower.troubles[KEYS[0]]
    assert follower.look() == set()
    (run.path / "run.json").unlink()
    assert follower.look() == {KEYS[0]}
    assert "No such file" in follower.troubles[KEYS[0]]
    store.write(made_up(pairs=1), tmp_path)
    assert follower.look() == {KEYS[0]}
    assert (list(follower.runs), follower.troubles) == ([KEYS[0]], {})


def test_a_run_of_a_newer_pairlab_is_named(tmp_path):
    run = store.write(made_up(pairs=1), tmp_path)
    rewrite_head(run.path, schema=99)
    follower = store.Follower(SPECS, tmp_path)
    follower.look()
    assert "was written by a newer pairlab" in follower.troubles[KEYS[0]]
    assert follower.look() == set()


def test_a_run_that_cannot_be_read_just_now_is_tried_again(tmp_path, monkeypatch):
    store.write(made_up(pairs=1), tmp_path)
    failing = Failing(following.read, StoreError("too many open files"))
    monkeypatch.setattr(following, "read", lambda place: failing(place))
    follower = store.Follower(SPECS, tmp_path)
    follower.look()
    assert follower.troubles == {KEYS[0]: "too many open files"}
    assert follower.look() == {KEYS[0]}
    assert (list(follower.runs), follower.troubles) == ([KEYS[0]], {})


def test_a_run_that_is_replaced_while_it_is_read_is_no_damaged_one(tmp_path, monkeypatch):
    place = store.write(made_up(pairs=1), tmp_path).path
    truncate(place / "flows.parquet")
    real = following.read

    def replaced_meanwhile(place):
        try:
            return real(place)
        finally:
            monkeypatch.setattr(following, "read", real)
            store.write(made_up(3e9, pairs=1), tmp_path)

    monkeypatch.setattr(following, "read", replaced_meanwhile)
    follower = store.Follower(SPECS, tmp_path)
    follower.look()
    assert (follower.runs, follower.troubles) == ({}, {})
    assert follower.look() == {KEYS[0]}
    assert rate_of(follower.runs[KEYS[0]]) == 3e9


def test_only_runs_of_the_environment_that_is_asked_for_count(tmp_path):
    here = Environment(host="a machine")
    store.write(made_up(1e9, pairs=1, host="another"), tmp_path)
    follower = store.Follower(SPECS, tmp_path, lambda spec: here)
    assert follower.look() == {KEYS[0]}
    assert follower.runs == {}
    store.write(made_up(2e9, pairs=1), tmp_path)
    assert follower.look() == {KEYS[0]}
    assert rate_of(follower.runs[KEYS[0]]) == 2e9
