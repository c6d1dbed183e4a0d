"""The store, of runs that others made: read in bounded time and memory or refused, and shown without control codes."""

import json
import os
import subprocess
from zipfile import ZIP_DEFLATED, ZipFile

import pandas as pd
import pytest

from pairlab import store
from pairlab.base.foreign_files import escape_all, escape_controls, open_untrusted, read_text
from pairlab.errors import DamagedRun, StoreError
from pairlab.store import tables
from pairlab.store.dataset import load_runs
from tests.support.runs import made_up, rewrite_head

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202ereversed\r\ud800"
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\u202ereversed\\r\\ud800"


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
    assert escape_controls(str(raised.value)) == str(raised.value)


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
    with open_untrusted(path, 100) as file:
        path.unlink()
        subprocess.run(["mkfifo", str(path)], check=True)
        assert file.read(100) == b"first"


def test_a_file_of_the_largest_size_is_read_and_of_one_byte_more_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_text("12345")
    assert read_text(path, 5) == "12345"
    with pytest.raises(ValueError, match="file has 5 B, and at most 4 B are read"):
        read_text(path, 4)


def test_values_of_json_are_made_visible_and_others_are_left_alone():
    told = {"a": [1, 2.5, None, True, "\x9b2J"], "tab\tand\nline": "é – µ"}
    assert escape_all(told) == {"a": [1, 2.5, None, True, "\\x9b2J"], "tab\tand\nline": "é – µ"}
    assert json.loads(json.dumps(told["tab\tand\nline"])) == "é – µ"
