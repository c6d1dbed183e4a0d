"""Packs: one file of many runs, read as their directories are; never made half, never read as what it is not."""

import contextlib
import errno
import json
import math
import re
import shutil
import zipfile

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as some

from pairlab import store
from pairlab.cli import main
from pairlab.errors import BadInput, DamagedRun, NoRuns, PairlabError, StoreError
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES, table
from pairlab.store import catalogue, index, packed_columns, packing, packs
from pairlab.store.dataset import load_runs
from pairlab.store.follower import Follower
from pairlab.store.paths import untagged_stem
from tests.support.edited import edited, places
from tests.support.runs import WHEN, Failing, files_below, made_up, rate_of, rewrite_head
from tests.unit.store.test_mutated_heads import COMMANDS, ODD


def a_store(root):
    """Two runs that are ok, one that was measured again, one that failed; printed texts, and a notebook."""
    first = store.write(made_up(1e9, raw={"client-0.out": "µ\r\n\x1b[0m", "server-0.out": "\n"}), root)
    store.write(made_up(2e9, pairs=2), root)
    store.write(made_up(3e9, pairs=2, at=WHEN.replace(year=2025)), root)
    store.write(made_up(pairs=3, status="failed", reasons=("why",)), root)
    (first.path / "notebook.ipynb").write_text("{}")
    return root


def told(root):
    """What is seen of a store, but where it lies."""
    runs = load_runs(root, environment="all")
    tables = {name: getattr(runs, name).to_csv() for name in ("flows", "intervals", "cpu")}
    raw = {run.key: dict(run.raw) for run in runs}
    rows = [{**row, "path": ""} for row in index.rows(root)[0]]
    return runs.digest, runs.index.to_csv(), str(runs).replace(str(root), ""), tables, raw, rows, runs.unread


def test_a_pack_says_what_the_directories_of_its_runs_said(tmp_path):
    root = a_store(tmp_path / "runs")
    before, keys = told(root), {run.key for run in load_runs(root)}
    made = store.pack("throughput", root, remove=True)
    assert (made.runs, made.removed, made.troubles) == (4, 4, ())
    assert files_below(root) == [made.path.name]
    assert told(root) == before
    assert {run.key for run in load_runs(root)} == keys
    assert [run.path for run in load_runs(root)] == [made.path / key for key in sorted(keys)]


def test_its_runs_are_found_counted_and_followed_by_their_specs(tmp_path):
    root = a_store(tmp_path)
    store.pack("throughput", root, remove=True)
    spec = Spec(duration_s=2.0, pairs=2)
    assert rate_of(store.find(spec, root)) == 3e9
    assert store.latest(spec, root).measured_at.year == 2025
    assert store.status(Spec(duration_s=2.0, pairs=3), root) == "failed"
    follower = Follower([spec], root)
    assert follower.look() == {spec.key}
    assert rate_of(follower.runs[spec.key]) == 3e9
    assert follower.look() == set()
    store.write(made_up(4e9, pairs=2, at=WHEN.replace(year=2026)), root)
    assert catalogue.free_directory(spec, root).name.startswith(f"{spec.key}.4-")
    assert follower.look() == {spec.key}
    assert rate_of(follower.runs[spec.key]) == rate_of(store.find(spec, root)) == 4e9


def test_a_run_of_a_pack_is_sent_to_another_store_as_any_other(tmp_path):
    root = a_store(tmp_path / "one")
    store.pack("throughput", root, remove=True)
    run = store.find(Spec(duration_s=2.0), root)
    received = store.import_run(store.export_run(run), run.spec, tmp_path / "other")
    assert (received.measured_at, rate_of(received), dict(received.raw)) == (run.measured_at, 1e9, dict(run.raw))


def test_a_run_in_a_directory_and_in_packs_counts_once(tmp_path):
    root = a_store(tmp_path)
    before = told(root)
    made = store.pack("throughput", root)
    shutil.copyfile(made.path, root / "copy.pack")
    assert told(root) == before
    assert {run.path.parent.name for run in load_runs(root)} == {"throughput"}


def test_another_run_of_the_same_spec_in_a_pack_counts_as_one_that_was_stored_last(tmp_path):
    root = tmp_path / "mine"
    store.write(made_up(1e9, host="mine"), root)
    store.write(made_up(2e9, host="its", at=WHEN.replace(year=2025)), tmp_path / "its")
    store.pack("throughput", tmp_path / "its", root)
    key = Spec(duration_s=2.0).key
    found = load_runs(root, environment="all")
    assert {run.key: rate_of(run) for run in found} == {key: 1e9, f"{key}.2": 2e9}
    assert rate_of(found[f"{key}.2"]) == 2e9
    assert sorted(found.flows["key"]) == [key, f"{key}.2"]
    assert [row["key"] for row in index.rows(root)[0]] == [f"{key}.2", key]
    made = store.pack("throughput", root, replace=True, remove=True)
    assert (made.runs, made.removed) == (2, 1)
    assert {run.key: rate_of(run) for run in load_runs(root, environment="all")} == {key: 1e9, f"{key}.2": 2e9}


def test_a_run_that_failed_in_a_pack_stays_there_when_it_is_measured_again(tmp_path):
    root = a_store(tmp_path)
    made = store.pack("throughput", root, remove=True)
    content = made.path.read_bytes()
    run = store.write(made_up(5e9, pairs=3), root)
    assert run.path.name.startswith(f"{run.spec.key}.2-")
    assert store.status(run.spec, root) == "ok"
    assert made.path.read_bytes() == content


def test_runs_of_older_schemas_are_brought_forward_each_time_they_are_read(tmp_path):
    run = store.write(made_up(3e9), tmp_path)
    head = {key: value for key, value in json.loads((run.path / "run.json").read_text()).items() if key != "checks"}
    (run.path / "run.json").write_text(json.dumps({**head, "schema": 1}))
    made = store.pack("throughput", tmp_path, remove=True)
    (read,) = load_runs(tmp_path)
    assert (read.status, dict(read.checks), rate_of(read)) == ("ok", {}, 3e9)
    assert json.loads(packs.load(made.path).metadata(run.key)) == {**head, "schema": 1}


def test_a_newer_run_or_one_with_columns_unknown_here_is_not_packed_and_not_removed(tmp_path):
    newer = store.write(made_up(1e9), tmp_path)
    rewrite_head(newer.path, schema=99)
    wider = store.write(made_up(2e9, pairs=2), tmp_path)
    flows = pd.read_parquet(wider.path / "flows.parquet")
    flows.assign(new_s=1.0).to_parquet(wider.path / "flows.parquet")
    store.write(made_up(3e9, pairs=3), tmp_path)
    made = store.pack("throughput", tmp_path, remove=True)
    assert (made.runs, made.removed) == (1, 1)
    told = "\n".join(made.troubles)
    assert "schema 99" in told
    assert "whose flows have new_s" in told
    assert set(store.directories(tmp_path)) == {newer.path, wider.path}


@pytest.mark.parametrize("left", ["raw", "notebooks"])
def test_what_is_left_out_is_named_in_the_pack(tmp_path, left):
    root = a_store(tmp_path)
    key = store.find(Spec(duration_s=2.0), root).key
    made = store.pack("throughput", root, leave_out=[left], remove=True)
    assert list(made.left_out) == packs.load(made.path).contents.left_out == [left]
    files = {name for name in ("client-0.out", "server-0.out") if name in load_runs(root)[key].raw}
    assert files == (set() if left == "raw" else {"client-0.out", "server-0.out"})
    again = store.pack("throughput", root, replace=True)
    assert again.left_out == (left,)


def test_an_executed_notebook_is_in_the_pack(tmp_path):
    root = a_store(tmp_path)
    key = Spec(duration_s=2.0).key
    made = store.pack("throughput", root)
    assert packed_columns.files(made.path / key, "notebook") == {".ipynb": b"{}"}


def test_the_same_runs_make_the_same_bytes(tmp_path):
    root = a_store(tmp_path / "runs")
    one, other = (store.pack("throughput", root, tmp_path / name).path.read_bytes() for name in ("one", "other"))
    assert one == other


def test_a_pack_is_read_by_other_programs_too(tmp_path):
    made = store.pack("throughput", a_store(tmp_path))
    with zipfile.ZipFile(made.path) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "out")
    found = duckdb.sql(f"SELECT key, throughput_bps FROM '{tmp_path}/out/flows.parquet' ORDER BY 2").fetchall()
    assert [rate for _, rate in found] == [1_000_000_000, 2_000_000_000, 3_000_000_000]


def test_there_is_a_pack_already(tmp_path):
    root = a_store(tmp_path)
    made = store.pack("throughput", root)
    before = made.path.read_bytes()
    with pytest.raises(BadInput, match="--replace"):
        store.pack("throughput", root)
    assert store.pack("throughput", root, replace=True).path.read_bytes() == before
    made.path.write_bytes(before[:-100])
    with pytest.raises(StoreError):
        store.pack("throughput", root, replace=True)
    assert made.path.read_bytes() == before[:-100]


def test_a_pack_made_anew_is_in_place_of_all_that_pairlab_named_and_of_no_other(tmp_path):
    root = a_store(tmp_path)
    made = store.pack("throughput", root, remove=True)
    for name in ("throughput.pack", "throughput-0123abcd.pack", "mine.pack", "throughput-2026.pack"):
        shutil.copyfile(made.path, root / name)
    store.write(made_up(9e9, pairs=9), root)
    anew = store.pack("throughput", root, replace=True, remove=True)
    assert anew.runs == 5
    assert files_below(root) == sorted(["mine.pack", "throughput-2026.pack", anew.path.name])
    assert len(load_runs(root, environment="all")) == 5


def test_a_pack_is_not_replaced_by_one_without_its_runs(tmp_path):
    store.write(made_up(1e9), tmp_path / "older")
    made = store.pack("throughput", tmp_path / "older", tmp_path / "out")
    before = made.path.read_bytes()
    store.write(made_up(2e9, pairs=2), tmp_path / "newer")
    with pytest.raises(StoreError, match="1 of its runs"):
        store.pack("throughput", tmp_path / "newer", tmp_path / "out", replace=True)
    assert made.path.read_bytes() == before
    shutil.copyfile(made.path, tmp_path / "newer" / "throughput.pack")
    assert store.pack("throughput", tmp_path / "newer", tmp_path / "out", replace=True).runs == 2


def test_a_run_that_replaced_the_packed_one_meanwhile_is_not_removed(tmp_path, monkeypatch):
    store.write(made_up(status="failed"), tmp_path)
    real = packing._require_same

    def and_measured_again(*arguments):
        real(*arguments)
        store.write(made_up(2e9), tmp_path)

    monkeypatch.setattr(packing, "_require_same", and_measured_again)
    made = store.pack("throughput", tmp_path, remove=True)
    assert made.removed == 0
    assert "replaced it meanwhile" in made.troubles[0]
    assert rate_of(store.find(Spec(duration_s=2.0), tmp_path)) == 2e9


def test_other_files_in_a_runs_directory_stay_with_it(tmp_path):
    run = store.write(made_up(1e9), tmp_path)
    (run.path / "notes.txt").write_text("mine")
    made = store.pack("throughput", tmp_path, remove=True)
    assert made.removed == 0
    assert "notes.txt" in made.troubles[0]
    assert rate_of(store.read(run.path)) == 1e9


def test_there_is_nothing_to_pack(tmp_path):
    with pytest.raises(NoRuns, match="'throughput'"):
        store.pack("throughput", tmp_path)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("call", [1, 2])
def test_a_full_disk_leaves_the_runs_and_no_part_of_a_pack(tmp_path, monkeypatch, call):
    root = a_store(tmp_path)
    before = files_below(root)
    monkeypatch.setattr(packing.shutil, "copyfileobj", Failing(shutil.copyfileobj, OSError(errno.ENOSPC, "full"), call))
    with pytest.raises(StoreError, match="full"):
        store.pack("throughput", root, remove=True)
    assert files_below(root) == before


def test_a_pack_that_reads_back_otherwise_gets_no_name(tmp_path, monkeypatch):
    root = a_store(tmp_path)
    before = files_below(root)
    real = packing.encoded

    def wrong(rows, name):
        found = real(rows, name)
        rates = {"throughput_bps": found["throughput_bps"].take([0] * len(found))} if name == "flows" else {}
        return pa.table(dict(zip(found.column_names, found.columns, strict=True)) | rates)

    monkeypatch.setattr(packing, "encoded", wrong)
    with pytest.raises(StoreError, match=r"not the same .*\(flows\)"):
        store.pack("throughput", root, remove=True)
    assert files_below(root) == before


def test_what_a_killed_packer_left_is_found(tmp_path, monkeypatch):
    root = a_store(tmp_path)
    monkeypatch.setattr(packing, "_require_same", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    kept = []
    monkeypatch.setattr("pathlib.Path.unlink", lambda path, missing_ok=False: kept.append(path))
    with pytest.raises(KeyboardInterrupt):
        store.pack("throughput", root)
    monkeypatch.undo()
    assert list(store.leftovers(root)) == [(kept[0], "a draft that was never finished")]
    assert load_runs(root).unread == ()
    store.clean_up(kept[0])
    assert list(store.leftovers(root)) == []


#: Numbers of every kind of form: whole, whole in ns or µs, off by the last bit, and none of these.
NUMBERS = some.one_of(
    some.just(math.nan),
    some.integers(0, 10**12).map(lambda ns: ns / 1e9),
    some.integers(0, 10**9).map(lambda us: us * 1e-6),
    some.integers(-(2**60), 2**60).map(float),
    some.floats(),
    some.sampled_from([-0.0, 0.0, 5e-324, math.inf, -math.inf, 2.0**53, 1e-9, 0.1 + 0.2]),
)
TEXTS = some.text(some.characters(exclude_categories=["Cs"]), max_size=5) | some.sampled_from(["", "up", "\x1b", "µ"])


@some.composite
def odd_rows(draw):
    """Flows of which some columns follow from others, or nearly."""
    times = draw(some.lists(some.tuples(*[NUMBERS] * 6), min_size=1, max_size=6))
    nearly = draw(some.sampled_from([None, 0, 1]))
    rows = []
    for number, (due, start, first, end, size, own) in enumerate(times):
        with np.errstate(all="ignore"):
            fct = np.float64(end) - np.float64(start)
            rate = np.float64(size) * 8 / fct
        if number == nearly:
            fct, rate = np.nextafter(fct, 1), math.nan
        row = {"intended_start_s": due, "start_s": start, "first_byte_s": first, "completed_s": end, "fct_s": fct}
        row |= {"duration_s": fct, "size_bytes": size}
        row |= {"flow_bytes": size, "throughput_bps": rate, "rtt_s": own, "cwnd_bytes": draw(NUMBERS)}
        texts = {name: draw(TEXTS) for name in ("error", "direction", "client_host")}
        rows.append({"pair": 0, "flow": number, "status": "ok"} | row | texts)
    return rows


@pytest.mark.whole
@settings(max_examples=60, deadline=None)
@given(several=some.lists(odd_rows(), min_size=1, max_size=3))
def test_odd_values_come_back_to_the_last_bit(several, tmp_path_factory):
    root = tmp_path_factory.mktemp("odd")
    for number, rows in enumerate(several):
        store.write(Run(Spec(repetition=number), "ok", measured_at=WHEN, flows=table("flows", rows)), root)
    before = [store.read(place).flows for place in store.directories(root)]
    store.pack("throughput", root, remove=True)
    after = [run.flows for run in load_runs(root)]
    for one, other in zip(before, after, strict=True):
        assert one.dtypes.equals(other.dtypes)
        for column, kind in TABLES["flows"].items():
            if kind.dtype == "float64":
                bits = (np.where(np.isnan(each[column]), 0, each[column]).view(np.int64) for each in (one, other))
                assert one[column].isna().equals(other[column].isna())
                assert np.array_equal(*bits), column
            else:
                assert one[column].tolist() == other[column].tolist(), column
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A pack, and what its runs say by their keys."""
    root = a_store(tmp_path_factory.mktemp("packed"))
    made = store.pack("throughput", root, remove=True)
    return made.path.read_bytes(), {run.key: said_by(run) for run in load_runs(root)}


def said_by(run):
    frames = [getattr(run, name) for name in ("flows", "intervals", "cpu")]
    return run.status, run.measured_at, dict(run.raw), *(frame.to_csv() for frame in frames)


@settings(max_examples=150, deadline=None)
@given(data=some.data())
def test_a_changed_byte_is_noticed_or_changes_nothing(data, packed, tmp_path_factory):
    content, known = packed
    root = tmp_path_factory.mktemp("changed")
    at = data.draw(some.integers(0, len(content) - 1), label="at")
    to = data.draw(some.integers(0, 255), label="to")
    how = data.draw(some.sampled_from(["changed", "cut", "without", "twice"]), label="how")
    made = {
        "changed": content[:at] + bytes([to]) + content[at + 1 :],
        "cut": content[:at],
        "without": content[:at] + content[at + 1 + to :],
        "twice": content[:at] + content[max(0, at - to) :],
    }
    (root / "x.pack").write_bytes(made[how])
    with contextlib.suppress(NoRuns):
        for run in load_runs(root):
            with contextlib.suppress(DamagedRun, ValueError):  # ValueError: of what tools printed
                assert said_by(run) == known[run.key]
    shutil.rmtree(root)


def rewritten(content, place, **members):
    """The same archive with other members."""
    place.write_bytes(content)
    with zipfile.ZipFile(place) as archive:
        old = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(place, "w") as archive:
        for name, each in (old | {f"{name}.{end}": value for name, (end, value) in members.items()}).items():
            if each is not None:
                archive.writestr(name, each)
    return old


def lines_of(members):
    """The metadata among the members of an archive."""
    return pa.CompressedInputStream(pa.BufferReader(members["metadata.jsonl.zst"]), "zstd").read()


@pytest.mark.whole
@settings(max_examples=20, deadline=None)
@given(data=some.data())
def test_an_edited_pack_stops_no_command(data, packed, tmp_path_factory):
    content, _ = packed
    root = tmp_path_factory.mktemp("edited")
    whole = store.write(made_up(7e9, pairs=7), root)
    old = rewritten(content, root / "x.pack")
    noted = json.loads(old["pack.json"])
    path = data.draw(some.sampled_from([*places(noted)]), label="where")
    value = data.draw(some.sampled_from((*ODD, "../../x", "/etc", 2**40, 2**63)), label="value")
    rewritten(content, root / "x.pack", pack=("json", json.dumps(edited(noted, path, value))))
    for words in (*COMMANDS, ["pack", "throughput"]):
        done = CliRunner().invoke(main, [*words, "--runs", str(root)])
        assert done.exception is None or isinstance(done.exception, SystemExit | PairlabError), (words, path, value)
        assert "Traceback" not in done.output
    assert rate_of(store.read(whole.path)) == 7e9
    assert {untagged_stem(path) for path in root.iterdir()} <= {"throughput", "x"}
    shutil.rmtree(root)


def compressed(metadata):
    """As a member of an archive has them."""
    return pa.Codec("zstd").compress(metadata, asbytes=True)


DAMAGE = {
    "no contents": {"pack": ("json", None)},
    "a list for contents": {"pack": ("json", "[1]")},
    "deep contents": {"pack": ("json", "[" * 100_000)},
    "no metadata": {"metadata.jsonl": ("zst", None)},
    "garbage for metadata": {"metadata.jsonl": ("zst", b"(\xb5/\xfd" + b"\xff" * 40)},
    "metadata that end early": {"metadata.jsonl": ("zst", compressed(b"{}\n" * 400)[:-6])},
    "metadata of one run": {"metadata.jsonl": ("zst", compressed(b"{}"))},
    "metadata that are none": {"metadata.jsonl": ("zst", compressed(b"[]\n" * 4))},
    "bytes in metadata": {"metadata.jsonl": ("zst", compressed(b"\xff\xfe\n" * 4))},
    "no flows": {"flows": ("parquet", None)},
    "garbage for flows": {"flows": ("parquet", b"PAR1" + b"\0" * 400 + b"PAR1")},
    "empty flows": {"flows": ("parquet", b"")},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_pack_is_named_and_other_runs_still_load(packed, tmp_path, damage):
    whole = store.write(made_up(7e9, pairs=7), tmp_path)
    rewritten(packed[0], tmp_path / "x.pack", **DAMAGE[damage])
    found = load_runs(tmp_path)
    assert [rate_of(run) for run in found] == [7e9]
    assert found.damaged
    assert all("x.pack" in why and "get that pack anew" in why for why in found.damaged)
    assert store.find(whole.spec, tmp_path).path == whole.path
    assert list(store.leftovers(tmp_path)) == []


def test_rows_of_another_run_are_damage(packed, tmp_path):
    """The keys in a table are held against the contents."""
    old = rewritten(packed[0], tmp_path / "x.pack")
    noted = json.loads(old["pack.json"])
    heads = lines_of(old).splitlines()
    for each in (noted["runs"], heads):  # two of one row each
        each[1], each[2] = each[2], each[1]
    members = {"pack": ("json", json.dumps(noted)), "metadata.jsonl": ("zst", compressed(b"\n".join(heads)))}
    rewritten(packed[0], tmp_path / "x.pack", **members)
    found = load_runs(tmp_path, environment="all")
    with pytest.raises(DamagedRun, match="rows of other runs"):
        _ = found.flows


def test_a_newer_pack_says_so(packed, tmp_path):
    old = rewritten(packed[0], tmp_path / "x.pack")
    noted = json.loads(old["pack.json"])
    rewritten(packed[0], tmp_path / "x.pack", pack=("json", json.dumps(noted | {"format": packs.FORMAT + 1})))
    store.write(made_up(7e9, pairs=7), tmp_path)
    found = load_runs(tmp_path)
    assert len(found) == 1
    assert "newer pairlab" in found.newer[0]


def test_a_pack_that_is_no_regular_file_is_not_opened(packed, tmp_path):
    store.write(made_up(7e9, pairs=7), tmp_path / "runs")
    (tmp_path / "elsewhere").write_bytes(packed[0])
    (tmp_path / "runs" / "link.pack").symlink_to(tmp_path / "elsewhere")
    found = load_runs(tmp_path / "runs")
    assert len(found) == 1
    assert "link.pack" in found.damaged[0]


def test_contents_that_unpack_to_too_much_are_not_read(packed, tmp_path):
    store.write(made_up(7e9, pairs=7), tmp_path)
    place = tmp_path / "x.pack"
    rewritten(packed[0], place)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pack.json", b" " * (packs.MOST_CONTENTS_BYTES + 1))
    assert "larger than" in load_runs(tmp_path).damaged[0]


def test_the_command_packs_each_experiment(tmp_path):
    root = a_store(tmp_path)
    store.write(made_up(1e9, experiment="udp"), root)
    done = CliRunner().invoke(main, ["pack", "--runs", str(root), "--remove"])
    assert done.exit_code == 0, done.output
    assert [untagged_stem(root / name) for name in files_below(root)] == ["throughput", "udp"]
    assert re.match(rf"{root}/udp-\w{{8}}\.pack: 1 run, ", done.output.splitlines()[1])
    again = CliRunner().invoke(main, ["pack", "udp", "--runs", str(root)])
    assert (again.exit_code, "--replace" in again.output) == (2, True)
