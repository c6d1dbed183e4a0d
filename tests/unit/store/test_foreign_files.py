"""The store, of runs that others made: read in bounded time and memory or refused, and shown without control codes."""

import json
import os
import subprocess
from zipfile import ZIP_DEFLATED, ZipFile

import pandas as pd
import pytest

from pairlab import store
from pairlab.base.foreign_files import all_visible, opened, read_text, visible
from pairlab.errors import DamagedRun, StoreError
from pairlab.store import heads, tables
from pairlab.store.dataset import load_runs
from tests.support.runs import made_up, rewrite_head

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202ereversed\r\ud800"
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\u202ereversed\\r\\ud800"


def replaced_by(name, make):
    def spoil(place):
        (place / name).unlink()
        make(place / name)

    return spoil


def grow(path):
    """A sparse file: of no blocks, and too large to be read."""
    os.truncate(path, 2**40)


SPOILT = {
    "run.json is a device": replaced_by("run.json", lambda path: path.symlink_to("/dev/zero")),
    "run.json is a FIFO": replaced_by("run.json", os.mkfifo),
    "run.json is a link": replaced_by("run.json", lambda path: path.symlink_to("/etc/passwd")),
    "run.json is a folder": replaced_by("run.json", os.mkdir),
    "run.json has no end": lambda place: grow(place / "run.json"),
    "flows are a device": replaced_by("flows.parquet", lambda path: path.symlink_to("/dev/zero")),
    "flows are a FIFO": replaced_by("flows.parquet", os.mkfifo),
    "flows have no end": lambda place: grow(place / "flows.parquet"),
    "a time that is a text": lambda place: rewrite_head(place, times_s={"up_s": "\x1b[2J"}),
    "a skew that is a list": lambda place: rewrite_head(place, skew_s=[1]),
    "a check that is a table": lambda place: rewrite_head(place, checks={"skew_s": {}}),
    "reasons that are a number": lambda place: rewrite_head(place, reasons=7),
    "facts of no host": lambda place: rewrite_head(place, facts={"host": {"kernel": "6.1"}}),
    "a kernel that is a list": lambda place: rewrite_head(
        place, facts={"host": {"kernel": ["6.1"], "cpu_model": "", "cpus": 2}}
    ),
    "facts that are a text": lambda place: rewrite_head(place, facts="none"),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_what_is_no_file_of_a_run_is_refused_at_once_and_the_others_still_load(tmp_path, spoilt):
    bad, whole = (store.write(made_up(1e9, pairs=pairs), tmp_path) for pairs in (1, 2))
    SPOILT[spoilt](bad.path)
    with pytest.raises(DamagedRun, match="is not a whole run"):
        store.read(bad.path)
    found = load_runs(tmp_path)
    assert [run.key for run in found] == [whole.key]
    assert len(found.damaged) == 1


def test_a_small_file_of_more_rows_than_a_run_can_have_is_refused(tmp_path, monkeypatch):
    run = store.write(made_up(1e9), tmp_path)
    pd.DataFrame({"pair": [0] * 100_000}).to_parquet(run.path / "flows.parquet")
    rewrite_head(run.path, rows={"flows": 100_000})
    monkeypatch.setattr(tables, "MOST_ROWS", 99_999)
    assert (run.path / "flows.parquet").stat().st_size < 10_000
    with pytest.raises(DamagedRun, match=r"flows\.parquet has 100,000 rows"):
        store.read(run.path)


def test_texts_of_a_run_are_shown_without_control_codes(tmp_path):
    run = store.write(made_up(1e9), tmp_path)
    facts = {"host": {"kernel": ESCAPES, "cpu_model": "", "cpus": 2, ESCAPES: [ESCAPES]}}
    rewrite_head(run.path, reasons=[ESCAPES, "two\nlines"], facts=facts)
    flows = pd.read_parquet(run.path / "flows.parquet").assign(error=ESCAPES.removesuffix("\ud800"))
    flows.to_parquet(run.path / "flows.parquet")
    read = store.read(run.path)
    assert read.reasons == (SHOWN, "two\nlines")
    assert read.facts["host"] == {"kernel": SHOWN, "cpu_model": "", "cpus": 2, SHOWN: [SHOWN]}
    assert list(read.flows["error"]) == [SHOWN.removesuffix("\\ud800")]
    assert list(load_runs(tmp_path).select("flows", ["error"])["error"]) == [SHOWN.removesuffix("\\ud800")]


def test_texts_that_become_one_when_they_are_shown_are_one(tmp_path):
    run = store.write(made_up(1e9), tmp_path)
    flows = pd.read_parquet(run.path / "flows.parquet")
    pd.concat([flows.assign(error="\x07"), flows.assign(error="\\x07")]).to_parquet(run.path / "flows.parquet")
    rewrite_head(run.path, rows={"flows": 2})
    assert list(load_runs(tmp_path).select("flows", ["error"])["error"]) == ["\\x07", "\\x07"]


def test_a_message_of_a_damaged_run_has_none_either(tmp_path):
    run = store.write(made_up(1e9), tmp_path)
    rewrite_head(run.path, status=ESCAPES)
    with pytest.raises(DamagedRun) as raised:
        store.read(run.path)
    assert visible(str(raised.value)) == str(raised.value)


def test_what_tools_printed_is_read_from_a_file_of_a_bounded_size_only(tmp_path, monkeypatch):
    run = store.write(made_up(1e9, raw={"client-0.out": "twelve bytes"}), tmp_path)
    assert run.raw["client-0.out"] == "twelve bytes"
    (run.path / "raw").mkdir()
    (run.path / "raw" / "endless.out").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic"):
        store.read(run.path).raw["endless.out"]
    monkeypatch.setattr("pairlab.store.runs.MOST_RAW_BYTES", 500)
    with ZipFile(run.path / "raw.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("client-0.out", "0" * 501)
    with pytest.raises(ValueError, match="is larger than 500 B"):
        store.read(run.path).raw["client-0.out"]
    (run.path / "raw.zip").write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match=r"raw\.zip is damaged"):
        store.read(run.path).raw["client-0.out"]
    (run.path / "raw.zip").unlink()
    (run.path / "raw.zip").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic"):
        store.read(run.path).raw["client-0.out"]


def test_a_sweeps_note_that_is_no_file_is_refused(tmp_path):
    spec = made_up().spec
    store.remember_sweep("small", [spec], tmp_path)
    (note,) = tmp_path.glob(".sweeps/small/*.json")
    note.unlink()
    os.mkfifo(note)
    with pytest.raises(StoreError, match="is damaged"):
        store.keys_of_sweep("small", tmp_path)


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("first")
    with opened(path, 100) as descriptor:
        path.unlink()
        subprocess.run(["mkfifo", str(path)], check=True)
        assert os.read(descriptor, 100) == b"first"


def test_a_file_of_the_largest_size_is_read_and_of_one_byte_more_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_text("12345")
    assert read_text(path, 5) == "12345"
    with pytest.raises(ValueError, match="file has 5 B, and at most 4 B are read"):
        read_text(path, 4)


def test_values_of_json_are_made_visible_and_others_are_left_alone():
    told = {"a": [1, 2.5, None, True, "\x9b2J"], "tab\tand\nline": "é – µ"}
    assert all_visible(told) == {"a": [1, 2.5, None, True, "\\x9b2J"], "tab\tand\nline": "é – µ"}
    assert json.loads(json.dumps(told["tab\tand\nline"])) == "é – µ"


def test_a_head_of_a_real_run_is_far_smaller_than_what_is_read(tmp_path):
    run = store.write(made_up(1e9), tmp_path)
    assert (run.path / heads.NAME).stat().st_size < heads.MOST_BYTES / 1000
