"""A new experiment is a notebook that measures as it stands."""

import pytest

from pairlab import paths
from pairlab.batch import experiments
from pairlab.errors import BadInput


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STUDY", tmp_path)
    return tmp_path


def test_it_takes_parameters_and_asks_for_itself(study):
    place = experiments.new("made-here")
    assert place == study / "notebooks" / "experiments" / "made-here.ipynb"
    assert experiments.notebooks()["made-here"] == place
    asked = experiments.spec_of("made-here", {"pairs": 5, "driver": "macvlan"})
    assert (asked.experiment, asked.pairs, asked.driver) == ("made-here", 5, "macvlan")
    assert "flooding" not in place.read_text()
    assert experiments.title("made-here") == "made-here: what is asked?"


@pytest.mark.parametrize("name", ["throughput", "No Name", "../up", ""])
def test_what_is_no_name_or_taken_is_refused(study, name):
    with pytest.raises(BadInput):
        experiments.new(name)
    assert not [*study.rglob("*.ipynb")]
