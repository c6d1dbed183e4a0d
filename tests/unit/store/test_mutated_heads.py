"""A head that was edited is a damaged run, or is shown as it is; it stops no command over the other runs."""

import json
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as some

from pairlab import paths, store
from pairlab.cli import main
from pairlab.errors import PairlabError
from pairlab.store.dataset import load_runs
from tests.support.edited import edited, places

ODD = (
    *(
        None,
        True,
        -1,
        0,
        7,
        10**400,
        1e308,
        -1e308,
        "",
        "x",
        "abc",
        "\x1b[31m",
        "$\\undefined{",
        "<b>",
        [],
        [1],
        ["x"],
        {},
    ),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2099-01-01T00:00:00+00:00", "2026-01-01T00:00:00"),
    *({"x": 1}, {"in_force": 7}, [{"name": 7}]),
)
COMMANDS = (["ls"], ["compare", "--by", "driver"], ["claims", "throughput-order"], ["advise", "--pairs", "10"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Some runs of the reference, and the head of one that has many facts."""
    root = tmp_path_factory.mktemp("whole")
    by_driver = {}
    for run in load_runs(paths.REFERENCE, experiment="networks"):
        by_driver.setdefault((run.spec.driver, run.spec.pairs), []).append(run)
    kept = [
        store.import_run(store.export_run(run), run.spec, root)
        for found in [*by_driver.values()][:2]
        for run in found[:2]
    ]
    return root, max(kept, key=lambda run: len(str(run.facts))).path.name


@pytest.mark.whole
@settings(max_examples=12)
@given(data=some.data())
def test_an_edited_head_stops_no_command(data, whole, tmp_path_factory):
    root, name = whole
    changed = tmp_path_factory.mktemp("changed") / "runs"
    shutil.copytree(root, changed)
    file = changed / "networks" / name / "run.json"
    head = json.loads(file.read_text())
    path = data.draw(some.sampled_from([*places(head)]), label="where")
    value = data.draw(some.sampled_from(ODD), label="value")
    file.write_text(json.dumps(edited(head, path, value)))
    for words in COMMANDS:
        done = CliRunner().invoke(main, [*words, "--runs", str(changed)])
        error = done.exception
        assert error is None or isinstance(error, SystemExit | PairlabError), (words, path, value, repr(error))
        assert "Traceback" not in done.output
    shutil.rmtree(changed.parent)
