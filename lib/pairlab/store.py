"""Writes one run atomically, reads many as pandas DataFrames.

runs/<experiment>/<key>/ holds run.json, flows.parquet, intervals.parquet, cpu.parquet, raw/ and, where papermill ran
it, notebook.ipynb. A run is written under a hidden name and renamed when whole, so what has its name is whole; a run
that is measured again moves to .replaced/ and is not deleted.
"""

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import pandas as pd

from pairlab import paths
from pairlab.errors import DamagedRun, MixedHosts, NoRuns, SchemaMismatch, StoreError
from pairlab.records import SCHEMA, STATUSES, TABLES, Run
from pairlab.spec import Spec

#: A run's tables are short, and what Parquet adds to find its way in long ones would be most of their size.
_SMALL = {"compression": "zstd", "use_dictionary": False, "write_statistics": False, "store_schema": False}


def directory_of(spec: Spec, root: Path | None = None) -> Path:
    """Where the run of that spec lies, or would."""
    return (root or paths.runs()) / spec.experiment / spec.key


def write(run: Run, root: Path | None = None) -> Run:
    """Stores the run whole or not at all; an older one of the same key moves to .replaced/. Returns it with its path.

    Raises StoreError when the disk is full or the place cannot be written; what was there stays as it was.
    """
    place = directory_of(run.spec, root)
    try:
        with draft(run.spec, root) as unfinished:
            for name in TABLES:
                getattr(run, name).to_parquet(unfinished / f"{name}.parquet", index=False, **_SMALL)
            if run.raw:
                (unfinished / "raw").mkdir()
            for name, text in run.raw.items():
                (unfinished / "raw" / name).write_text(text, encoding="utf-8", newline="")
            with open(unfinished / "run.json", "w", encoding="utf-8") as file:
                json.dump(_head(run), file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            _replace(place, unfinished)
    except OSError as error:
        raise StoreError(_cannot_write(place, error)) from error
    return read(place)


@contextlib.contextmanager
def draft(spec: Spec, root: Path | None = None) -> Iterator[Path]:
    """A hidden directory beside the run of that spec, gone afterwards; `debris` finds it after an accident."""
    place = directory_of(spec, root)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{spec.key}-", dir=place.parent))
    except OSError as error:
        raise StoreError(_cannot_write(place, error)) from error
    try:
        made.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def read(place: Path) -> Run:
    """The run in that directory. Raises DamagedRun where it is not whole, SchemaMismatch where it is newer."""
    try:
        head = json.loads((place / "run.json").read_text(encoding="utf-8"))
        if head["schema"] > SCHEMA:
            raise SchemaMismatch(
                f"{paths.shown(place)} was written with schema {head['schema']}, and this pairlab knows up to {SCHEMA}:"
                " update pairlab to read it"
            )
        tables = {name: pd.read_parquet(place / f"{name}.parquet") for name in TABLES}
        for name, rows in head["rows"].items():
            if len(tables[name]) != rows:
                raise ValueError(f"{name}.parquet has {len(tables[name])} rows and should have {rows}")
        if head["status"] not in STATUSES:
            raise ValueError(f"unknown status {head['status']!r}")
        spec = Spec(**head["spec"])
        if not place.name.startswith(spec.key):
            raise ValueError(f"it holds the run {spec.key}, which belongs in a directory of that name")
        return Run(
            spec=spec,
            status=head["status"],
            reasons=tuple(head["reasons"]),
            measured_at=datetime.fromisoformat(head["measured_at"]) if head["measured_at"] else None,
            skew_s=_number(head["skew_s"]),
            harness_cpu_s=_number(head["harness_cpu_s"]),
            times_s=head["times_s"],
            facts=head["facts"],
            raw=_Raw(place / "raw"),
            path=place,
            **tables,
        )
    except SchemaMismatch:
        raise
    except Exception as error:  # pyarrow alone raises a dozen kinds over damaged files
        told = " ".join(str(error).split()) if isinstance(error, (OSError, ValueError)) else repr(error)
        raise DamagedRun(
            f"{paths.shown(place)} is not a whole run: {told}. It is left out of every analysis;"
            " `pairlab clean` removes it, and measuring again replaces it"
        ) from error


def find(spec: Spec, root: Path | None = None) -> Run | None:
    """The stored run of that spec, if there is one that can be read."""
    place = directory_of(spec, root)
    try:
        return read(place) if place.is_dir() else None
    except DamagedRun:
        return None


def attach_notebook(run: Run, notebook: Path) -> None:
    """Keeps the executed notebook beside its run. Raises StoreError; the run stays as it was then."""
    target = run.path / "notebook.ipynb"
    draft = target.with_name(f".{target.name}")
    try:
        shutil.copyfile(notebook, draft)
        draft.rename(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StoreError(_cannot_write(target, error)) from error


def directories(root: Path | None = None, experiment: str | None = None) -> list[Path]:
    """Every directory that claims to be a run, by name; hidden ones (drafts, replaced runs) are none."""
    root = root or paths.runs()
    found = [place for place in root.glob("[!.]*/*/") if _is_key(place.name)]
    return sorted(place for place in found if experiment in (None, place.parent.name))


def debris(root: Path | None = None, *, with_replaced: bool = False) -> Iterator[tuple[Path, str]]:
    """Directories below runs/ that hold no run that counts, with the reason: drafts of the dead, and damaged runs.

    with_replaced: runs that a newer one of the same key replaced, too.
    """
    root = root or paths.runs()
    for place in sorted(root.glob("*/.*-*/")):
        if _is_key(place.name[1:17]) and time.time() - place.stat().st_mtime > 60:
            yield place, "a draft that was never finished"
    for place in directories(root):
        try:
            read(place)
        except DamagedRun:
            yield place, "damaged"
        except SchemaMismatch:
            continue
    if with_replaced:
        for place in sorted(root.glob("*/.replaced/*/")):
            yield place, "replaced"


def remember_sweep(name: str, keys: Iterable[str], root: Path | None = None) -> None:
    """Notes which keys a sweep consists of, so that an analysis can ask for just these."""
    place = (root or paths.runs()) / ".sweeps" / f"{name}.json"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(sorted(keys), indent=1))
        draft.rename(place)
    except OSError as error:
        raise StoreError(_cannot_write(place, error)) from error


def keys_of_sweep(name: str, root: Path | None = None) -> list[str]:
    """The keys that remember_sweep noted. Raises NoRuns for a sweep that was never started here."""
    place = (root or paths.runs()) / ".sweeps" / f"{name}.json"
    try:
        return json.loads(place.read_text())
    except OSError:
        raise NoRuns(
            f"no sweep {name!r} was started in {paths.shown(place.parent.parent)}: pairlab sweep sweeps/{name}.yaml"
        ) from None
    except ValueError as error:
        raise StoreError(
            f"{paths.shown(place)} is damaged ({error}): start the sweep again, which writes it anew"
        ) from None


@dataclass(frozen=True)
class Runs:
    """Many runs, as DataFrames. Only runs with status ok are in flows, intervals and cpu.

    index has a row per run, whatever its status: the spec's values, key, status, reasons (one text), skew_s and
    host. The other frames carry the spec's values and the key as columns before their own (asked_duration_s is the
    spec's, where duration_s is the flow's). damaged names the directories that could not be read, with the reason.
    """

    runs: tuple[Run, ...]
    damaged: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def index(self) -> pd.DataFrame:
        rows = [
            {
                "key": run.key,
                **run.spec.model_dump(),
                "status": run.status,
                "reasons": "; ".join(run.reasons),
                "skew_s": run.skew_s,
                "host": run.facts.get("host", {}).get("fingerprint", ""),
                "measured_at": run.measured_at,
            }
            for run in self.runs
        ]
        return pd.DataFrame(rows, columns=None if rows else ["key", *Spec.model_fields, "status", "reasons"])

    @cached_property
    def flows(self) -> pd.DataFrame:
        return self._joined("flows")

    @cached_property
    def intervals(self) -> pd.DataFrame:
        return self._joined("intervals")

    @cached_property
    def cpu(self) -> pd.DataFrame:
        return self._joined("cpu")

    @property
    def left_out(self) -> pd.DataFrame:
        """The runs that are not ok: never a silent loss."""
        return self.index[self.index["status"] != "ok"]

    def _joined(self, name: str) -> pd.DataFrame:
        frames = []
        for run in self.runs:
            if run.status == "ok":
                frame = getattr(run, name).copy()
                told = {"key": run.key, **run.spec.model_dump()}
                told = {f"asked_{name}" if name in frame else name: value for name, value in told.items()}
                frames.append(pd.concat([pd.DataFrame(told, index=frame.index), frame], axis=1))
        if not frames:
            raise NoRuns(f"none of the {len(self.runs)} runs is ok: {'; '.join(sorted(set(self.index['reasons'])))}")
        return pd.concat(frames, ignore_index=True)


def load_runs(
    root: str | Path | None = None,
    *,
    experiment: str | None = None,
    sweep: str = "",
    pool_hosts: bool = False,
) -> Runs:
    """The runs below `root` (default: runs/; relative paths count from the checkout's root).

    sweep: only the cells of the sweep of that name. Raises NoRuns when there are none, MixedHosts when they come
    from hosts that differ and `pool_hosts` does not say that this is meant. Damaged runs are named, not raised.
    """
    root = paths.within_root(root) if root else paths.runs()
    wanted = set(keys_of_sweep(sweep, root)) if sweep else None
    runs, damaged = [], []
    for place in directories(root, experiment):
        if wanted is not None and place.name not in wanted:
            continue
        try:
            runs.append(read(place))
        except DamagedRun as error:
            damaged.append(str(error))
    what = f"runs of {experiment!r}" if experiment else "runs"
    if not runs:
        spoilt = f" but {len(damaged)} damaged ones, which `pairlab clean --dry-run` names" if damaged else ""
        raise NoRuns(
            f"no {what} in {paths.shown(root)}{spoilt}: measure some, for instance with `make run`,"
            f" or `pairlab run {experiment or 'throughput'}`"
        )
    found = Runs(tuple(runs), tuple(damaged))
    hosts = set(found.index.loc[found.index["status"] == "ok", "host"])
    if len(hosts) > 1 and not pool_hosts:
        raise MixedHosts(
            f"the {what} in {paths.shown(root)} come from {len(hosts)} different hosts ({'; '.join(sorted(hosts))}),"
            " whose numbers do not belong in one figure: keep them in a folder each, or say pool_hosts=True"
        )
    return found


class _Raw(Mapping):
    """What the tools printed, read when asked for."""

    def __init__(self, place: Path):
        self._files = {path.name: path for path in sorted(place.glob("*"))}

    def __getitem__(self, name: str) -> str:
        return self._files[name].read_text()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _head(run: Run) -> dict:
    return {
        "schema": SCHEMA,
        "key": run.key,
        "spec": run.spec.model_dump(),
        "status": run.status,
        "reasons": list(run.reasons),
        "measured_at": run.measured_at.isoformat() if run.measured_at else None,
        "skew_s": _or_none(run.skew_s),
        "harness_cpu_s": _or_none(run.harness_cpu_s),
        "times_s": dict(run.times_s),
        "facts": dict(run.facts),
        "rows": {name: len(getattr(run, name)) for name in TABLES},
    }


def _or_none(value: float) -> float | None:
    return None if value != value else value


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _is_key(name: str) -> bool:
    return len(name) == 16 and set(name) <= set("0123456789abcdef")


def _replace(place: Path, draft: Path) -> None:
    if not place.exists():
        draft.rename(place)
        return
    kept = place.parent / ".replaced" / f"{place.name}-{time.time_ns()}"
    kept.parent.mkdir(exist_ok=True)
    place.rename(kept)
    try:
        draft.rename(place)
    except BaseException:
        kept.rename(place)
        raise


def _cannot_write(place: Path, error: OSError) -> str:
    what = f"the run could not be written to {paths.shown(place.parent)}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}. Make room (`pairlab clean --dry-run` lists what can go); finished runs are whole"
    return f"{what}. Is the folder yours to write? PAIRLAB_RUNS names another one; finished runs are whole"
