"""Keeps runs: writes one whole or not at all, and reads it back, its tables when they are asked for.

runs/<experiment>/<key>-<tag>/ holds run.json, flows.parquet, intervals.parquet, cpu.parquet, raw.zip and, where
papermill ran it, notebook.ipynb. A spec that is measured again, in another environment or as `fresh`, is <key>.2-<tag>,
<key>.3-<tag>, … beside it. A run is written under a hidden name, synced to the disk and renamed when whole, so what has
its name is whole, even after a power cut. One that was not ok and is measured again moves to .replaced/ and is not
deleted.

runs/<experiment>-<tag>.pack is a file of many runs, which everything reads as it reads their directories.

paths: where all that lies. runs: a run written and read. metadata, tables: its two kinds of files. packs,
packed_columns: the files with many runs; packing: how they are made. merging: runs of other stores, and runs that are
taken away. catalogue: which runs there are, in directories
and packs. dataset: many runs, as DataFrames. drafts: hidden names and their locks. manifests: the cells that a sweep
has. follower: runs as they come. cleaning: what accidents left. Names are loaded when first used.
"""

# ruff: noqa: F401, F403 - for types; what the package offers is _HOMES

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pairlab.store.catalogue import *
    from pairlab.store.cleaning import *
    from pairlab.store.drafts import *
    from pairlab.store.follower import *
    from pairlab.store.manifests import *
    from pairlab.store.merging import *
    from pairlab.store.packing import pack
    from pairlab.store.paths import directory_of
    from pairlab.store.runs import *

_HOMES = {
    module: names.split()
    for module, names in {
        "catalogue": "directories directories_of file_of stored",
        "cleaning": "leftovers clean_up",
        "drafts": "draft drafts_of_others",
        "follower": "Follower",
        "manifests": "is_running keys_of_sweep remember_sweep remember_workers running starts_of_sweep"
        " workers_of_sweep",
        "merging": "merge relabel remove removed restore",
        "packing": "pack",
        "paths": "directory_of",
        "runs": "attach_notebook columns find latest length outcomes export_run read import_run status statuses"
        " statuses_of with_key with_label with_spec write",
    }.items()
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
