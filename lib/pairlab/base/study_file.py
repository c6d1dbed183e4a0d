"""pairlab.toml, the file that makes a folder a study: what its own plugins are, and what its containers need."""

import functools
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from pairlab import paths
from pairlab.errors import BadInput

TABLES = ("image", "plugins", "workloads")
#: What a study adds, each kind a table of names and of what they are: "module:Class", in the study's plugins/.
KINDS = ("drivers", "workloads", "backends", "pinnings", "styles", "pictures")
_NAMED = re.compile(r"[\w.]+:[\w.]+").fullmatch


def plugins(kind: str) -> Mapping[str, str]:
    """The study's own plugins of that kind: by name, "module:Class". From then on their modules can be imported.

    They run as this process's user, so the file must be this user's, root's, or that of whoever called sudo. Raises
    BadInput where it is not.
    """
    found = _content().get("plugins", {}).get(kind, {})
    if found:
        require_trusted()
        if (folder := str(paths.STUDY / "plugins")) not in sys.path:
            sys.path.append(folder)
    return found


def import_plugin(module: str) -> ModuleType:
    """A module with a plugin: of an installed package, else of the study, if this process did not ask for it yet."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        if not any(plugins(kind) for kind in KINDS):
            raise
        return import_module(module)


def own_names() -> dict[str, list[str]]:
    """By kind, the names of what the study adds."""
    found = {kind: list(plugins(kind)) for kind in KINDS}
    found["workloads"] += commands()
    return {kind: names for kind, names in found.items() if names}


def commands() -> Mapping[str, Mapping[str, Any]]:
    """The study's workloads that are commands, by name, as the file has them. Raises BadInput as `plugins`."""
    found = _content().get("workloads", {})
    if found:
        require_trusted()
    return found


def image_packages() -> tuple[str, ...]:
    """Debian packages that the study's containers have besides pairlab's own."""
    return tuple(_content().get("image", {}).get("packages", ()))


@functools.cache
def _content() -> Mapping[str, Any]:
    file = paths.STUDY / paths.STUDY_FILE
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:  # no study, or a checkout
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read: {error}") from None
    if wrong := next(_faults(content), None):
        raise BadInput(f"{file}: {wrong}")
    return content


def _faults(content: Mapping[str, Any]) -> Iterator[str]:
    if strange := next(
        (name for name, value in content.items() if name not in TABLES or not isinstance(value, dict)), ""
    ):
        yield f"it has the tables [image], [plugins.KIND] and [workloads.NAME] only, not {strange!r}"
        return
    image = content.get("image", {})
    if not {*image} <= {"packages"} or not _are_texts(image.get("packages", [])):
        yield "[image] has packages only: a list of names of Debian packages"
    if not all(isinstance(each, dict) for each in content.get("workloads", {}).values()):
        yield "[workloads]: each is a table, [workloads.NAME]"
    for kind, values in content.get("plugins", {}).items():
        if kind not in KINDS:
            yield f"[plugins.{kind}]: the kinds are {', '.join(KINDS)}"
        elif (
            not isinstance(values, dict) or not _are_texts([*values.values()]) or not all(map(_NAMED, values.values()))
        ):
            yield f'[plugins.{kind}]: each is NAME = "module:Class"'


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def require_trusted(name: str = paths.STUDY_FILE) -> None:
    """Another user's file, in a folder above the current one, must not decide what runs here. name: of the study's."""
    file = paths.STUDY / name
    owner = file.stat().st_uid
    if owner not in (0, os.geteuid(), int(os.environ.get("SUDO_UID", "0"))):
        raise BadInput(
            f"{file} is another user's (uid {owner}), and names code to run: call pairlab as that user,"
            " by that user's sudo, or in another folder"
        )
