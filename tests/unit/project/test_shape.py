"""The shape of the library: no cycle of imports, nothing loose in its root, and how large it is."""

import graphlib
import subprocess
import sys

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


def test_the_size_of_each_room_of_each_notebook_and_of_the_clone_is_printed():
    done = subprocess.run(
        [sys.executable, "lib/size.py"], cwd=paths.ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    shown = done.stdout.splitlines()
    assert any(line.startswith("lib/pairlab: ") for line in shown)
    listed = {line.split()[0] for line in shown if ".ipynb" in line}
    assert listed >= {str(path.relative_to(paths.ROOT)) for path in paths.NOTEBOOKS.rglob("[0-9]*.ipynb")}
    assert shown[-1].startswith("clone: ")
