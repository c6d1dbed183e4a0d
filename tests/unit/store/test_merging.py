"""Stores of several machines in one: no run is lost, none is there twice, whether merged or copied by hand."""

import shutil
from datetime import timedelta

import pytest

from pairlab import store
from pairlab.errors import DamagedRun, NoRuns, StoreError
from pairlab.model.environment import Environment
from pairlab.model.spec import Spec
from pairlab.store.dataset import load_runs
from tests.support.runs import WHEN, files_below, made_up, rate_of

#: Two machines that measured the same specs.
ONE = Environment("Model A, 2 CPUs", "a", "6.1")
OTHER = Environment("Model B, 2 CPUs", "b", "6.1")


def measured(root, environment, rates=(1e9, 2e9)):
    for pairs, rate_bps in enumerate(rates, 1):
        store.write(made_up(rate_bps, pairs=pairs, environment=environment), root)
    store.remember_sweep("mine", [Spec(duration_s=2.0, pairs=pairs) for pairs in range(1, 1 + len(rates))], root)
    return root


def rates(root):
    return sorted(rate_of(run) for run in load_runs(root, environment="all"))


def test_copied_into_one_folder_runs_of_two_machines_lie_side_by_side(tmp_path):
    one, other = measured(tmp_path / "one", ONE), measured(tmp_path / "other", OTHER, (3e9, 4e9))
    shutil.copytree(other, one, dirs_exist_ok=True)  # as `cp -r other/. one`
    assert rates(one) == [1e9, 2e9, 3e9, 4e9]
    assert len({run.key for run in load_runs(one, environment="all")}) == 4
    assert rate_of(store.find(Spec(duration_s=2.0, pairs=1), one, OTHER)) == 3e9


def test_copied_into_one_folder_packs_and_sweeps_of_two_machines_lie_side_by_side(tmp_path):
    one, other = measured(tmp_path / "one", ONE), measured(tmp_path / "other", OTHER, (3e9, 4e9, 5e9))
    latest = {"at": "2026-01-02"}
    store.remember_sweep("mine", [Spec(duration_s=2.0, pairs=9)], one, start=latest)
    store.remember_sweep("mine", [Spec(duration_s=2.0, pairs=8)], other, start={"at": "2026-01-01"})
    for root in (one, other):
        store.pack("throughput", root, remove=True)
    shutil.copytree(other, one, dirs_exist_ok=True)
    assert rates(one) == [1e9, 2e9, 3e9, 4e9, 5e9]
    assert store.keys_of_sweep("mine", one) == {Spec(duration_s=2.0, pairs=pairs).key for pairs in (8, 9)}
    assert store.starts_of_sweep("mine", one) == {"netns": latest}
    alone = tmp_path / "alone"
    assert [len(store.merge(pack, alone).added) for pack in sorted(one.glob("*.pack"))] in ([2, 3], [3, 2])
    assert rates(alone) == rates(one)


def test_merged_they_are_all_there_and_a_second_time_nothing_comes(tmp_path):
    one, other = measured(tmp_path / "one", ONE), measured(tmp_path / "other", OTHER, (3e9, 4e9, 5e9))
    before = {name: (one / name).read_bytes() for name in files_below(one) if not name.startswith(".sweeps")}
    found = store.merge(other, one)
    assert (len(found.added), found.known, found.troubles, found.sweeps) == (3, 0, [], ["mine/netns"])
    assert rates(one) == [1e9, 2e9, 3e9, 4e9, 5e9]
    assert {name: (one / name).read_bytes() for name in before} == before
    assert len(store.keys_of_sweep("mine", one)) == 3
    again = store.merge(other, one)
    assert (again.added, again.known, again.sweeps) == ([], 3, [])


def test_a_pack_comes_as_a_pack_and_unpacked_its_runs_are_as_they_were(tmp_path):
    other = measured(tmp_path / "other", OTHER)
    run = store.write(made_up(7e9, pairs=7, environment=OTHER, raw={"client-0.out": "said"}), other)
    (run.path / "notebook.ipynb").write_text("{}")
    made = store.pack("throughput", other, remove=True)
    one = measured(tmp_path / "one", ONE, (1e9,))
    own = store.pack("throughput", one).path
    assert len(store.merge(other, one).added) == 3
    assert {path.name for path in one.glob("*.pack")} == {own.name, made.path.name}
    assert rates(one) == [1e9, 1e9, 2e9, 7e9]
    alone = tmp_path / "alone"
    assert len(store.merge(made.path, alone).added) == 3
    assert not list(alone.glob("*.pack"))
    unpacked = store.find(run.spec, alone)
    assert dict(unpacked.raw) == {"client-0.out": "said"}
    assert (unpacked.path / "notebook.ipynb").read_text() == "{}"
    assert store.merge(made.path, alone).known == 3


def test_what_is_damaged_or_a_link_is_left_out_by_name_and_the_others_come(tmp_path):
    other = measured(tmp_path / "other", OTHER, (1e9, 2e9, 3e9))
    damaged, linked, _ = store.directories(other)
    (damaged / "flows.parquet").write_bytes(b"")
    (linked / "more").symlink_to("/etc/hostname")
    found = store.merge(other, tmp_path / "one")
    assert len(found.added) == 1
    assert len(found.troubles) == 2
    assert f"{linked}/more is a symbolic link" in found.troubles[1]
    assert not list((tmp_path / "one").rglob("*draft*"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoRuns, match="give a folder of runs"):
        store.merge(tmp_path / "empty", tmp_path / "one")


def test_a_run_that_is_removed_counts_no_more_and_comes_back_whole(tmp_path):
    root = measured(tmp_path, ONE)
    spec = Spec(duration_s=2.0, pairs=1)
    later = store.write(made_up(9e9, at=WHEN + timedelta(hours=1), pairs=1, environment=ONE), root)
    (kept,) = store.remove([later.path])
    assert rates(root) == [1e9, 2e9]
    assert store.removed(root) == {spec.key: kept}
    place = store.restore(kept)
    assert rate_of(store.read(place)) == 9e9
    assert store.removed(root) == {}
    (place / "flows.parquet").unlink()
    (kept,) = store.remove([place])
    with pytest.raises(DamagedRun):
        store.restore(kept)
    store.pack("throughput", root, remove=True)
    with pytest.raises(
        StoreError, match=r"is in a pack, from which no run is removed: pairlab unpack .*throughput-\w+\.pack"
    ):
        store.remove([store.find(spec, root).path])
