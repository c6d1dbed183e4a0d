"""The parameters of traffic from a distribution, read and checked.

This module imports nothing heavy, as every spec is checked with it.
"""

import functools
import re
from typing import Any

from pairlab.errors import BadInput

#: A number of servers, or several with their weights.
FAN_OUT = r"^([1-9]\d?|[1-9]\d?=\d{1,6}( [1-9]\d?=\d{1,6})*)$"

#: A distribution as a stored spec has it: a name, or points.
STORED = re.compile(r"[a-z0-9][a-z0-9-]{0,39}|[\d.e+-]+:[\d.e+-]+(,[\d.e+-]+:[\d.e+-]+)*")


def flow_sizes(given: str, *, may_be_file: bool = True) -> str:
    """A shipped distribution's name as it is, and a file's points as text, so that a spec depends on no file.

    may_be_file: else it is a name or points, as in stored specs, and no file is read. Raises ValueError, with what is
    wrong and what to do.
    """
    if not given or (not may_be_file and STORED.fullmatch(given)):
        return given
    if not may_be_file:
        raise ValueError("is neither the name of a distribution nor its points, as size:share,size:share")
    from pairlab.model import flow_sizes  # it loads numpy

    try:
        return given if given in flow_sizes.names() else flow_sizes.as_points(flow_sizes.load(given))
    except BadInput as error:
        raise ValueError(str(error)) from None


def fan_outs(text: str) -> dict[int, int]:
    """The weight of each number of servers that a request asks at once."""
    if "=" not in text:
        return {int(text): 1}
    pairs = (each.split("=") for each in text.split())
    return {int(servers): int(weight) for servers, weight in pairs}


def describe(flow_sizes: str) -> str:
    """A spec's flow_sizes, in short: prv2-1, or a CDF of 12 points."""
    return f"a CDF of {flow_sizes.count(':')} points" if ":" in flow_sizes else flow_sizes


def expected_s(spec: Any) -> float:
    """How long a spec's requests take to be due at its load, by the mean size of their flows."""
    return spec.requests * mean_bytes(spec.flow_sizes) * 8 / spec.offered_load_bps


@functools.lru_cache
def mean_bytes(flow_sizes: str) -> float:
    from pairlab.model import flow_sizes as distributions

    return distributions.load(flow_sizes).mean_bytes
