"""Which cells a sweep has, so that others can ask for just these, and whether it runs: .sweeps/<name>/ below runs/.

<backend>-<tag>.json has the keys of the cells measured in that backend, and what the sweep notes of its start. The tag
is of its content: a note copied from another store lies beside that of this one, and both count. Older ones have none.
A process that measures the sweep holds a lock on <backend>.lock, which ends with it, however that is. The file
`workers` has those of a sweep that several share.
"""

import contextlib
import fcntl
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.base.atomic import give_to_owner, make_directory
from pairlab.base.foreign_files import load_json, read_text
from pairlab.errors import NoRuns, StoreError
from pairlab.model.spec import Spec
from pairlab.store.drafts import draft_file
from pairlab.store.file_errors import writing
from pairlab.store.paths import tagged_file, untagged_stem

#: struct flock of fcntl(2): type, whence, start, length, and the process, which open file description locks leave 0.
_FLOCK = "hhqqi"
#: A note has the keys of its cells, of 20 bytes each, and how it was started.
_MOST_BYTES = 64 * 2**20


def remember_sweep(name: str, specs: Iterable[Spec], root: Path | None = None, *, start: Any = None) -> None:
    """Notes which cells a sweep has in each backend it is measured in, in place of older notes. Raises StoreError.

    start: what else is to be known of it, as JSON has it, with the time `at`; starts_of_sweep gives it back.
    """
    folder = (root or paths.runs()) / ".sweeps" / name
    keys: dict[str, list[str]] = {}
    for spec in specs:
        keys.setdefault(spec.backend, []).append(spec.key)
    for backend, keys_of_backend in keys.items():
        older = _files(folder).get(backend, [])
        kept = write_note(folder, backend, keys_of_backend, start)
        with writing(kept):
            for file in {*older} - {kept}:
                file.unlink(missing_ok=True)


def write_note(folder: Path, backend: str, keys: Iterable[str], start: Any) -> Path:
    """Adds a note to those in a sweep's folder; returns its file. Raises StoreError."""
    file = folder / f"{backend}.json"
    with draft_file(file, tagged=True) as draft:
        draft.write_text(json.dumps({"keys": sorted(keys), "start": start}))
        return tagged_file(file, draft)


def keys_of_sweep(sweep: str, root: Path | None = None) -> set[str]:
    """The keys that remember_sweep noted, for `name` in all backends and for `name/backend` in that one.

    Raises NoRuns for a sweep that was never started here, StoreError for what is damaged.
    """
    return {key for notes in _notes(sweep, root).values() for note in notes for key in note["keys"]}


def starts_of_sweep(sweep: str, root: Path | None = None) -> dict[str, Any]:
    """By backend, what was noted at the sweep's latest start; None where nothing was. Raises as keys_of_sweep."""
    starts = {backend: [note["start"] for note in notes] for backend, notes in _notes(sweep, root).items()}
    return {backend: max(of_backend, key=_time_of) for backend, of_backend in starts.items()}


def _time_of(start: Any) -> str:
    return str(start.get("at", "")) if isinstance(start, dict) else ""


def remember_workers(name: str, workers: list[dict[str, Any]], root: Path | None = None) -> None:
    """Notes who measures a sweep now, and what, as JSON has it. Raises StoreError."""
    with draft_file(_file(name, "workers", root)) as draft:
        draft.write_text(json.dumps(workers))


def workers_of_sweep(name: str, root: Path | None = None) -> list[dict[str, Any]]:
    """What was noted last of those who measure the sweep; nothing where nothing was, or it cannot be read."""
    try:
        noted = load_json(read_text(_file(name, "workers", root), _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return [each for each in noted if isinstance(each, dict)] if isinstance(noted, list) else []


@contextlib.contextmanager
def running(name: str, backends: Iterable[str], root: Path | None = None) -> Iterator[None]:
    """Meanwhile, or until this process ends, however that is, is_running says so of the sweep in these backends.

    Where the file system has no locks, it has no effect. Raises StoreError.
    """
    with contextlib.ExitStack() as stack:
        for backend in backends:
            place = _file(name, f"{backend}.lock", root)
            with writing(place):
                make_directory(place.parent)
                descriptor = os.open(place, os.O_RDONLY | os.O_CREAT, 0o644)
                give_to_owner(place)
            stack.callback(os.close, descriptor)
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_RDLCK))
        yield


def is_running(name: str, backend: str, root: Path | None = None) -> bool | None:
    """Whether some process, on any host that shares these locks, measures the sweep; None where that is not known."""
    try:
        descriptor = os.open(_file(name, f"{backend}.lock", root), os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK


def _flock(kind: int) -> bytes:
    """Of a whole file. Readers do not shut each other out, and asking whether one could write locks nothing."""
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _file(sweep: str, name: str, root: Path | None) -> Path:
    return (root or paths.runs()) / ".sweeps" / sweep / name


def _notes(sweep: str, root: Path | None) -> dict[str, list[dict[str, Any]]]:
    """By backend, what remember_sweep wrote, whichever pairlab and store it was of."""
    root = root or paths.runs()
    name, _, backend = sweep.partition("/")
    named = re.fullmatch(r"[a-z0-9_-]+(/[a-z0-9_-]+)?", sweep)  # no path, and no pattern
    notes = read_notes(root / ".sweeps" / name, backend) if named else {}
    if not notes:
        how = f"pairlab sweep sweeps/{name}.yaml" + (f" --backend {backend}" if backend else "")
        raise NoRuns(f"no sweep {sweep!r} was started in {root}: {how}")
    return notes


def read_notes(folder: Path, backend: str = "") -> dict[str, list[dict[str, Any]]]:
    """By backend, the notes in a sweep's folder: keys of cells, and how it was started; of that backend, if named.

    Raises StoreError where one is damaged.
    """
    files = _files(folder)
    selected = [backend] if backend else [*files]
    try:
        return {each: [_read_note(file) for file in files[each]] for each in selected if each in files}
    except FileNotFoundError:  # the sweep was started anew meanwhile
        return read_notes(folder, backend)


def _files(folder: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("[!.]*.json")):
        files.setdefault(untagged_stem(file), []).append(file)
    return files


def _read_note(place: Path) -> dict[str, Any]:
    try:
        stored = load_json(read_text(place, _MOST_BYTES))
        note = stored if isinstance(stored, dict) else {"keys": stored}  # an older pairlab noted just the keys
        keys = note.get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ValueError("it has no list of keys")
        return {"keys": keys, "start": note.get("start")}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        why = f"{place} is damaged ({error}): start the sweep again, which writes it anew"
        raise StoreError(why) from None
