"""pairlab measures how containers sharing a host contend for its network.

    from pairlab import Spec, load_runs, measure, open_testbed

    run = measure(Spec(experiment="throughput", backend="netns", driver="bridge", pairs=5, duration_s=3))
    run.flows                              # a DataFrame, a row per flow

    with open_testbed(Spec(driver="bridge", pairs=50)) as bed:
        bed.pairs[0].client.run(["ip", "address"])

Names are loaded when first used, so that the processes inside sandboxes start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pairlab.collection import Runs, load_runs
    from pairlab.measurement import measure
    from pairlab.records import Run
    from pairlab.spec import Spec
    from pairlab.testbed.bed import open_testbed

__all__ = ["Run", "Runs", "Spec", "load_runs", "measure", "open_testbed"]
__version__ = "0.1.0"

_HOMES = {
    "Run": "pairlab.records",
    "Runs": "pairlab.collection",
    "Spec": "pairlab.spec",
    "load_runs": "pairlab.collection",
    "measure": "pairlab.measurement",
    "open_testbed": "pairlab.testbed.bed",
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'pairlab' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
