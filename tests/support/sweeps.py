"""Sweeps that are made up: their files, starts and results in the store, without a process that measures them."""

from datetime import UTC, datetime, timedelta

import yaml

from pairlab import store
from pairlab.batch import sweep_file, sweep_manifest
from pairlab.model.records import Run
from pairlab.model.tables import table

GRID = {"driver": ["bridge", "host"], "pairs": [1, 2], "duration_s": 2, "workload": "flowgen"}
SMALL = {"name": "small", "repetitions": 2, "experiments": {"throughput": GRID}}
#: Experiments of several grids, for sweeps of three repetitions.
SEVERAL = {
    "throughput": [
        {"driver": ["bridge", "host"], "pairs": [1, 2]},
        {"driver": "macvlan", "pairs": [1, 2, 5], "repetitions": 1},
        {"driver": "bridge", "pairs": 20, "backends": ["docker"], "repetitions": 2},
    ]
}
#: When the sweeps here start, where nothing else is said.
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def load(folder, text=None, **changes):
    """A sweep from a file with that text, or else SMALL, with these keys of it changed."""
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(SMALL | changes) if text is None else text)
    return sweep_file.load(file)


def begin(folder, *, retry=False, at=START, backend=None, pool=None, **changes):
    """Starts the sweep SMALL, with these keys of its file changed, as its process does; returns its cells in order."""
    sweep = load(folder, **changes)
    sweep_manifest.write(sweep, sweep_file.rules(sweep, backend), retry=retry, pool=pool, at=at)
    return sweep_file.cells(sweep, backend)


def end(spec, status="ok", *reasons, after_s=0.0, bps=1e9):
    """Stores a result of that cell, measured so long after START."""
    rows = [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": bps, "fct_s": 1e6 / bps}]
    flows = table("flows", rows if status in ("ok", "invalid") else ())
    return store.write(Run(spec, status, reasons, START + timedelta(seconds=after_s), flows=flows))


class Executor:
    """Stores a made-up run for each cell it is given; `trouble` maps a cell to what comes of it instead."""

    def __init__(self, trouble=lambda spec: None):
        self.failure = trouble
        self.given = []

    def __call__(self, spec):
        self.given.append(spec)
        trouble = self.failure(spec)
        if isinstance(trouble, BaseException):
            raise trouble
        status, reasons = trouble or ("ok", ())
        rows = [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 2e9}]
        return store.write(Run(spec, status, reasons, datetime.now(UTC), flows=table("flows", rows)))
