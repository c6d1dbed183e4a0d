"""What decides the claims of the ledger: pure functions from one row per run to an effect.

A sweep visits every cell once per repetition, so cells are compared within a repetition, where slow drift of the
machine cancels, and repetitions are averaged; percentiles, the median included, are of the flows of all repetitions
(statistics/quantiles.py). A module for each kind of question; each registers its estimators (effect.py), and
cell_reader.py chooses the cells. A module that is added here is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from pairlab.analysis.claims.effect import ESTIMATORS, get

__all__ = ["ESTIMATORS", "get"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
