"""What an editor, help() and the Tab key say of a Spec: every field, with its unit, bounds, default and meaning."""

import inspect
import pydoc

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from pairlab.base import units
from pairlab.model.spec import Spec


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell()
    shell.run_cell("from pairlab import Run, Spec, measure\nspec, run = Spec(), Run(Spec(), 'skipped')")
    return shell


def completions(shell, text, jedi):
    shell.Completer.use_jedi = jedi
    with provisionalcompleter():
        return [each.text.lstrip(".") for each in shell.Completer.completions(text, len(text))]


def test_the_signature_of_a_spec_has_every_field_by_name_with_its_default():
    parameters = inspect.signature(Spec).parameters
    assert list(parameters) == list(Spec.model_fields)
    assert {name: each.default for name, each in parameters.items()} == Spec().model_dump()
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters.values())
    assert str(parameters["duration_s"]) == "duration_s: float = 10.0"


def test_the_help_of_a_spec_says_what_each_field_means_and_its_unit():
    shown = pydoc.plain(pydoc.render_doc(Spec))
    in_one_line = " ".join(shown.replace("|", "").split())
    for name, field in Spec.model_fields.items():
        (entry,) = (line for line in inspect.getdoc(Spec).split("\n") if line.startswith(f"{name} : "))
        assert entry in shown
        assert units.unit_of(name) in entry
        assert f"default {field.default!r}" in entry
        assert field.description
        assert " ".join(field.description.split()) in in_one_line


def test_bounds_are_told_and_those_of_the_machine_are_not():
    told = inspect.getdoc(Spec)
    assert "pairs : int, from 1 up to 5,000, default 1" in told
    assert "duration_s : float, s, above 0 up to 86,400, default 10.0" in told
    assert "link_loss : float, from 0 below 1, default 0.0" in told
    assert "seed : int, from 0, default 0" in told


@pytest.mark.whole
@pytest.mark.parametrize("jedi", [True, False])
@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("Spec(dri", "driver="),
        ("Spec(driver='bridge', pai", "pairs="),
        ("measure(Spec(back", "backend="),
        ("spec.tot", "total_s"),
        ("run.total_th", "total_throughput_bps"),
        ("run.fl", "flows"),
    ],
)
def test_tab_completes_what_a_notebook_types(shell, text, completed, jedi):
    assert completed in completions(shell, text, jedi)


def test_what_replace_takes_shows_too_and_is_left_as_it_is():
    parameters = inspect.signature(Spec().replace).parameters
    assert list(parameters) == list(Spec.model_fields)
    assert parameters["pairs"].default is ...
    assert Spec(pairs=3).replace(driver="ovs") == Spec(pairs=3, driver="ovs")
