"""How often a measurement is made that only the machine spoilt: by other load, late samples, a clock that was set.

A sweep says so to the notebooks that it runs, through their environment.
"""

import os
from contextlib import AbstractContextManager

from pairlab.base.environment import setting

#: How many attempts the processes that run a notebook for us have.
VARIABLE = "PAIRLAB_ATTEMPTS"


def allowed() -> int:
    """How many attempts whoever started this process lets a measurement have."""
    given = os.environ.get(VARIABLE, "")
    return max(1, int(given)) if given.isdecimal() else 1


def allowing(attempts: int) -> AbstractContextManager[None]:
    """In the block, processes that are started have so many attempts at a measurement."""
    return setting(**{VARIABLE: str(attempts)})
