"""Keeps runs: writes one whole or not at all, and reads it back, its tables when they are asked for.

runs/<experiment>/<key>/ holds run.json, flows.parquet, intervals.parquet, cpu.parquet, raw/ and, where papermill ran
it, notebook.ipynb. A run is written under a hidden name, synced to the disk and renamed when whole, so what has its
name is whole, even after a power cut; a run that is measured again moves to .replaced/ and is not deleted.

places: where all that lies. runs: a run written and read. heads, tables: its two kinds of files. drafts: hidden names
and their locks. durable: syncing and renaming. sweeps: the cells that a sweep has. following: runs
as they come. cleaning: what accidents left.
"""

from pairlab.store.cleaning import debris, discard
from pairlab.store.drafts import draft
from pairlab.store.following import Follower
from pairlab.store.places import directories, directory_of
from pairlab.store.runs import attach_notebook, columns, find, length, read, status, write
from pairlab.store.sweeps import is_running, keys_of_sweep, remember_sweep, running, starts_of_sweep

__all__ = [
    "Follower",
    "attach_notebook",
    "columns",
    "debris",
    "directories",
    "directory_of",
    "discard",
    "draft",
    "find",
    "is_running",
    "keys_of_sweep",
    "length",
    "read",
    "remember_sweep",
    "running",
    "starts_of_sweep",
    "status",
    "write",
]
