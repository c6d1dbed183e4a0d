"""The environment that a spec would be measured on: what of it is the code of plugins outside pairlab."""

import importlib

import pytest

from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.environment import code_of, here

DRIVER = """
from pairlab.testbed.contracts import NetworkDriver


class Own(NetworkDriver):
    name, summary = "own", "of a study"

    def create(self, lan):
        return {returned}
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Writes the file of a study's driver, by what its method returns."""
    file = tmp_path / "a_study_s_driver.py"

    def driver(returned):
        file.write_text(DRIVER.format(returned=returned))

    driver("1")
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("a_study_s_driver").Own
    monkeypatch.setitem(registry.drivers._loaders, "own", lambda: own)
    return driver


def test_changed_code_of_a_studys_driver_is_another_environment_and_a_comment_is_none(driver):
    spec = Spec(driver="own", workload="flowgen")
    before = here(spec)
    assert before.code == code_of(spec) != ""
    driver("1  # as before")
    assert here(spec) == before
    driver("2")
    now = here(spec)
    assert not before.agrees(now)
    assert before.changes(now) == f"code {before.code}, now {now.code}"


def test_runs_of_what_comes_with_pairlab_have_no_code_of_their_own():
    assert code_of(Spec(workload="flowgen")) == code_of(Spec(driver="macvlan", pinning="same-core")) == ""


def test_what_was_measured_before_code_was_recorded_is_still_found(driver):
    recorded = here(Spec(driver="own", workload="flowgen"))
    assert recorded.agrees(recorded._replace(code=""))
