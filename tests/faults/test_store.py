"""Nothing is lost: on a full disk, in a read-only folder, and wherever the writing is cut off.

The promise: finished runs stay whole and readable, half-written ones are never read as runs, `clean` knows what is left
over and deletes no run, and a sweep goes on from there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from pairlab import store
from pairlab.batch import runner
from pairlab.measurement import measure
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store import runs
from pairlab.store.dataset import load_runs
from pairlab.testbed.netns import sandbox
from tests.faults.kill_at_call import kill_before_every_call, run_until_call
from tests.support.runs import WHEN, files_below, made_up, rate_of

# --- cut off between any two calls that change files


@pytest.fixture
def place(tmp_path):
    """A store of the test's own; in memory where it can be, as hundreds of runs are synced to it."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "runs"
        return
    with tempfile.TemporaryDirectory(prefix="test-store-", dir=memory) as made:
        yield Path(made) / "runs"


def rates(root):
    """The rate of every run that can be read, by number of pairs; none may be damaged."""
    found = load_runs(root)
    assert found.unread == ()
    return {run.spec.pairs: rate_of(run) for run in found}


def hidden(root):
    """What lies there beside runs, replaced runs and sweeps, and what hides in these."""
    return {path for path in root.rglob(".*") if path.name not in (".sweeps", ".replaced")}


def clean(root):
    """As `pairlab clean` does. It must have known of all that is hidden."""
    left = hidden(root)
    found = list(store.leftovers(root))
    assert {path for path, _ in found} == left
    for path, _ in found:
        store.clean_up(path)
    assert hidden(root) == set()
    assert list(store.leftovers(root)) == []


def replaced(root):
    return [rate_of(store.read(path)) for path in root.glob("*/.replaced/*/")]


def test_a_first_write_cut_off_anywhere_leaves_a_whole_run_or_none(place, record_property):
    new = made_up(2e9, pairs=2, raw={"client-0.out": "x" * 9000, "server-0.out": "y"})

    def prepare():
        shutil.rmtree(place, ignore_errors=True)
        store.write(made_up(1e9, pairs=1), place)

    def check(trace):
        assert rates(place) in ({1: 1e9}, {1: 1e9, 2: 2e9})
        clean(place)
        assert rates(place) in ({1: 1e9}, {1: 1e9, 2: 2e9})
        store.write(new, place)
        assert rates(place) == {1: 1e9, 2: 2e9}

    calls = kill_before_every_call(lambda: store.write(new, place), prepare, check)
    assert calls > 30
    record_property("steps of a first write, each cut off", calls)


@pytest.mark.parametrize("exchange", ["exchanged in one step", "where names cannot be exchanged"])
def test_a_replacing_write_cut_off_anywhere_loses_neither_run(place, monkeypatch, exchange, record_property):
    old = made_up(1e9, status="invalid", reasons=("apart",), raw={"client-0.out": "old"})
    new = made_up(2e9, raw={"client-0.out": "new"})
    if exchange.startswith("where"):
        monkeypatch.setattr(runs, "exchange", lambda one, other: False)
    seen = []

    def prepare():
        shutil.rmtree(place, ignore_errors=True)
        store.write(old, place)

    def check(trace):
        before = {run.spec.pairs: rate_of(run) for run in load_runs(place)} if store.directories(place) else {}
        seen.append(before.get(1))
        clean(place)
        assert rates(place)[1] in (1e9, 2e9)
        assert 1e9 in [*(rate_of(run) for run in load_runs(place)), *replaced(place)]  # the old one is never deleted
        if before.get(1) == 2e9:
            assert rates(place)[1] == 2e9
        store.write(new, place)
        assert rates(place)[1] == 2e9

    calls = kill_before_every_call(lambda: store.write(new, place), prepare, check)
    assert {1e9, 2e9} <= set(seen)
    if exchange.startswith("exchanged"):
        assert None not in seen  # at no moment was there none
    record_property(f"steps of a replacing write, {exchange}, each cut off", calls)


def test_a_write_beside_an_older_run_cut_off_anywhere_leaves_the_older_one_and_all_or_nothing(place, record_property):
    old, new = made_up(1e9), made_up(2e9, at=WHEN + timedelta(hours=1))

    def stored():
        return {rate_of(run) for run in load_runs(place)}

    def prepare():
        shutil.rmtree(place, ignore_errors=True)
        store.write(old, place)

    def check(trace):
        assert stored() in ({1e9}, {1e9, 2e9})
        clean(place)
        assert stored() in ({1e9}, {1e9, 2e9})
        store.write(new, place)
        assert stored() == {1e9, 2e9}
        assert rate_of(store.find(new.spec, place)) == 2e9

    calls = kill_before_every_call(lambda: store.write(new, place), prepare, check)
    assert calls > 20
    record_property("steps of a write beside an older run, each cut off", calls)


def test_a_notebook_cut_off_anywhere_is_the_older_one_or_the_new_one(place, tmp_path, record_property):
    older, newer = (tmp_path / name for name in ("older.ipynb", "newer.ipynb"))
    older.write_text("older" * 10_000)
    newer.write_text("newer" * 10_000)
    run = made_up()

    def prepare():
        shutil.rmtree(place, ignore_errors=True)
        store.attach_notebook(store.write(run, place), older)

    def check(trace):
        assert rates(place) == {1: 1e9}
        clean(place)
        kept = store.find(run.spec, place).path / "notebook.ipynb"
        assert kept.read_text() in (older.read_text(), newer.read_text())
        store.attach_notebook(store.find(run.spec, place), newer)
        assert kept.read_text() == newer.read_text()

    calls = kill_before_every_call(lambda: store.attach_notebook(store.find(run.spec, place), newer), prepare, check)
    assert calls > 5
    record_property("steps of keeping a notebook, each cut off", calls)


def test_a_note_of_a_sweep_cut_off_anywhere_is_the_older_one_or_the_new_one(place, record_property):
    older, newer = [Spec(pairs=1)], [Spec(pairs=1), Spec(pairs=2)]

    def prepare():
        shutil.rmtree(place, ignore_errors=True)
        store.remember_sweep("small", older, place)

    def check(trace):
        assert store.keys_of_sweep("small", place) in ({older[0].key}, {spec.key for spec in newer})
        clean(place)
        store.remember_sweep("small", newer, place)
        assert store.keys_of_sweep("small", place) == {spec.key for spec in newer}

    calls = kill_before_every_call(lambda: store.remember_sweep("small", newer, place), prepare, check)
    assert calls > 5
    record_property("steps of noting a sweep, each cut off", calls)


def test_a_sweep_cut_off_anywhere_goes_on_from_there(place, tmp_path, monkeypatch, record_property):
    monkeypatch.setenv("PAIRLAB_RUNS", str(place))
    monkeypatch.setattr(measure, "check", lambda spec: None)
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump({"name": "two", "experiments": {"throughput": {"pairs": [1, 2]}}}))
    plan = runner.load(file)
    todo = runner.cells(plan)
    given = []

    def execute(spec):
        given.append(spec)
        rows = [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": spec.pairs * 1e9}]
        return store.write(Run(spec, "ok", (), datetime.now(UTC), flows=table("flows", rows)))

    def check(trace):
        done = {spec for spec in todo if store.find(spec)}
        given.clear()
        assert runner.run(plan, execute=execute).good
        assert set(given) == set(todo) - done
        assert rates(place) == {1: 1e9, 2: 2e9}
        clean(place)
        assert rates(place) == {1: 1e9, 2: 2e9}

    # Every third call: those of a write are all tried above.
    calls = kill_before_every_call(
        lambda: runner.run(plan, execute=execute), lambda: shutil.rmtree(place, ignore_errors=True), check, every=3
    )
    assert calls > 60
    record_property("steps of a sweep of two cells, each third cut off", calls)


def test_all_of_a_run_is_on_the_disk_before_it_has_its_name_and_then_the_name(place):
    store.write(made_up(1e9, status="invalid"), place)
    run = made_up(2e9, raw={"client-0.out": "x"})
    calls = run_until_call(None, lambda: store.write(run, place)).calls
    (naming,) = (number for number, call in enumerate(calls) if call[0] == "renameat2")
    draft = calls[naming][1]
    whole = store.find(run.spec, place).path
    for file in (*files_below(whole), ""):
        (synced,) = (
            number for number, call in enumerate(calls) if call == ("fsync", os.path.join(draft, file).rstrip("/"))
        )
        changes = [
            number
            for number, call in enumerate(calls[:naming])
            if call[0] in ("write", "pwrite64", "create", "mkdir") and call[-1].startswith(os.path.join(draft, file))
        ]
        assert max(changes) < synced < naming, file
    assert ("fsync", str(whole.parent)) in calls[naming:]
    assert ("fsync", str(whole.parent / ".replaced")) in calls[naming:]


# --- on file systems of their own: small ones inside a mount namespace


def on_a_file_system_of_its_own(script, place):
    """Runs the script where `place` is a tmpfs of 192 KiB that goes with the process; returns what it printed."""
    if missing := sandbox.missing():
        pytest.skip(str(missing))
    place.mkdir()
    prelude = """
        import os, subprocess, sys
        from pathlib import Path
        from pairlab import Spec, store
        from pairlab.store.dataset import load_runs
        from pairlab.errors import StoreError
        from pairlab.model.records import Run
        root = Path(sys.argv[1])
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "none", root], check=True)

        def run(reason):
            return Run(Spec(), "ok", (reason,), raw={"client-0.out": "x" * 9000})

        def state():
            names = sorted(path.name for path in (root / "throughput").iterdir())
            return names, [run.reasons[0] for run in load_runs(root)], load_runs(root).damaged
    """
    whole = textwrap.dedent(prelude) + textwrap.dedent(script)
    rootless = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare = [sandbox.UNSHARE.path(), *rootless, "--mount", sys.executable, "-c", whole, str(place)]
    done = subprocess.run(unshare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(place.iterdir()) == []  # the namespace took it along
    return done.stdout


def test_a_disk_that_fills_up_at_any_moment_of_a_write_keeps_the_older_run(tmp_path):
    script = """
        store.write(run("old"), root)
        before = state()
        (root / "ballast").write_bytes(b"")
        refused = 0
        while True:
            ballast = open(root / "ballast", "ab", buffering=0)
            try:
                while True:
                    ballast.write(b"x" * 4096)
            except OSError:
                pass
            os.truncate(root / "ballast", max(0, os.path.getsize(root / "ballast") - 4096 * refused))
            try:
                store.write(run("new"), root)
                break
            except StoreError as error:
                refused += 1
                assert "No space left on device. Make room" in str(error), error
                assert state() == before, state()
        names, reasons, damaged = state()
        print(refused > 3, len(names), reasons, damaged)
    """
    assert on_a_file_system_of_its_own(script, tmp_path / "small") == "True 2 ['old', 'new'] ()\n"


def test_notebooks_and_notes_of_sweeps_that_do_not_fit_on_the_disk_leave_the_older_ones(tmp_path):
    script = """
        kept = store.write(run("old"), root)
        (root / "notebook").write_text("old")
        store.attach_notebook(kept, root / "notebook")
        store.remember_sweep("small", [Spec()], root)
        (root / "notebook").write_text("new" * 9000)
        with open(root / "ballast", "ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"x" * 4096)
            except OSError:
                pass
        many = [Spec(pairs=pairs) for pairs in range(1, 500)]
        attempts = (
            lambda: store.attach_notebook(kept, root / "notebook"),
            lambda: store.remember_sweep("small", many, root),
        )
        for attempt in attempts:
            try:
                attempt()
            except StoreError as error:
                assert "No space left on device. Make room" in str(error), error
            else:
                raise AssertionError("it fitted")
        assert (kept.path / "notebook.ipynb").read_text() == "old"
        assert store.keys_of_sweep("small", root) == {Spec().key}
        assert list(store.leftovers(root)) == []
        (root / "ballast").unlink()
        for attempt in attempts:
            attempt()
        print((kept.path / "notebook.ipynb").read_text()[:3], len(store.keys_of_sweep("small", root)))
    """
    assert on_a_file_system_of_its_own(script, tmp_path / "small") == "new 499\n"


def test_a_sweep_into_a_folder_that_cannot_be_written_ends_before_anything_is_measured(tmp_path):
    script = """
        from pairlab.batch import runner, sweep_file
        (root / "sweep.yaml").write_text("{name: one, experiments: {throughput: {workload: flowgen}}}")
        subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
        os.environ["PAIRLAB_RUNS"] = str(root / "runs")
        given = []
        try:
            runner.run(sweep_file.load(root / "sweep.yaml"), execute=given.append)
        except StoreError as error:
            print("Read-only file system. Is the folder yours to write?" in str(error), given)
    """
    assert on_a_file_system_of_its_own(script, tmp_path / "small") == "True []\n"


def test_a_read_only_folder_of_runs_is_named_and_still_read(tmp_path):
    script = """
        store.write(run("old"), root)
        subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
        before = state()
        for attempt in (
            lambda: store.write(run("new"), root),
            lambda: store.write(Run(Spec(experiment="another"), "ok"), root),
            lambda: store.remember_sweep("smoke", [Spec()], root),
            lambda: store.attach_notebook(store.find(Spec(), root), Path(store.__file__)),
        ):
            try:
                attempt()
            except StoreError as error:
                assert "Read-only file system. Is the folder yours to write? PAIRLAB_RUNS names" in str(error), error
                assert str(root) in str(error), error
            else:
                raise AssertionError("it wrote")
        assert state() == before
        print(before[1])
    """
    assert on_a_file_system_of_its_own(script, tmp_path / "small") == "['old']\n"
