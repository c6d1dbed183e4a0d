import runpy
from dataclasses import replace

import pytest

from pairlab import load_runs, paths, store
from pairlab.model.reasons import naming
from tests.support.runs import files_below, made_up


@pytest.fixture(scope="module")
def trim():
    return runpy.run_path(str(paths.ROOT / "lib" / "trim.py"))["trim"]


def test_each_cell_keeps_the_output_of_its_first_repetition_that_counts_and_all_tables(trim, tmp_path):
    for pairs in (1, 2):
        for repetition in range(3):
            status = "invalid" if (pairs, repetition) == (2, 0) else "ok"
            made = made_up(status=status, pairs=pairs, repetition=repetition, raw={"client-0.out": "x"})
            made = replace(made, reasons=(naming("too busy", [("editor", 7, 0.2)]),)) if status == "invalid" else made
            (store.write(made, tmp_path).path / "notebook.ipynb").write_text("{}")
    (tmp_path / ".calibration").mkdir()
    (tmp_path / ".calibration" / "floor.json").write_text("{}")
    (tmp_path / ".sweeps" / "mine").mkdir(parents=True)
    (tmp_path / "throughput" / ".replaced" / "old").mkdir(parents=True)
    (tmp_path / "throughput" / ".0123456789abcdef-x.pairlab-draft").mkdir()
    (tmp_path / "throughput" / ".0123456789abcdef-x.pairlab-draft" / "notebook.ipynb").write_text("{}")
    before = {run.key: run.flows for run in load_runs(tmp_path)}
    trim(tmp_path)
    found = load_runs(tmp_path)
    with_output = {(run.spec.pairs, run.spec.repetition) for run in found if run.raw}
    assert with_output == {(1, 0), (2, 1)}
    assert [run.reasons for run in found if run.status == "invalid"] == [("too busy",)]
    assert {run.key: len(run.flows) for run in found} == {key: len(flows) for key, flows in before.items()}
    tables = {f"{table}.parquet" for table in ("flows", "intervals", "cpu")}
    assert {name.split("/")[-1] for name in files_below(tmp_path)} == {"floor.json", "run.json", "raw.zip"} | tables
