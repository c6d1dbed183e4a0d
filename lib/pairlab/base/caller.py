"""What a process asks of those that it starts, such as notebooks' kernels: one object, in one environment variable."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from pairlab.base.environment import setting
from pairlab.errors import BadInput

VARIABLE = "PAIRLAB_CALLER"


@dataclass(frozen=True)
class Caller:
    """What whoever started this process asks of it.

    attempts: how often it may make a measurement, at most, while only the machine spoils it. wait: whether it may wait
    for other measurements on this host. report_to: the path of the socket that it reports to (progress/relay); empty:
    nobody listens. block: the label of the block that it measures in (model/blocks); empty: in none. label: what the
    user calls the state of the system that is measured; empty: nothing. scheduler: Dask's, on whose workers it
    computes; empty: it computes itself.
    """

    attempts: int = 1
    wait: bool = True
    report_to: str = ""
    block: str = ""
    label: str = ""
    scheduler: str = ""


def caller() -> Caller:
    """What is asked of this process; of one that a user started, nothing. Raises BadInput where that is damaged."""
    try:
        return Caller(**json.loads(os.environ.get(VARIABLE, "{}")))
    except (ValueError, TypeError) as error:
        raise BadInput(
            f"{VARIABLE} is set by pairlab for its own processes, and is damaged ({error}): unset it"
        ) from None


@contextlib.contextmanager
def caller_with(**values: Any) -> Iterator[None]:
    """In the block, this process and those that it starts are asked this, too. values: fields of a Caller."""
    with setting(**{VARIABLE: json.dumps(asdict(replace(caller(), **values)))}):
        yield
