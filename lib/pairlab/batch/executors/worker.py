"""What a worker of Dask does for a sweep: it measures a cell on its host, and sends back the run that came of it.

Its runs lie in a folder of their own until they are sent, so that hosts need not share a store.
"""

import platform
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pairlab import store
from pairlab._version import __version__
from pairlab.base.environment import setting
from pairlab.batch import experiments
from pairlab.batch.executors.local import LocalExecutor
from pairlab.errors import BadInput, Unavailable
from pairlab.measurement.measure import check
from pairlab.model.spec import Spec
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.host import facts

#: Where a worker's runs lie is a setting of its process. Dask starts a second cell where it took the worker for gone.
_one_at_a_time = threading.Lock()


def describe(cells: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Who this worker is, and why it cannot measure which of these cells, by their number: workers.Introduction."""
    missing = {}
    for number, values in enumerate(cells):
        try:
            check(Spec(**values))
        except (Unavailable, BadInput) as error:
            missing[str(number)] = str(error)
    return {
        "pairlab": __version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        "name": platform.node(),
        "host": facts.host(),
        "missing": missing,
    }


def measure_cell(
    values: Mapping[str, Any], notebook: tuple[str, bytes] | None, attempts: int, wait: bool
) -> dict[str, Any]:
    """Measures that spec here; returns the cell's state, its text, and the run as `store.packed` has it: workers.Reply.

    notebook: name and content of the experiment's notebook, where the worker may not have it. wait: for other
    measurements on this host, else HostBusy.
    """
    with _one_at_a_time, working_directory() as place:
        folder = place / "runs"
        with setting(PAIRLAB_RUNS=str(folder)):
            spec = Spec(**values)
            if notebook:
                name, content = notebook
                (place / Path(name).name).write_bytes(content)
                experiments.named(Path(name).name, place)
            measure = partial(experiments.measure_cell, wait=wait, attempts=attempts)
            outcome = LocalExecutor(measure, retry=True).measure_cell(spec)
            stored = store.latest(spec)
            content = store.packed(stored) if stored else b""
            shutil.rmtree(folder, ignore_errors=True)
    return {"state": outcome.state, "text": outcome.text, "run": content, "counts": outcome.run is not None}
