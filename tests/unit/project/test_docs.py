"""What the code says of itself is so."""

import importlib
import inspect
import pkgutil
import re

import pytest

import pairlab
from pairlab import errors, paths
from pairlab.batch import experiments
from pairlab.model.spec import Spec, spec_from
from pairlab.model.tables import TABLES
from pairlab.testbed import registry
from tests.support import documents


def drawn_tree():
    """The classes drawn in the docstring of errors, each with the one it is drawn under."""
    found, above = {}, []
    for line in errors.__doc__.splitlines():
        if match := re.match(r"((?:│   |    )*)(?:├── |└── )?([A-Z]\w+)(?:  |$)", line):
            depth = 0 if line.startswith("PairlabError") else len(match[1]) // 4 + 1
            above[depth:] = [match[2]]
            found[match[2]] = above[depth - 1] if depth else "Exception"
    return found


def test_the_tree_of_errors_is_drawn_as_it_is():
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    assert drawn_tree() == {each.__name__: each.__base__.__name__ for each in classes}


def test_an_error_crosses_a_process_boundary_by_its_name():
    for name in drawn_tree():
        assert errors.by_name(name).__name__ == name
    for other in ("ValueError", "by_name", "annotations", ""):
        assert errors.by_name(other) is errors.TestbedError


def test_every_column_has_a_type_a_unit_and_a_meaning():
    for name, columns in TABLES.items():
        for key, column in columns.items():
            assert column.meaning, f"{name}.{key}"
            assert column.dtype in ("int64", "float64", "str", "bool")
            suffix = {"s": "_s", "B": "_bytes", "bit/s": "_bps"}.get(column.unit)
            assert suffix is None or key.endswith(suffix), f"{name}.{key} is in {column.unit}"
            units = {"_s": "s", "_bytes": "B", "_bps": "bit/s"}
            assert all(not key.endswith(end) or column.unit == unit for end, unit in units.items()), f"{name}.{key}"


@pytest.mark.parametrize(
    "plugins", [registry.backends, registry.drivers, registry.workloads, registry.pinnings], ids=lambda p: p._word
)
def test_every_plugin_has_a_name_that_a_spec_takes_and_a_summary_in_one_line(plugins):
    for name in plugins.names():
        plugin = plugins.get(name)
        assert getattr(Spec(**{plugins._word: name}), plugins._word) == plugin.name == name
        assert plugin.summary
        assert "\n" not in plugin.summary
        assert inspect.getdoc(plugin)
        for program in getattr(plugin, "programs", ()):
            assert program.name
            assert program.package or program.remedy


def test_a_file_of_a_plugins_folder_has_one_at_least_which_is_found():
    for plugins in (registry.drivers, registry.workloads):
        package = importlib.import_module(f"pairlab.testbed.{plugins._word}s")
        homes = {plugins.get(name).__module__ for name in plugins.names()}
        assert {f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__)} <= homes


def test_the_package_offers_just_the_names_it_lists():
    for name in pairlab.__all__:
        assert getattr(pairlab, name).__name__ == name
        assert name in dir(pairlab)
    with pytest.raises(AttributeError, match="module 'pairlab' has no attribute 'nothing'"):
        pairlab.nothing  # noqa: B018


def test_every_experiment_takes_parameters_that_make_a_spec_as_they_stand():
    assert "throughput" in experiments.notebooks()
    for name in experiments.notebooks():
        assert experiments.spec_of(name, {}) == spec_from(experiments.defaults(name), experiment=name)
        assert experiments.spec_of(name, {}).experiment == name


def test_paths_are_shown_from_the_root_to_one_who_works_in_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(paths.ROOT / "notebooks")
    assert paths.shown(paths.ROOT / "runs" / "x") == paths.from_root(paths.ROOT / "runs" / "x") == "runs/x"
    assert paths.shown(tmp_path) == paths.from_root(tmp_path) == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert paths.shown(paths.ROOT / "runs" / "x") == str(paths.ROOT / "runs" / "x")
    assert paths.from_root(paths.ROOT / "runs" / "x") == "runs/x"


def test_pages_are_read_in_the_repository_so_they_have_nothing_that_only_the_site_can_show():
    pages = [page for page in documents.pages() if not page.startswith("docs/site/")]
    assert "docs/reference/python.md" in pages
    assert [block for page in pages for block in documents.blocks(page) if block.language.startswith("{")] == []
