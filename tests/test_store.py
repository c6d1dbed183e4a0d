"""The store: a run is there whole or not at all, whatever happens, and nothing is lost unseen."""

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest

from pairlab import paths, store
from pairlab.collection import Runs, load_runs
from pairlab.errors import DamagedRun, MixedHosts, NoRuns, SchemaMismatch, StoreError
from pairlab.records import TABLES, Run, table
from pairlab.spec import Spec
from pairlab.testbed import sandbox

WHEN = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)


def made_up(rate_bps=1e9, *, status="ok", reasons=(), host="a machine", raw=None, **spec):
    """A run with one flow of that rate."""
    spec = Spec(**{"duration_s": 2.0} | spec)
    rows = (
        [] if status in ("failed", "skipped") else [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": rate_bps}]
    )
    times = {"up_s": 0.25}
    facts = {"host": {"fingerprint": host}}
    return Run(spec, status, reasons, WHEN, 0.001, 0.02, times, facts, table("flows", rows), raw=raw or {})


def rate_of(run):
    return run.flows["throughput_bps"][0]


def files_below(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# --- writing and reading again


def test_a_run_comes_back_as_it_was_written(tmp_path):
    run = made_up(5e9, driver="ovs", raw={"client-0.out": "naïve\r\nline\n", "server-0.err": "x"})
    stored = store.write(run, tmp_path)
    assert stored.path == tmp_path / "throughput" / run.key
    assert (stored.spec, stored.status, stored.reasons, stored.measured_at) == (run.spec, "ok", (), WHEN)
    assert (stored.skew_s, stored.harness_cpu_s, stored.times_s) == (0.001, 0.02, {"up_s": 0.25})
    assert stored.facts == {"host": {"fingerprint": "a machine"}}
    assert sorted(stored.raw) == ["client-0.out", "server-0.err"]
    assert (stored.path / "raw" / "client-0.out").read_bytes() == "naïve\r\nline\n".encode()
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(stored, name), getattr(run, name))


def test_what_was_not_measured_comes_back_as_missing(tmp_path):
    stored = store.write(Run(Spec(), "skipped", ("no such thing here",)), tmp_path)
    assert (stored.measured_at, stored.reasons) == (None, ("no such thing here",))
    assert stored.skew_s != stored.skew_s
    assert json.loads((stored.path / "run.json").read_text())["skew_s"] is None
    assert (len(stored.flows), dict(stored.raw)) == (0, {})


def test_a_stored_run_holds_just_the_files_that_the_design_names(tmp_path):
    store.write(made_up(raw={"client-0.out": "x"}), tmp_path)
    key = Spec(duration_s=2).key
    assert files_below(tmp_path) == [
        f"throughput/{key}/{name}"
        for name in ("cpu.parquet", "flows.parquet", "intervals.parquet", "raw/client-0.out", "run.json")
    ]


def test_a_relative_pairlab_runs_counts_from_the_checkout_wherever_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAIRLAB_RUNS", "runs/elsewhere")
    assert store.directory_of(Spec()) == paths.ROOT / "runs" / "elsewhere" / "throughput" / Spec().key
    monkeypatch.delenv("PAIRLAB_RUNS")
    assert paths.runs() == paths.ROOT / "runs"


def test_the_folder_of_runs_is_the_one_that_pairlab_runs_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLAB_RUNS", str(tmp_path / "elsewhere"))
    assert store.write(made_up()).path.parent.parent == tmp_path / "elsewhere"
    assert len(load_runs()) == 1


def test_a_run_measured_again_replaces_the_old_one_which_is_kept(tmp_path):
    old = store.write(made_up(1e9), tmp_path)
    new = store.write(made_up(2e9), tmp_path)
    assert old.path == new.path
    assert rate_of(store.read(new.path)) == 2e9
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert kept.name.startswith(f"{old.key}-")
    assert rate_of(store.read(kept)) == 1e9
    assert len(load_runs(tmp_path)) == 1


def test_an_executed_notebook_is_kept_beside_its_run(tmp_path):
    run = store.write(made_up(), tmp_path / "runs")
    notebook = tmp_path / "executed.ipynb"
    notebook.write_text("{}")
    store.attach_notebook(run, notebook)
    assert (run.path / "notebook.ipynb").read_text() == "{}"
    assert store.read(run.path).status == "ok"


# --- when writing fails


class Failing:
    """Stands in for a function; its n-th call fails."""

    def __init__(self, real, error, call=1):
        self.real, self.error, self.call, self.calls = real, error, call, 0

    def __get__(self, instance, owner):
        return lambda *arguments, **named: self(instance, *arguments, **named)

    def __call__(self, *arguments, **named):
        self.calls += 1
        if self.calls == self.call:
            raise self.error
        return self.real(*arguments, **named)


FULL = OSError(errno.ENOSPC, "No space left on device")
STEPS = {
    "the draft's directory": (store.tempfile, "mkdtemp", 1),
    "the first table": (pd.DataFrame, "to_parquet", 1),
    "the last table": (pd.DataFrame, "to_parquet", 3),
    "the tools' output": (Path, "write_text", 1),
    "the head": (store.json, "dump", 1),
    "syncing": (os, "fsync", 1),
    "moving the old run": (Path, "rename", 1),
    "naming the new run": (Path, "rename", 2),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_write_that_fails_leaves_the_older_run_as_it_was(tmp_path, monkeypatch, step):
    store.write(made_up(1e9, raw={"client-0.out": "x"}), tmp_path)
    before = files_below(tmp_path)
    owner, name, call = STEPS[step]
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, Failing(getattr(owner, name), FULL, call))
        with pytest.raises(StoreError, match=r"No space left on device\. Make room"):
            store.write(made_up(2e9, raw={"client-0.out": "x"}), tmp_path)
    assert files_below(tmp_path) == before
    assert rate_of(load_runs(tmp_path).runs[0]) == 1e9
    assert rate_of(store.write(made_up(2e9, raw={"client-0.out": "x"}), tmp_path)) == 2e9


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FULL, "No space left on device. Make room"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded. Make room"),
        (OSError(errno.EROFS, "Read-only file system"), "Is the folder yours to write? PAIRLAB_RUNS names another one"),
    ],
    ids=["full", "quota", "read-only"],
)
def test_a_write_that_fails_says_where_why_and_what_to_do(tmp_path, monkeypatch, error, told):
    monkeypatch.setattr(os, "fsync", Failing(os.fsync, error))
    with pytest.raises(StoreError) as caught:
        store.write(made_up(), tmp_path)
    assert told in str(caught.value)
    assert str(tmp_path / "throughput") in str(caught.value)


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_write_leaves_the_older_run_as_it_was(tmp_path, monkeypatch, step):
    store.write(made_up(1e9, raw={"client-0.out": "x"}), tmp_path)
    before = files_below(tmp_path)
    owner, name, call = STEPS[step]
    monkeypatch.setattr(owner, name, Failing(getattr(owner, name), KeyboardInterrupt(), call))
    with pytest.raises(KeyboardInterrupt):
        store.write(made_up(2e9, raw={"client-0.out": "x"}), tmp_path)
    assert files_below(tmp_path) == before


def test_facts_that_json_does_not_know_store_nothing(tmp_path):
    for fact in (float("nan"), object()):
        run = Run(Spec(), "ok", facts={"host": {"load": fact}})
        with pytest.raises((TypeError, ValueError)):
            store.write(run, tmp_path)
    assert files_below(tmp_path) == []


def test_a_notebook_that_cannot_be_kept_leaves_its_run_whole(tmp_path, monkeypatch):
    run = store.write(made_up(), tmp_path)
    before = files_below(tmp_path)
    monkeypatch.setattr(shutil, "copyfile", Failing(shutil.copyfile, FULL))
    with pytest.raises(StoreError, match=r"No space left on device\. Make room"):
        store.attach_notebook(run, tmp_path / "executed.ipynb")
    assert files_below(tmp_path) == before


def test_the_draft_of_a_living_process_is_no_debris_however_old_it_is(tmp_path):
    with store.draft(Spec(), tmp_path) as draft:
        os.utime(draft, (0, 0))
        assert list(store.debris(tmp_path)) == []
        script = (
            "import sys; from pathlib import Path; from pairlab import store; print(*store.debris(Path(sys.argv[1])))"
        )
        other = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
        assert other.stdout == "\n"
    assert files_below(tmp_path) == []
    assert not draft.exists()


def test_where_there_are_no_locks_runs_are_written_and_no_draft_is_debris(tmp_path, monkeypatch):
    (tmp_path / "throughput" / f".{Spec().key}-abandoned").mkdir(parents=True)
    assert len(list(store.debris(tmp_path))) == 1

    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store.fcntl, "flock", flock)
    assert rate_of(store.write(made_up(2e9), tmp_path)) == 2e9
    assert list(store.debris(tmp_path)) == []


def test_a_process_killed_while_it_writes_leaves_a_draft_that_nobody_takes_for_a_run(tmp_path):
    store.write(made_up(1e9), tmp_path)
    script = """
        import os, signal, sys
        from pathlib import Path
        from pairlab import Spec, store
        from pairlab.records import Run
        os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
        store.write(Run(Spec(duration_s=2), "ok"), Path(sys.argv[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=False)
    assert done.returncode == -9
    found = load_runs(tmp_path)
    assert ([rate_of(run) for run in found], found.damaged) == ([1e9], ())
    (draft,) = (path for path in (tmp_path / "throughput").iterdir() if path.name.startswith("."))
    assert list(store.debris(tmp_path)) == [(draft, "a draft that was never finished")]
    store.discard(draft)
    assert list(store.debris(tmp_path)) == []
    store.discard(draft)  # somebody else was faster


# --- on real file systems: a small one inside a mount namespace


def on_a_file_system_of_its_own(script, place):
    """Runs the script where `place` is a tmpfs of 192 KiB that goes with the process; returns what it printed."""
    if missing := sandbox.lack():
        pytest.skip(str(missing))
    place.mkdir()
    prelude = """
        import os, subprocess, sys
        from pathlib import Path
        from pairlab import Spec, store
        from pairlab.collection import load_runs
        from pairlab.errors import StoreError
        from pairlab.records import Run
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
    assert on_a_file_system_of_its_own(script, tmp_path / "small") == "True 2 ['new'] ()\n"


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


# --- damaged runs


def rewrite_head(place, **changes):
    head = json.loads((place / "run.json").read_text())
    (place / "run.json").write_text(json.dumps({**head, **changes}))


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def deepen(place):
    (place / "run.json").write_text("[" * 100_000)


def drop_a_row(place):
    pd.read_parquet(place / "flows.parquet").iloc[:0].to_parquet(place / "flows.parquet")


DAMAGE = {
    "no run.json": lambda place: (place / "run.json").unlink(),
    "empty run.json": lambda place: (place / "run.json").write_text(""),
    "truncated run.json": lambda place: truncate(place / "run.json"),
    "bytes in run.json": lambda place: (place / "run.json").write_bytes(b"\xff\xfe\x00"),
    "a list in run.json": lambda place: (place / "run.json").write_text("[1]"),
    "a deep run.json": deepen,
    "no schema": lambda place: rewrite_head(place, schema=None),
    "unknown status": lambda place: rewrite_head(place, status="fine"),
    "unknown table": lambda place: rewrite_head(place, rows={"things": 1}),
    "no time": lambda place: rewrite_head(place, measured_at="yesterday"),
    "a spec that is none": lambda place: rewrite_head(place, spec={"pairs": 0}),
    "another run's spec": lambda place: rewrite_head(place, spec={"pairs": 77}),
    "no flows": lambda place: (place / "flows.parquet").unlink(),
    "truncated flows": lambda place: truncate(place / "flows.parquet"),
    "garbage for flows": lambda place: (place / "flows.parquet").write_bytes(b"PAR1" + b"\0" * 400 + b"PAR1"),
    "fewer flows": drop_a_row,
    "nothing at all": lambda place: [path.unlink() for path in place.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_still_load(tmp_path, damage):
    spoilt = store.write(made_up(1e9, pairs=1), tmp_path)
    whole = store.write(made_up(2e9, pairs=2), tmp_path)
    DAMAGE[damage](spoilt.path)
    with pytest.raises(DamagedRun, match=f"{spoilt.path} is not a whole run: .*pairlab clean"):
        store.read(spoilt.path)
    found = load_runs(tmp_path)
    assert [run.key for run in found] == [whole.key]
    assert list(found.flows["throughput_bps"]) == [2e9]
    assert len(found.damaged) == 1
    assert str(spoilt.path) in found.damaged[0]
    assert list(store.debris(tmp_path)) == [(spoilt.path, "damaged, kept in .replaced/")]
    assert store.find(spoilt.spec, tmp_path) is None
    assert rate_of(store.write(made_up(3e9, pairs=1), tmp_path)) == 3e9
    assert load_runs(tmp_path).damaged == ()


def test_any_error_of_the_parquet_reader_means_a_damaged_run(tmp_path, monkeypatch):
    run = store.write(made_up(), tmp_path)
    for error in (
        pyarrow.ArrowNotImplementedError("64 bits"),
        pyarrow.ArrowInvalid("magic"),
        MemoryError(),
        OSError("Corrupt snappy compressed data."),
    ):
        monkeypatch.setattr(pyarrow.parquet, "read_metadata", Failing(pyarrow.parquet.read_metadata, error))
        with pytest.raises(DamagedRun):
            store.read(run.path)
        monkeypatch.undo()
        stored = store.read(run.path)
        monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Failing(pyarrow.parquet.ParquetFile, error))
        with pytest.raises(DamagedRun):
            stored.flows  # noqa: B018
        monkeypatch.undo()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("step", [(Path, "read_text"), (pyarrow.parquet, "read_metadata")], ids=["the head", "a table"])
def test_a_run_that_cannot_be_read_just_now_is_not_damaged(tmp_path, monkeypatch, number, step):
    run = store.write(made_up(), tmp_path)
    before = files_below(tmp_path)
    owner, name = step
    for attempt in (
        lambda: store.read(run.path),
        lambda: store.find(run.spec, tmp_path),
        lambda: load_runs(tmp_path),
    ):
        monkeypatch.setattr(owner, name, Failing(getattr(owner, name), OSError(number, os.strerror(number))))
        with pytest.raises(StoreError, match=f"{run.path} could not be read: {os.strerror(number)}") as caught:
            attempt()
        assert not isinstance(caught.value, DamagedRun)
        monkeypatch.undo()
    monkeypatch.setattr(owner, name, Failing(getattr(owner, name), OSError(number, os.strerror(number))))
    assert list(store.debris(tmp_path)) == []
    assert files_below(tmp_path) == before


def spoil_the_pages(path):
    """Damage that neither the length of the file nor its footer tells of."""
    text = bytearray(path.read_bytes())
    text[4:40] = bytes(36)
    path.write_bytes(bytes(text))


def test_damage_within_a_table_is_told_when_the_table_is_read_and_cleaned_up(tmp_path):
    spoilt = store.write(made_up(1e9, pairs=1), tmp_path)
    store.write(made_up(2e9, pairs=2), tmp_path)
    spoil_the_pages(spoilt.path / "flows.parquet")
    told = f"{spoilt.path} is not a whole run: .*pairlab clean"
    found = load_runs(tmp_path)
    for attempt in (
        lambda: found.flows,
        lambda: found.select("flows", ["pair"]),
        lambda: store.read(spoilt.path).flows,
    ):
        with pytest.raises(DamagedRun, match=told):
            attempt()
    assert list(store.debris(tmp_path)) == [(spoilt.path, "damaged, kept in .replaced/")]
    store.discard(spoilt.path)
    assert list(load_runs(tmp_path).flows["throughput_bps"]) == [2e9]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO], ids=errno.errorcode.get)
def test_a_table_that_cannot_be_read_just_now_is_not_damaged(tmp_path, monkeypatch, number):
    run = store.write(made_up(), tmp_path)
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Failing(pyarrow.parquet.ParquetFile, error))
    with pytest.raises(StoreError, match=f"{run.path} could not be read: {os.strerror(number)}") as caught:
        run.flows  # noqa: B018
    assert not isinstance(caught.value, DamagedRun)
    assert rate_of(run) == 1e9  # it was not kept as failed


def test_files_running_out_while_parquet_is_read_is_not_damage(tmp_path):
    store.write(made_up(), tmp_path)
    script = """
        import os, resource, sys
        from pathlib import Path
        import pandas, pyarrow.parquet
        from pairlab import Spec, store
        from pairlab.errors import StoreError
        root = Path(sys.argv[1])
        store.read(next(root.glob("*/*/")))  # all modules are loaded
        used = len(os.listdir("/proc/self/fd")) - 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
        try:
            store.read(root / "throughput" / Spec(duration_s=2).key)
        except StoreError as error:
            print(type(error).__name__, "Too many open files" in str(error))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "StoreError True\n", done.stderr


def test_the_status_of_a_run_is_read_from_its_head(tmp_path):
    run = store.write(made_up(status="invalid", reasons=("started apart",)), tmp_path)
    assert store.status(run.spec, tmp_path) == "invalid"
    assert store.status(Spec(pairs=9), tmp_path) is None
    for damage in ("empty run.json", "a list in run.json", "a deep run.json", "no run.json"):
        DAMAGE[damage](run.path)
        assert store.status(run.spec, tmp_path) is None


def test_a_copied_run_is_not_counted_twice(tmp_path):
    run = store.write(made_up(), tmp_path)
    shutil.copytree(run.path, run.path.with_name("0123456789abcdef"))
    found = load_runs(tmp_path)
    assert len(found) == 1
    assert f"it holds the run {run.key}" in found.damaged[0]


def test_only_damaged_runs_are_no_runs_and_it_is_said_so(tmp_path):
    (store.write(made_up(), tmp_path).path / "run.json").unlink()
    with pytest.raises(NoRuns, match=r"but 1 left out, the first: .* is not a whole run"):
        load_runs(tmp_path)


NEWER = {
    "schema": ({"schema": 2}, "with schema 2, and this one knows up to 1"),
    "spec": ({"spec": {"pairs": 1, "flux_capacity": 3, "a": 1}}, "whose specs have 'a', 'flux_capacity'"),
}


@pytest.mark.parametrize("newer", NEWER)
def test_a_run_of_a_newer_pairlab_is_neither_guessed_at_nor_taken_away(tmp_path, newer):
    changes, told = NEWER[newer]
    run = store.write(made_up(pairs=1), tmp_path)
    other = store.write(made_up(2e9, pairs=2), tmp_path)
    rewrite_head(run.path, **changes)
    told = f"{run.path} was written by a newer pairlab, {told}: update pairlab to read it"
    for attempt in (lambda: store.read(run.path), lambda: store.find(run.spec, tmp_path)):
        with pytest.raises(SchemaMismatch) as caught:
            attempt()
        assert str(caught.value) == told
    found = load_runs(tmp_path)
    assert ([each.key for each in found], found.newer, found.damaged) == ([other.key], (told,), ())
    assert list(store.debris(tmp_path)) == []


def test_a_damaged_run_is_set_aside_and_not_deleted(tmp_path):
    run = store.write(made_up(raw={"client-0.out": "precious"}), tmp_path)
    (run.path / "run.json").unlink()
    store.discard(run.path)
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert kept.name.startswith(f"{run.key}-")
    assert (kept / "raw" / "client-0.out").read_text() == "precious"
    assert list(store.debris(tmp_path)) == []
    store.discard(kept)
    assert files_below(tmp_path) == []


# --- loading many


def test_no_runs_names_the_folder_and_how_to_get_some(tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NoRuns, match=f"no runs in {place}: measure some, for instance with `make run`"):
            load_runs(place)
    store.write(made_up(), tmp_path)
    for strange in ("fct", "/tmp", "*", "../.."):
        with pytest.raises(NoRuns, match="no runs of"):
            load_runs(tmp_path, experiment=strange)


def test_runs_of_one_experiment_are_picked_by_its_whole_name(tmp_path):
    store.write(made_up(), tmp_path)
    store.write(made_up(experiment="through"), tmp_path)
    assert [run.spec.experiment for run in load_runs(tmp_path, experiment="through")] == ["through"]
    assert len(load_runs(tmp_path)) == 2


def test_only_runs_that_are_ok_are_in_the_tables_and_the_others_are_told(tmp_path):
    store.write(made_up(1e9, pairs=1), tmp_path)
    store.write(made_up(2e9, pairs=2, status="invalid", reasons=("started too far apart",)), tmp_path)
    store.write(made_up(pairs=3, status="failed", reasons=("no server", "no client")), tmp_path)
    store.write(made_up(pairs=4, status="skipped", reasons=("no ovs here",)), tmp_path)
    found = load_runs(tmp_path)
    assert list(found.flows["throughput_bps"]) == [1e9]
    assert list(found.flows["pairs"]) == [1]
    left_out = found.left_out.set_index("pairs")
    assert dict(left_out["status"]) == {2: "invalid", 3: "failed", 4: "skipped"}
    assert left_out["reasons"][3] == "no server; no client"
    assert len(found.index) == len(found) == 4


def test_runs_of_which_none_is_ok_make_no_table_and_say_why(tmp_path):
    store.write(made_up(status="failed", reasons=("no server",)), tmp_path)
    with pytest.raises(NoRuns, match="none of the 1 runs is ok: no server"):
        load_runs(tmp_path).flows  # noqa: B018


def test_tables_carry_the_spec_of_each_row(tmp_path):
    store.write(made_up(1e9, driver="ovs", pairs=1), tmp_path)
    store.write(made_up(2e9, driver="bridge", pairs=2), tmp_path)
    flows = load_runs(tmp_path).flows
    asked = {name: f"asked_{name}" if name in TABLES["flows"] else name for name in Spec.model_fields}
    assert list(flows.columns) == ["key", *asked.values(), *TABLES["flows"]]
    assert list(flows["asked_duration_s"]) == [2.0, 2.0]
    assert dict(zip(flows["driver"], flows["throughput_bps"], strict=True)) == {"ovs": 1e9, "bridge": 2e9}


def test_columns_that_came_after_a_run_was_written_are_missing_and_the_others_are_as_they_were(tmp_path):
    old = store.write(made_up(1e9, pairs=1), tmp_path)
    store.write(made_up(2e9, pairs=2), tmp_path)
    file = old.path / "flows.parquet"
    assert "protocol" not in pd.read_parquet(file)  # as if it had come later: what says nothing is not stored
    found = load_runs(tmp_path)
    assert list(found.flows["protocol"]) == ["", ""]
    assert found.flows["fct_s"].isna().all()
    assert sorted(found.flows["throughput_bps"]) == [1e9, 2e9]
    for run in found:
        assert dict(run.flows.dtypes) == dict(table("flows").dtypes)


def test_chosen_columns_are_those_of_the_whole_table_with_texts_and_specs_as_categories(tmp_path):
    for driver, pairs in (("ovs", 1), ("bridge", 2)):
        store.write(made_up(pairs * 1e9, driver=driver, pairs=pairs), tmp_path)
    store.write(made_up(status="invalid", reasons=("apart",), pairs=3), tmp_path)
    found = load_runs(tmp_path)
    file = found.runs[0].path / "flows.parquet"
    pd.read_parquet(file).drop(columns=["role", "fct_s"], errors="ignore").to_parquet(file, index=False)
    wanted = ["key", "throughput_bps", "status", "pairs", "driver", "role", "asked_duration_s", "fct_s", "pair"]
    chosen = found.select("flows", wanted)
    assert list(chosen) == wanted
    plain = {name for name in chosen if chosen[name].dtype != "category"}
    assert plain == {"throughput_bps", "fct_s", "pair"}
    pd.testing.assert_frame_equal(chosen.astype(dict(found.flows[wanted].dtypes)), found.flows[wanted])


def test_long_tables_come_back_as_they_were_written(tmp_path):
    rows = [
        {"pair": pair, "flow": 0, "status": "ok" if pair % 7 else "failed", "error": "" if pair % 7 else f"no {pair}"}
        for pair in range(3000)
    ]
    run = Run(Spec(duration_s=2), "ok", flows=table("flows", rows))
    pd.testing.assert_frame_equal(store.write(run, tmp_path).flows, run.flows)
    chosen = load_runs(tmp_path).select("flows", ["error", "status"])
    assert list(chosen["error"]) == list(run.flows["error"])
    assert list(chosen["status"]) == list(run.flows["status"])


def test_values_of_the_spec_alone_can_be_chosen_too(tmp_path):
    store.write(made_up(driver="ovs", pairs=4), tmp_path)
    chosen = load_runs(tmp_path).select("flows", ["pairs", "driver"])
    assert chosen.to_dict("list") == {"pairs": [4], "driver": ["ovs"]}


def test_a_column_that_there_is_not_is_named_with_those_that_there_are(tmp_path):
    store.write(made_up(), tmp_path)
    with pytest.raises(KeyError, match=r"cpu has no column fct_s, speed; there are: key, .*usr, sys"):
        load_runs(tmp_path).select("cpu", ["usr", "fct_s", "speed"])


def test_runs_in_memory_and_runs_on_disk_are_joined_alike(tmp_path):
    stored, fresh = store.write(made_up(1e9, pairs=1), tmp_path), made_up(2e9, pairs=2)
    found = Runs((stored, fresh))
    assert list(found.flows["throughput_bps"]) == [1e9, 2e9]
    assert list(found.select("flows", ["status", "throughput_bps"])["status"]) == ["ok", "ok"]


def test_a_run_that_is_read_keeps_no_table_open_or_in_memory_until_asked(tmp_path):
    run = store.write(made_up(), tmp_path)
    for name in TABLES:
        (run.path / f"{name}.parquet").rename(run.path / f"{name}.elsewhere")
    assert run.status == "ok"
    for name in TABLES:
        (run.path / f"{name}.elsewhere").rename(run.path / f"{name}.parquet")
    assert rate_of(run) == 1e9
    assert run.flows is run.flows


def test_runs_of_different_hosts_are_not_pooled_unless_meant(tmp_path):
    store.write(made_up(pairs=1, host="a machine"), tmp_path)
    store.write(made_up(pairs=2, host="another"), tmp_path)
    with pytest.raises(MixedHosts, match=r"2 different hosts \(a machine; another\).*pool_hosts=True"):
        load_runs(tmp_path)
    assert set(load_runs(tmp_path, pool_hosts=True).index["host"]) == {"a machine", "another"}


def test_a_skipped_run_of_another_host_pools_nothing(tmp_path):
    store.write(made_up(pairs=1), tmp_path)
    store.write(made_up(pairs=2, host="", status="skipped", reasons=("no ovs",)), tmp_path)
    assert len(load_runs(tmp_path)) == 2


def test_foreign_files_among_the_runs_are_let_be(tmp_path):
    run = store.write(made_up(), tmp_path)
    (tmp_path / "README").write_text("mine")
    (tmp_path / "throughput" / "notes").mkdir()
    (tmp_path / "throughput" / "0123456789abcdef").write_text("a file of that name")
    assert store.directories(tmp_path) == [run.path]
    assert list(store.debris(tmp_path, with_replaced=True)) == []


def test_replaced_runs_are_debris_only_when_asked_for(tmp_path):
    store.write(made_up(1e9), tmp_path)
    store.write(made_up(2e9), tmp_path)
    assert list(store.debris(tmp_path)) == []
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert list(store.debris(tmp_path, with_replaced=True)) == [(kept, "replaced")]


# --- sweeps


def test_a_sweep_remembers_its_cells_and_only_these_are_loaded(tmp_path):
    mine = store.write(made_up(pairs=1), tmp_path)
    store.write(made_up(pairs=2), tmp_path)
    store.remember_sweep("small", [mine.spec, Spec(pairs=9)], tmp_path)
    assert store.keys_of_sweep("small", tmp_path) == {mine.key, Spec(pairs=9).key}
    assert [run.key for run in load_runs(tmp_path, sweep="small")] == [mine.key]
    store.remember_sweep("small", [Spec(pairs=9)], tmp_path)
    assert store.keys_of_sweep("small", tmp_path) == {Spec(pairs=9).key}
    assert files_below(tmp_path / ".sweeps") == ["small/netns.json"]


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
    truncate(tmp_path / ".sweeps" / "small" / "netns.json")
    with pytest.raises(StoreError, match=r"netns\.json is damaged .*start the sweep again"):
        store.keys_of_sweep("small", tmp_path)


def test_a_sweeps_cells_that_cannot_be_noted_are_a_store_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", Failing(Path.write_text, FULL))
    with pytest.raises(StoreError, match="No space left on device"):
        store.remember_sweep("small", [Spec()], tmp_path)
