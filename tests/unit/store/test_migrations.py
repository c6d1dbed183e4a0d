"""Runs that an older pairlab wrote are read as if this one had written them."""

import json

import pytest

from pairlab import paths, store
from pairlab.model.records import SCHEMA
from pairlab.model.spec import Spec
from pairlab.store import metadata
from pairlab.store.dataset import load_runs
from pairlab.store.metadata import STEPS, migrate
from tests.support import CAPTURED
from tests.support.runs import made_up, rate_of, rewrite_head


def captured(schema):
    return json.loads((CAPTURED / f"run-schema-{schema}.json").read_text())


def test_a_step_from_every_older_schema_leads_to_the_keys_of_a_new_head(tmp_path):
    new = json.loads((store.write(made_up(), tmp_path).path / "run.json").read_text())
    assert new["schema"] == SCHEMA
    assert list(STEPS) == list(range(1, SCHEMA))
    for schema in STEPS:
        assert set(migrate(captured(schema))) == set(new)
        head = captured(schema)
        assert head["schema"] == schema
        assert STEPS[schema](head)["schema"] == schema + 1


def test_a_head_of_schema_1_has_no_checks_and_all_that_it_had():
    head = captured(1)
    before = json.dumps(head)
    migrated = migrate(head)
    assert migrated["checks"] == {}
    hosts = {"hosts": [{"name": "machine", "kind": "machine"}]}
    assert {**head, "schema": SCHEMA, "checks": {}, "facts": {**head["facts"], **hosts}} == migrated
    assert json.dumps(head) == before  # the one that was given is as it was


def test_several_hosts_of_schema_2_were_namespaces_on_the_machine():
    head = captured(2)
    head["spec"]["hosts"] = 2
    head["facts"]["network"]["hosts"] = [{"name": "host-0"}, {"name": "host-1"}]
    assert migrate(head)["facts"]["hosts"] == [
        {"name": "host-0", "kind": "namespace", "on": "machine"},
        {"name": "host-1", "kind": "namespace", "on": "machine"},
    ]
    assert migrate({**head, "facts": {}})["facts"] == {}


def test_a_head_of_this_schema_or_a_newer_one_is_let_be():
    for schema in (SCHEMA, SCHEMA + 1):
        assert migrate({"schema": schema, "strange": 1}) == {"schema": schema, "strange": 1}


@pytest.mark.parametrize("schema", [0, -1, None, "1", 1.0, True])
def test_a_schema_that_there_never_was_is_no_schema(schema):
    with pytest.raises(ValueError, match="there never was a schema"):
        migrate({"schema": schema})


def test_a_stored_run_of_schema_1_is_read_and_stays_as_it_was_written(tmp_path):
    run = store.write(made_up(3e9), tmp_path)
    head = run.path / "run.json"
    rewrite_head(run.path, schema=1)
    head.write_text(json.dumps({key: value for key, value in json.loads(head.read_text()).items() if key != "checks"}))
    before = head.read_bytes()
    read = store.read(run.path)
    assert (read.status, dict(read.checks), rate_of(read)) == ("ok", {}, 3e9)
    assert store.status(run.spec, tmp_path) == "ok"
    assert list(store.leftovers(tmp_path)) == []
    assert head.read_bytes() == before


@pytest.mark.whole
def test_the_committed_reference_runs_load_whole_under_their_old_keys_and_show_in_a_few_lines():
    found = load_runs(paths.REFERENCE)
    assert found.unread == ()
    assert len(found) == len(store.stored(paths.REFERENCE)) > 600
    for run in found:
        assert run.path.name == Spec(**json.loads(metadata.text(run.path))["spec"]).key
    experiments = {run.spec.experiment for run in found}
    lines = str(found).splitlines()
    assert len(lines) < len(experiments) + 13  # one each, and one for each reason to leave runs out
    assert len(found._repr_html_()) < 10_000
