"""Keeps runs: writes one whole or not at all, and reads it back, its tables when they are asked for.

runs/<experiment>/<key>/ holds run.json, flows.parquet, intervals.parquet, cpu.parquet, raw.zip and, where papermill ran
it, notebook.ipynb. A spec that is measured again, on another ground or as `fresh`, is <key>.2, <key>.3, … beside it. A
run is written under a hidden name, synced to the disk and renamed when whole, so what has its name is whole, even after
a power cut. One that was not ok and is measured again moves to .replaced/ and is not deleted.

paths: where all that lies. runs: a run written and read. heads, tables: its two kinds of files; migrations: heads of
older versions. dataset: many runs, as DataFrames. drafts: hidden names and their locks. manifests: the cells that a
sweep has. follower: runs as they come. garbage: what accidents left. Names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pairlab.store.drafts import draft, drafts_of_others
    from pairlab.store.follower import Follower
    from pairlab.store.garbage import debris, discard
    from pairlab.store.manifests import (
        is_running,
        keys_of_sweep,
        remember_sweep,
        remember_workers,
        running,
        starts_of_sweep,
        workers_of_sweep,
    )
    from pairlab.store.paths import directories, directories_of, directory_of, free_directory
    from pairlab.store.runs import (
        attach_notebook,
        columns,
        find,
        latest,
        length,
        outcomes,
        packed,
        read,
        receive,
        status,
        statuses,
        statuses_of,
        with_spec,
        write,
    )

_HOMES = {
    "drafts": ("draft", "drafts_of_others"),
    "follower": ("Follower",),
    "garbage": ("debris", "discard"),
    "manifests": (
        "is_running",
        "keys_of_sweep",
        "remember_sweep",
        "remember_workers",
        "running",
        "starts_of_sweep",
        "workers_of_sweep",
    ),
    "paths": ("directories", "directories_of", "directory_of", "free_directory"),
    "runs": (
        "attach_notebook",
        "columns",
        "find",
        "latest",
        "length",
        "outcomes",
        "packed",
        "read",
        "receive",
        "status",
        "statuses",
        "statuses_of",
        "with_spec",
        "write",
    ),
}
__all__ = [
    "Follower",
    "attach_notebook",
    "columns",
    "debris",
    "directories",
    "directories_of",
    "directory_of",
    "discard",
    "draft",
    "drafts_of_others",
    "find",
    "free_directory",
    "is_running",
    "keys_of_sweep",
    "latest",
    "length",
    "outcomes",
    "packed",
    "read",
    "receive",
    "remember_sweep",
    "remember_workers",
    "running",
    "starts_of_sweep",
    "status",
    "statuses",
    "statuses_of",
    "with_spec",
    "workers_of_sweep",
    "write",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
