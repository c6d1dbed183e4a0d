"""Runs as tidy tables for other programs, and as a research object for a public archive."""

import hashlib
import json
import mimetypes
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pairlab import store
from pairlab._version import __version__
from pairlab.base import units
from pairlab.errors import BadInput, NoRuns, StoreError
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES
from pairlab.store.dataset import Runs

#: The columns of `runs` beside the parameters.
_OF_RUNS = {
    "key": ("", "what tells the run from all others of its store: the first column of every other table"),
    "status": ("", "ok: it counts; invalid: it was disturbed; failed; skipped: this host lacks what it takes"),
    "reasons": ("", "why it is not ok; empty where it is"),
    "failed_flows": ("flows", "how many flows failed"),
    "skew_s": ("s", "spread of the clients' starts"),
    "host": ("", "CPUs of the host, and which machine where several are alike"),
    "kernel": ("", "release of its kernel"),
    "label": ("", "what the user called the state of the system"),
    "measured_at": ("", "when it was measured, ISO 8601"),
    "block": ("", "the block that it was measured in: what is compared in pairs"),
}
_CONTEXT = "https://w3id.org/ro/crate/1.1/context"


class About(NamedTuple):
    """The description of a data set for a public archive."""

    title: str
    creators: Sequence[str] = ()
    licence: str = "CC-BY-4.0"


def write(runs: Runs, folder: Path, form: str, about: About) -> list[Path]:
    """Writes the tables of all runs into a new folder, and returns the files.

    form: csv, parquet, or zenodo, which adds the packs of the runs, and ro-crate-metadata.json. dictionary.csv explains
    each column. Raises BadInput if the folder is not empty, StoreError if it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is not empty: name a folder that is not there yet")
    if not len(runs):
        raise NoRuns("no runs to export")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [_write_frame(folder, name, frame, form) for name, frame in _frames(runs)]
        written.append(_write_frame(folder, "dictionary", _dictionary(runs), "csv"))
        if form == "zenodo":
            assert runs.root
            for experiment in sorted({run.spec.experiment for run in runs}):
                written.append(store.pack(experiment, runs.root, folder, keys={run.key for run in runs}).path)
            written.append(_write_crate(folder, written, about, runs))
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from None
    return written


def _frames(runs: Runs) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "runs", runs.index
    for name in TABLES:
        parts = {run.key: getattr(run, name) for run in runs if run.status == "ok"}
        if parts := {key: part for key, part in parts.items() if len(part)}:
            together = pd.concat(parts, names=["key"]).reset_index("key")
            yield name, together.dropna(axis=1, how="all")


def _write_frame(folder: Path, name: str, frame: pd.DataFrame, form: str) -> Path:
    path = folder / f"{name}.{'csv' if form == 'csv' else 'parquet'}"
    (frame.to_csv if form == "csv" else frame.to_parquet)(path, index=False)
    return path


def _dictionary(runs: Runs) -> pd.DataFrame:
    """A row for each column of each table: its unit and meaning."""
    rows = [("runs", name, *unit_and_meaning) for name, unit_and_meaning in _OF_RUNS.items()]
    rows += [("runs", name, units.unit_of(name), field.description or "") for name, field in Spec.model_fields.items()]
    own = {(each.table, each.name): each for run in runs for each in run.metrics}
    for table, columns in TABLES.items():
        rows.append((table, "key", *_OF_RUNS["key"]))
        rows += [(table, name, column.unit, column.meaning) for name, column in columns.items()]
        rows += [(table, name, each.unit, each.meaning) for (at, name), each in own.items() if at == table]
    return pd.DataFrame(rows, columns=["table", "column", "unit", "meaning"])


def _write_crate(folder: Path, files: Sequence[Path], about: About, runs: Runs) -> Path:
    """ro-crate-metadata.json. Source: RO-Crate 1.1, researchobject.org/ro-crate/1.1."""
    people = [
        {"@id": f"#creator-{number}", "@type": "Person", "name": name} for number, name in enumerate(about.creators)
    ]
    licence = {"@id": f"https://spdx.org/licenses/{about.licence}", "@type": "CreativeWork", "name": about.licence}
    measured = sorted(run.measured_at for run in runs if run.measured_at)
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": about.title,
            "description": f"{len(runs)} measurements of how containers contend for their network, by pairlab"
            f" {__version__}: a table each, a data dictionary, and packs that pairlab reads",
            "datePublished": f"{datetime.now(UTC):%Y-%m-%d}",
            **({"temporalCoverage": f"{measured[0]:%Y-%m-%d}/{measured[-1]:%Y-%m-%d}"} if measured else {}),
            "license": {"@id": licence["@id"]},
            "creator": [{"@id": each["@id"]} for each in people],
            "hasPart": [{"@id": file.name} for file in files],
        },
        licence,
        *people,
        *map(_described, files),
    ]
    path = folder / "ro-crate-metadata.json"
    path.write_text(json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=1) + "\n", encoding="utf-8")
    return path


def _described(file: Path) -> dict[str, object]:
    with open(file, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    kinds = {".parquet": "application/vnd.apache.parquet", ".pack": "application/zip"}
    return {
        "@id": file.name,
        "@type": "File",
        "name": file.stem,
        "contentSize": str(file.stat().st_size),
        "encodingFormat": kinds.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream",
        "sha256": digest,
    }
