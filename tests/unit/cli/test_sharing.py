"""Labels, and what makes runs somebody else's: import, rm, show, export."""

import hashlib
import json

import pandas as pd
import pytest

from pairlab import paths, store
from pairlab.base.caller import caller
from pairlab.errors import NoRuns
from pairlab.measurement import measure as measuring
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from tests.unit.cli.helpers import WHEN, made_up


def labelled(label, rate_bps, **spec):
    return made_up(rate_bps=rate_bps, facts={"label": label} if label else {}, duration_s=1.0, **spec)


def test_a_label_is_no_part_of_the_spec_and_sets_runs_apart(pairlab, runs_dir):
    before, after, plain = (labelled(label, rate) for label, rate in (("before", 1e9), ("after", 2e9), ("", 3e9)))
    assert len({before.spec.key, after.spec.key, plain.spec.key}) == 1
    for label, rate_bps in (("before", 1e9), ("after", 2e9), ("", 3e9)):
        found = store.find(before.spec, environment=Environment(label=label))
        assert found.flows["throughput_bps"][0] == rate_bps
    assert set(load_runs(environment="all").index["label"]) == {"before", "after", ""}
    _, out, _ = pairlab("ls", "--by", "label")
    assert "label after: 1 run" in out


def test_runs_of_one_label_are_loaded_reported_and_judged_by_name_at_label(pairlab, runs_dir):
    for label, rate_bps in (("before", 1e9), ("after", 2e9), ("", 3e9)):
        labelled(label, rate_bps)
    for label, rate_bps in (("before", 1e9), ("after", 2e9), ("", 3e9)):
        (run,) = load_runs(sweep=f"@{label}")
        assert run.total_throughput_bps == rate_bps
    store.remember_sweep("nightly", [Spec(pairs=9)], runs_dir)
    with pytest.raises(NoRuns, match="no runs with the label 'after' in "):
        load_runs(sweep="nightly@after")
    status, out, _ = pairlab("claims", "--sweep", "@after")
    assert (status, "1 runs read, 1 count" in out) == (0, True)


def test_a_run_is_measured_under_the_label_that_was_asked_for(pairlab, monkeypatch):
    heard = []
    run = labelled("", 1e9)

    def stand_in(*arguments, **options):
        heard.append(caller().label)
        return run

    monkeypatch.setattr("pairlab.batch.experiments.run", stand_in)
    pairlab("run", "throughput", "--label", "after")
    pairlab("run", "throughput")
    assert heard == ["after", ""]
    with measuring.caller_with(label="after", block="one"):
        assert measuring._named_by_caller() == {"label": "after", "block": "one"}


def test_stores_are_imported_and_a_second_time_all_is_known(pairlab, runs_dir, tmp_path, monkeypatch):
    made_up(driver="macvlan")
    other = tmp_path / "other"
    runs_dir.rename(other)
    made_up(driver="ovs")
    assert pairlab("import", str(other))[1] == f"{other}: 1 run added, 0 known\n"
    assert pairlab("import", str(other))[1] == f"{other}: 0 runs added, 1 known\n"
    assert {run.spec.driver for run in load_runs()} == {"macvlan", "ovs"}
    assert pairlab("pack", "--runs", str(other))[0] == 0
    assert pairlab("unpack", str(*other.glob("*.pack")))[1].endswith("0 runs added, 1 known\n")


def test_runs_are_taken_away_by_the_beginning_of_their_keys_and_come_back(pairlab, runs_dir):
    one, other = made_up(driver="macvlan"), made_up(driver="ovs")
    status, out, _ = pairlab("rm", one.key[:8])
    assert (status, "/.replaced/" in out) == (0, True)
    assert [run.key for run in load_runs()] == [other.key]
    status, _, err = pairlab("rm", one.key[:8])
    assert (status, err) == (2, f"pairlab: no run '{one.key[:8]}' in {runs_dir}: pairlab ls lists the keys\n")
    assert pairlab("rm", "--restore", one.key[:8])[0] == 0
    assert {run.key for run in load_runs()} == {one.key, other.key}


def test_a_run_that_a_pack_has_too_is_not_taken_away_as_it_would_still_count(pairlab, runs_dir):
    run = made_up(driver="macvlan")
    assert pairlab("pack")[0] == 0
    made_up(driver="ovs")
    status, _, err = pairlab("rm", run.key)
    assert (status, "is in a pack" in err) == (1, True)
    assert len(load_runs()) == 2


def test_a_run_is_shown_as_text_and_as_a_page_that_needs_nothing_else(pairlab, tmp_path):
    run = made_up(driver="macvlan")
    status, out, _ = pairlab("show", run.key[:6])
    assert status == 0
    assert "throughput_bps" in out
    assert "macvlan" in out
    assert (f"environment  {run.environment}\n" in out, "checks: ok" in out) == (True, True)
    page = tmp_path / "run.html"
    assert pairlab("show", run.key, "--html", str(page))[0] == 0
    text = page.read_text()
    assert "macvlan" in text
    assert "<table>" in text
    assert not [word for word in ("src=", "href=", "@import") if word in text]


def test_a_run_with_a_capture_names_its_files_and_what_they_do_not_have(pairlab):
    counts = {"packets": 500_000, "missed": 1204, "full": True, "cpus_used": 0.1}
    told = {"client-0": counts, "server-0": {"packets": None, "missed": None, "full": False}}
    run = made_up(capture="client-0,server-0", facts={"capture": told})
    out = pairlab("show", run.key)[1].splitlines()
    where = f"in {paths.shown(run.path)}"
    assert f"client-0.pcap, {where}: packets: 500,000, missed: 1,204, and then no more" in out
    assert f"server-0.pcap, {where}: packets: unknown, missed: unknown" in out


def test_the_page_of_a_run_of_many_flows_shows_how_they_arrived_and_how_long_they_took(pairlab, tmp_path):
    rows = [
        {"pair": 0, "flow": n, "status": "ok", "start_s": n / 100, "completed_s": n / 100 + 0.05, "fct_s": 0.05}
        for n in range(200)
    ]
    few, many = (
        store.write(Run(Spec(pairs=pairs, flow_bytes=1000), "ok", measured_at=WHEN, flows=table("flows", its)))
        for pairs, its in ((1, rows[:9]), (2, rows))
    )
    page, shown = tmp_path / "run.html", "Arrivals, active flows and flow completion times over time"
    pairlab("show", many.key, "--html", str(page))
    assert shown in page.read_text()
    assert "200 flows, each from when it was started, in steps of " in page.read_text()
    pairlab("show", few.key, "--html", str(page))
    assert shown not in page.read_text()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_are_exported_with_their_meaning(pairlab, tmp_path, form):
    first, second = labelled("", 1e9, pairs=1), labelled("", 2e9, pairs=2)
    assert pairlab("export", str(tmp_path / "out"), "--to", form)[0] == 0
    read = pd.read_csv if form == "csv" else pd.read_parquet
    runs, flows = (read(tmp_path / "out" / f"{name}.{form}") for name in ("runs", "flows"))
    joined = flows.merge(runs, on="key")
    assert joined.set_index("pairs")["throughput_bps"].to_dict() == {1: 1e9, 2: 2e9}
    assert set(runs["key"]) == {first.key, second.key}
    meanings = pd.read_csv(tmp_path / "out" / "dictionary.csv").set_index(["table", "column"])
    for name, frame in (("runs", runs), ("flows", flows)):
        for column in frame:
            assert isinstance(meanings.loc[(name, column), "meaning"], str), (name, column)
    assert meanings.loc[("flows", "throughput_bps"), "unit"] == "bit/s"
    status, _, err = pairlab("export", str(tmp_path / "out"))
    assert (status, "is not empty" in err) == (2, True)


def test_a_research_object_names_its_makers_its_licence_and_every_file_with_its_checksum(pairlab, tmp_path):
    made_up(driver="macvlan", at=WHEN)
    words = ["export", str(tmp_path / "out"), "--to", "zenodo", "--title", "Mine", "--creator", "Doe, Jo"]
    assert pairlab(*words)[0] == 0
    graph = {
        each["@id"]: each for each in json.loads((tmp_path / "out" / "ro-crate-metadata.json").read_text())["@graph"]
    }
    about = graph["./"]
    assert (about["name"], about["temporalCoverage"]) == ("Mine", "2024-05-01/2024-05-01")
    assert graph[about["creator"][0]["@id"]]["name"] == "Doe, Jo"
    assert graph[about["license"]["@id"]]["name"] == "CC-BY-4.0"
    listed = {part["@id"] for part in about["hasPart"]}
    assert listed | {"ro-crate-metadata.json"} == {path.name for path in (tmp_path / "out").iterdir()}
    for name in listed:
        content = (tmp_path / "out" / name).read_bytes()
        assert graph[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert graph[name]["contentSize"] == str(len(content))
    assert [run.spec for run in load_runs(tmp_path / "out")] == [Spec(driver="macvlan")]


def test_a_research_object_has_the_runs_that_were_chosen_and_no_others(pairlab, tmp_path):
    labelled("before", 1e9, pairs=1)
    labelled("after", 2e9, pairs=1)
    assert pairlab("export", str(tmp_path / "out"), "--to", "zenodo", "--sweep", "@after")[0] == 0
    (run,) = load_runs(tmp_path / "out", environment="all")
    assert run.total_throughput_bps == 2e9


def test_labelled_runs_displace_none_that_have_no_label(runs_dir):
    plain = made_up(at=WHEN, rate_bps=1e9, facts={"host": {"fingerprint": "a"}}, duration_s=1.0)
    later = made_up(
        at=WHEN.replace(year=2025), rate_bps=2e9, facts={"host": {"fingerprint": "a"}, "label": "after"}, duration_s=1.0
    )
    found = load_runs()
    assert [run.total_throughput_bps for run in found] == [1e9]
    assert "label after" in found.elsewhere[0]
    assert plain.environment.changes(later.environment) == "label none, now after"
    store.remove([plain.path])
    assert [run.total_throughput_bps for run in load_runs()] == [2e9]
