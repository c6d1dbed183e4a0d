"""What is added to pairlab, by entry points: group `pairlab.KIND`, and a name in it.

Other packages declare them, and so does the study, whose modules lie in its plugins/.
"""

import functools
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pairlab import paths
from pairlab.base import study_file
from pairlab.errors import Unavailable


@functools.cache
def added(kind: str) -> Mapping[str, metadata.EntryPoint]:
    """The entry points of that kind, by their names; of one name, the study's. Raises BadInput of a bad study file."""
    found = {point.name: point for point in _all().select(group=f"pairlab.{kind}")}
    own = study_file.plugins(kind)
    return found | {name: metadata.EntryPoint(name, value, f"pairlab.{kind}") for name, value in own.items()}


@functools.cache
def _all() -> Any:  # a class of each Python has `select`
    return metadata.entry_points()  # it reads a file of every package there is


def load(point: metadata.EntryPoint) -> Any:
    """What it names. Raises Unavailable where the package that has it cannot be imported."""
    try:
        return point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        kind = point.group.removeprefix("pairlab.")
        if not point.dist and study_file.plugins(kind).get(point.name) == point.value:
            file = paths.shown(paths.STUDY / paths.STUDY_FILE)
            raise Unavailable(
                f"{point.group} {point.name!r} of the study cannot be loaded ({error}): {file} says that it is"
                f" {point.value}, in plugins/ beside it"
            ) from error
        package = point.dist.name if point.dist else point.module
        raise Unavailable(
            f"{point.group} {point.name!r} of package {package!r} cannot be loaded ({error}): install it again, or"
            f" pip uninstall {package}"
        ) from error


def where_to_get(kind: str, name: str) -> str:
    """Which of the checkout's plugins, if any, would add that name, and how to install it; else empty."""
    import tomllib  # this is for a message only

    for file in sorted(paths.ROOT.glob("plugins/*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        if name in project.get("entry-points", {}).get(f"pairlab.{kind}", {}):
            folder = paths.shown(file.parent)
            return f"{project['name']} has it: make setup, or pip install --no-deps {folder}"
    return ""
