"""A head that was edited is a damaged run, or is shown as it is; it stops no command over the other runs."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as some

from pairlab.cli import main
from pairlab.errors import PairlabError
from tests.support.edited import edited, places

REFERENCE = Path(__file__).parents[3] / "runs" / "reference"
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
    places = sorted((REFERENCE / "networks").iterdir())
    heads = {place: json.loads((place / "run.json").read_text()) for place in places if (place / "run.json").exists()}
    by_driver = {}
    for place, head in heads.items():
        by_driver.setdefault((head["spec"]["driver"], head["spec"]["pairs"]), []).append(place)
    kept = [place for found in [*by_driver.values()][:2] for place in found[:2]]
    for place in kept:
        shutil.copytree(place, root / "networks" / place.name)
    return root, max(kept, key=lambda place: len(str(heads[place]))).name


@pytest.mark.ci
@settings(max_examples=25)
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
