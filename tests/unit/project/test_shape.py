"""The shape of the library: no cycle of imports, nothing loose in its root."""

import grimp

from pairlab import paths

PACKAGE = paths.ROOT / "lib" / "pairlab"


def cycle(imports):
    """Modules that import each other in a circle, as a list, or [] if there is none. imports: {module: set}."""
    done, on_path = set(), []

    def visit(module):
        if module in on_path:
            return [*on_path[on_path.index(module) :], module]
        if module not in done:
            on_path.append(module)
            for other in sorted(imports[module]):
                if found := visit(other):
                    return found
            done.add(on_path.pop())
        return []

    return next(filter(None, map(visit, sorted(imports))), [])


def test_a_cycle_is_found():
    assert cycle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other_in_a_cycle_not_even_for_types():
    graph = grimp.build_graph("pairlab", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 150
    assert cycle(imports) == []


def test_the_root_has_the_public_face_errors_and_paths_and_nothing_else():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "_version.py", "errors.py", "paths.py"}
