"""The messages between a sandbox and its agent: JSON, in which dataclasses of a few kinds are marked by name.

Processes in a sandbox are not trusted: an answer can be wrong, but never more than data.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from multiprocessing.connection import Connection
from typing import Any

from pairlab import errors
from pairlab.testbed.endpoints import EndpointPlan, HostPlan, Limits, Link, Uplink
from pairlab.testbed.requirements import MissingRequirement

#: The key of a value's kind; no fact of a driver has it.
_KIND = "pairlab kind"
_KINDS = {kind.__name__: kind for kind in (EndpointPlan, HostPlan, MissingRequirement, Limits, Link, Uplink)}

#: The kinds allowed in calls, and in answers.
OF_CALLS, OF_ANSWERS = (EndpointPlan, HostPlan, Limits, Link, Uplink), (MissingRequirement,)

#: Far more than the facts of any network; the plans of 5,000 pairs take 2 MB.
_MOST_BYTES = 64 * 2**20

#: Marks a progress message, sent before the answer.
PROGRESS = "progress"


def send(connection: Connection, value: Any) -> None:
    """Raises OSError where the other end is gone, TypeError for values that JSON lacks."""
    connection.send_bytes(encoded(value))


def encoded(value: Any) -> bytes:
    """The bytes that `send` sends. Raises TypeError for values that JSON lacks."""
    return json.dumps(value, default=_named).encode()


def receive(connection: Connection, kinds: Collection[type]) -> Any:
    """The next value. kinds: the only kinds that it may contain.

    Raises EOFError or OSError where the other end is gone or sends too much, ValueError for a malformed message.
    """
    return decoded(connection.recv_bytes(_MOST_BYTES), kinds)


def result(connection: Connection, progress: Callable[[int], None] = lambda done: None, whose: str = "") -> Any:
    """The result of a call, which is waited for. Raises the call's error, and besides as `receive`.

    progress: called with the progress that is reported before. whose: before the words of an error.
    """
    while True:
        answer = receive(connection, OF_ANSWERS)
        if not isinstance(answer, list) or len(answer) != 2:
            raise ValueError("it is no pair")
        state, content = answer
        if state is True:
            return content
        if state == PROGRESS:
            progress(int(content))
        elif state is False and isinstance(content, list) and [type(each) for each in content] == [str, str]:
            raise errors.by_name(content[0])(f"{whose}{content[1]}")
        else:
            raise ValueError("it is neither a result nor an error")


def decoded(text: bytes, kinds: Collection[type]) -> Any:
    """The inverse of `encoded`, for these kinds only. Raises ValueError for a malformed message."""
    names = {kind.__name__ for kind in kinds}

    def unnamed(values: dict[str, Any]) -> Any:
        if _KIND not in values:
            return values
        name = values.pop(_KIND)
        if name not in names:
            raise ValueError(f"a {name!r} is not expected here")
        return _instance(_KINDS[name], values)

    return json.loads(text, object_hook=unnamed)


def _named(value: Any) -> dict[str, Any]:
    if not is_dataclass(value) or type(value).__name__ not in _KINDS:
        raise TypeError(f"{value!r} cannot be sent")
    return {_KIND: type(value).__name__, **{field.name: getattr(value, field.name) for field in fields(value)}}


def _instance(kind: type, values: dict[str, Any]) -> Any:
    """Lists become tuples, which JSON lacks. Raises ValueError where the values are not that kind's fields."""
    try:
        return kind(**{name: tuple(each) if isinstance(each, list) else each for name, each in values.items()})
    except TypeError as error:
        raise ValueError(f"no {kind.__name__}: {error}") from None
