"""What a sandbox and its agent say to each other: JSON, in which a few kinds of plain values have their name.

What runs in a sandbox is not trusted: an answer can be wrong, but never be more than data.
"""

import json
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from multiprocessing.connection import Connection
from typing import Any

from pairlab.testbed.endpoints import EndpointPlan, HostPlan, Limits, Link, Uplink
from pairlab.testbed.requirements import Lack

#: The key of a value's kind; no fact of a driver has it.
_KIND = "pairlab kind"
_KINDS = {kind.__name__: kind for kind in (EndpointPlan, HostPlan, Lack, Limits, Link, Uplink)}

#: What a call may have in it, and what an answer may.
OF_CALLS, OF_ANSWERS = (EndpointPlan, HostPlan, Limits, Link, Uplink), (Lack,)

#: Far more than the facts of any network; 5,000 pairs' plans have 2 MB.
_MOST_BYTES = 64 * 2**20

#: Marks a message that is no answer yet, but says how far the call is.
PROGRESS = "progress"


def send(connection: Connection, value: Any) -> None:
    """Raises OSError where the other end is gone, TypeError for what JSON has not."""
    connection.send_bytes(json.dumps(value, default=_named).encode())


def receive(connection: Connection, kinds: Collection[type]) -> Any:
    """The next value, in which only these kinds may be.

    Raises EOFError or OSError where the other end is gone, or sends too much, ValueError where it is nothing that
    `send` sends.
    """
    names = {kind.__name__ for kind in kinds}

    def unnamed(found: dict[str, Any]) -> Any:
        if _KIND not in found:
            return found
        name = found.pop(_KIND)
        if name not in names:
            raise ValueError(f"a {name!r} is not expected here")
        return _made(_KINDS[name], found)

    return json.loads(connection.recv_bytes(_MOST_BYTES), object_hook=unnamed)


def _named(value: Any) -> dict[str, Any]:
    if not is_dataclass(value) or type(value).__name__ not in _KINDS:
        raise TypeError(f"{value!r} cannot be sent")
    return {_KIND: type(value).__name__, **{field.name: getattr(value, field.name) for field in fields(value)}}


def _made(kind: type, values: dict[str, Any]) -> Any:
    """JSON has lists only, and these kinds none. Raises ValueError where the values are not that kind's."""
    try:
        return kind(**{name: tuple(each) if isinstance(each, list) else each for name, each in values.items()})
    except TypeError as error:
        raise ValueError(f"no {kind.__name__}: {error}") from None
