"""The shape of the library: no cycle of imports, nothing loose in its root, and how large it is."""

import graphlib

import grimp

from pairlab import paths

PACKAGE = paths.ROOT / "lib" / "pairlab"


def test_no_modules_import_each_other_in_a_cycle_not_even_for_types():
    graph = grimp.build_graph("pairlab", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 150
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the modules of one


def test_the_root_has_the_public_face_errors_and_paths_and_nothing_else():
    expected = {"__init__.py", "__main__.py", "_version.py", "errors.py", "paths.py"}
    assert {path.name for path in PACKAGE.glob("*.py")} == expected
