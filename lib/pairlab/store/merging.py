"""Merges runs of other stores into this one: no run here is changed, and none is stored twice.

A store is a folder of runs, with directories and packs; the other store can also be a single pack.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pairlab import paths
from pairlab.base.atomic import sync
from pairlab.errors import DamagedRun, NoRuns, SchemaMismatch, StoreError
from pairlab.store import metadata, packed_columns, packs
from pairlab.store.catalogue import free_directory, pack_with, places_of, stored
from pairlab.store.drafts import draft, draft_file, locked
from pairlab.store.file_errors import reading, writing
from pairlab.store.manifests import read_notes, write_note
from pairlab.store.moving import archive, move
from pairlab.store.packs import LEAVABLE
from pairlab.store.paths import SUFFIX, directory_of, is_key, pack_of, tagged_file
from pairlab.store.runs import attach_notebook, keep, place_of, read, with_label, write, write_files


@dataclass
class Merged:
    """added: places of added runs; known: number of runs already here; sweeps: those that gained cells."""

    added: list[Path] = field(default_factory=list)
    known: int = 0
    sweeps: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def merge(other: Path, root: Path | None = None) -> Merged:
    """Stores the runs of another store here, each beside all others, with the notes of its sweeps.

    other: a folder of runs, or a pack, which is unpacked. One of the same spec, measured at another time or elsewhere,
    is a further run of it; one whose metadata are the same is known. Packs in the folder come as packs. Raises NoRuns
    where there is none, StoreError where this store cannot be written. troubles says why runs could not be read.
    """
    root = root or paths.runs()
    merged = Merged()
    if packed := pack_of(other / "run"):
        places = _of_pack(packed)
    else:
        places = [place for place, entry in stored(other).items() if entry.key and not pack_of(place)]
        for pack in packs.below(other):
            _copy_pack(pack, root, merged)
        _merge_sweeps(other, root, merged)
    for place in places:
        try:
            _copy(place, root, merged)
        except (DamagedRun, SchemaMismatch) as error:
            merged.troubles.append(str(error))
    if not (merged.added or merged.known or merged.troubles):
        raise NoRuns(f"no runs in {other}: give a folder of runs, or a pack")
    return merged


def _of_pack(path: Path) -> list[Path]:
    with reading(path):
        return [path / name for name in packs.load(path).contents.runs]


def _copy(place: Path, root: Path, merged: Merged) -> None:
    run = read(place)
    if _is_known(place, root):
        merged.known += 1
        return
    with writing(directory_of(run.spec, root)), draft(run.spec, root) as unfinished:
        if pack_of(place):
            write_files(run, unfinished)
            for name, content in packed_columns.files(place, LEAVABLE["notebooks"]).items():
                (unfinished / f"{LEAVABLE['notebooks']}{name}").write_bytes(content)
        else:
            if link := next((file for file in place.rglob("*") if file.is_symlink()), None):
                raise DamagedRun(f"{link} is a symbolic link, and no run has any: {place} was left out")
            shutil.copytree(place, unfinished, dirs_exist_ok=True)
        read(unfinished, run.spec.key)
        merged.added.append(keep(run, unfinished, root, replace=False))


def _is_known(place: Path, root: Path) -> bool:
    """Whether a run of this store has the same spec and metadata."""
    content = metadata.load(place)
    spec = metadata.values(content, place)["spec"]
    return any(metadata.load_if_whole(each) == content for each in places_of(spec, root))


def _copy_pack(path: Path, root: Path, merged: Merged) -> None:
    """Copies the pack, if some of its runs are new here."""
    try:
        names = _of_pack(path)
        new = [name for name in names if not _is_known(name, root)]
    except (StoreError, DamagedRun) as error:
        merged.troubles.append(str(error))
        return
    merged.known += len(names) - len(new)
    if not new:
        return
    target = root / f"{packs.load(path).contents.experiment}{SUFFIX}"
    with draft_file(target, tagged=True) as unfinished:
        shutil.copyfile(path, unfinished)
        target = tagged_file(target, unfinished)
    merged.added += [target / name.name for name in new]


def _merge_sweeps(other: Path, root: Path, merged: Merged) -> None:
    """Adds the notes of sweeps that have further cells. How a sweep was started is said by a note here, if any does."""
    for folder in sorted((other / ".sweeps").glob("*/")):
        target = root / ".sweeps" / folder.name
        try:
            theirs, ours = read_notes(folder), read_notes(target)
        except StoreError as error:
            merged.troubles.append(str(error))
            continue
        for backend, notes in theirs.items():
            known = {key for note in ours.get(backend, ()) for key in note["keys"]}
            further = [note for note in notes if not known.issuperset(note["keys"])]
            for note in further:
                write_note(target, backend, note["keys"], None if backend in ours else note["start"])
            if further:
                merged.sweeps.append(f"{folder.name}/{backend}")


def remove(places: Iterable[Path]) -> list[Path]:
    """Moves runs to .replaced/, from where `restore` gets them; returns their new places. Raises StoreError."""
    archived = []
    for place in places:
        if pack := pack_of(place) or pack_with(place):
            unpacked = f"pairlab unpack {pack}, then remove the pack"
            raise StoreError(f"{place.name} is in a pack, from which no run is removed: {unpacked}")
        if not place.exists():
            raise StoreError(f"{place.name} is not there any more: list the runs again")
        with writing(place), locked(place.parent):
            archived.append(archive(place))
    return archived


def removed(root: Path | None = None) -> dict[str, Path]:
    """The runs that were moved to .replaced/, by key; the last one of each key."""
    places = sorted((root or paths.runs()).glob("*/.replaced/*/"), key=lambda place: place.name[17:])
    return {place.name[:16]: place for place in places if is_key(place.name[:16])}


def restore(place: Path) -> Path:
    """Moves a run from .replaced/ back beside the others. Raises DamagedRun if it is incomplete."""
    root = place.parents[2]
    run = read(place, place.name[:16])
    with writing(place), locked(place.parents[1]):
        target = free_directory(run.spec, root)
        move(place, target, beside=target)
        sync(target.parent)
    return target


def relabel(place: Path, label: str) -> Path:
    """Stores the run anew under that label, and moves the old one to .replaced/. Raises StoreError, with no change."""
    (archived,) = remove([place])
    try:
        relabelled = write(with_label(read(archived, place.name[:16]), label), place.parents[1])
        if (notebook := archived / LEAVABLE["notebooks"]).exists():
            attach_notebook(relabelled, notebook)
    except StoreError:
        restore(archived)
        raise
    return place_of(relabelled)
