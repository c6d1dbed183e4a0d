"""The runs of a store, in folders and in packs."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pairlab import paths
from pairlab.errors import NoRuns, StoreError
from pairlab.model.spec import Spec
from pairlab.store import packs
from pairlab.store.paths import METADATA, directory_of, is_key, key_of, number_of, order_of, pack_of, untagged, with_tag


class Entry(NamedTuple):
    """key: unique among the runs of the store. Both are empty for a pack that cannot be read."""

    experiment: str
    key: str


def looked_for(root: str | Path | None) -> tuple[Path, str]:
    """The folder of the runs, and the places where it was looked for, for a message."""
    folder = paths.existing(root) if root else paths.runs()
    return folder, paths.tried(root) if root and not folder.exists() else str(folder)


def no_runs(places: str, experiments: Sequence[str] = (), of: str = "", but: str = "") -> NoRuns:
    """That there are none of these experiments, or none at all. of: what else they should be; but: what is there."""
    which = f"runs of {', '.join(map(repr, experiments))}" if experiments else "runs"
    how = f"measure some, for instance with `pairlab run {experiments[0] if experiments else 'throughput'}`"
    return NoRuns(f"no {which}{of} in {places}: {how}{but}")


def stored(root: Path | None = None) -> dict[Path, Entry]:
    """The place of every run, by experiment and key.

    A run that is in several places counts once, as in the folder or the first pack. One whose name
    another run has, of another store or in a pack, gets the next number, as if it had been stored here last. A pack
    that cannot be read is a place, too, so that reading it raises the reason.
    """
    root = root or paths.runs()
    of_specs: dict[Entry, dict[str, Path]] = {}
    for place in sorted(directories(root), key=lambda place: order_of(place.name)):
        others = of_specs.setdefault(Entry(place.parent.name, key_of(place.name)), {})
        others[_free(untagged(place.name), others)] = place
    unread = []
    for path in packs.below(root):
        try:
            pack = packs.load(path)
        except Exception:  # whatever it is: it is raised anew where the place is read
            unread.append(path)
            continue
        for name in pack.contents.runs:
            others = of_specs.setdefault(Entry(pack.contents.experiment, key_of(name)), {})
            if not others or not _is_among(path / name, others.values()):
                others[_free(name, others)] = path / name
    places = {Entry(spec.experiment, name): place for spec, runs in of_specs.items() for name, place in runs.items()}
    return {places[entry]: entry for entry in sorted(places)} | dict.fromkeys(unread, Entry("", ""))


def directories(root: Path | None = None) -> list[Path]:
    """Every directory named as a run, by name; without hidden ones (drafts, replaced runs)."""
    return sorted(place for place in (root or paths.runs()).glob("[!.]*/*/") if is_key(place.name))


def directories_of(spec: Spec, root: Path | None = None) -> list[Path]:
    """Every directory named as a run of that spec, the newest last."""
    first = directory_of(spec, root)
    return _in_folder(first, _names(first.parent, first.name))


def numbered(firsts: Iterable[Path]) -> Iterator[list[Path]]:
    """For each first directory of a spec, the places of all its runs: in packs, then in folders.

    Each folder and pack is listed once for all specs.
    """
    listed: dict[Path, dict[str, list[str]]] = {}
    in_packs: dict[Path, list[packs.Pack]] = {}
    for first in firsts:
        folder = first.parent
        if folder not in listed:
            listed[folder] = _names(folder)
            readable = packs.readable(folder.parent)
            in_packs[folder] = [pack for pack in readable if pack.contents.experiment == folder.name]
        packed = (pack.path / name for pack in in_packs[folder] for name in pack.names_of_key.get(first.name, ()))
        yield [*packed, *_in_folder(first, listed[folder])]


def _in_folder(first: Path, names: dict[str, list[str]]) -> list[Path]:
    return [first if name == first.name else first.with_name(name) for name in names.get(first.name, ())]


def _names(folder: Path, key: str = "") -> dict[str, list[str]]:
    """Names of the runs in an experiment's folder, by key and in order of number; with `key`, only its names."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"{folder} could not be read: {error.strerror}; name another folder for the runs") from None
    names_of_key: dict[str, list[str]] = {}
    for name in sorted((name for name in names if name.startswith(key) and is_key(name)), key=order_of):
        names_of_key.setdefault(key_of(name), []).append(name)
    return names_of_key


def places_of(spec: Spec, root: Path | None = None) -> list[Path]:
    """The places of that spec's runs, in packs and in folders, the last stored one last."""
    (places,) = numbered([directory_of(spec, root)])
    return places


def free_directory(spec: Spec, root: Path | None = None) -> Path:
    """The directory of a further run of that spec, whose number is free in folders and packs."""
    names = [place.name for place in places_of(spec, root)]
    return directory_of(spec, root).with_name(with_tag(_next(names) if names else spec.key))


def pack_with(place: Path) -> Path | None:
    """The pack beside the experiment's folder that also has the run of this directory, if any."""
    candidates = (pack for pack in packs.readable(place.parents[1]) if pack.contents.experiment == place.parent.name)
    same = (
        pack.path
        for pack in candidates
        for name in pack.names_of_key.get(key_of(place.name), ())
        if _is_among(pack.path / name, [place])
    )
    return next(same, None)


def file_of(place: Path) -> Path:
    """The file that changes whenever the run does: its metadata, or the pack."""
    return pack_of(place) or place / METADATA


def _free(name: str, others: Collection[str]) -> str:
    return _next(others) if name in others else name


def _next(names: Iterable[str]) -> str:
    """The name of the next run after these names of the same spec."""
    last = max(names, key=number_of)
    return f"{key_of(last)}.{number_of(last) + 1}"


def _is_among(place: Path, others: Iterable[Path]) -> bool:
    """Whether one of the others is the same run, by its metadata."""
    from pairlab.store.metadata import load_if_whole  # with pandas, which a list of runs can do without

    content = load_if_whole(place)
    return content is not None and any(load_if_whole(other) == content for other in others)
