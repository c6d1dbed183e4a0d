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

from pairlab._version import __version__ as __version__

if TYPE_CHECKING:
    from pairlab.measurement.measure import block, measure
    from pairlab.model.records import Run
    from pairlab.model.spec import Spec, spec_from
    from pairlab.store.dataset import Runs, load_runs
    from pairlab.testbed.open import open_testbed

__all__ = ["Run", "Runs", "Spec", "block", "load_runs", "measure", "open_testbed", "spec_from"]

_HOMES = {
    "Run": "pairlab.model.records",
    "Runs": "pairlab.store.dataset",
    "Spec": "pairlab.model.spec",
    "load_runs": "pairlab.store.dataset",
    "block": "pairlab.measurement.measure",
    "measure": "pairlab.measurement.measure",
    "open_testbed": "pairlab.testbed.open",
    "spec_from": "pairlab.model.spec",
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'pairlab' has no attribute {name!r}")
    if _HOMES[name] == "pairlab.model.spec":
        import_module("pairlab.testbed.registry")  # which tells Spec the names of drivers and other plugins
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
