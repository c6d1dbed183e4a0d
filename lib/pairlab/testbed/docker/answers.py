"""Fields of a Docker daemon's answers, which may be missing or null.

Of what pairlab reads, versions 1.41 to 1.54 of the Engine API require only the Id of what was created, and Name and
Version of a component. A container's State and GraphDriver may be null, GraphDriver may be missing (from 1.52), maps
such as Labels, Networks and Containers may be null, an event's timeNano may be missing, and a build's `error` has given
way to `errorDetail`. All other fields are in the schema of each version, and not required.
Source: api/docs/v1.41.yaml to v1.54.yaml and api/types of github.com/moby/moby.
"""

from collections.abc import Mapping
from typing import Any

from docker.errors import DockerException


class IncompleteAnswer(DockerException):
    """An answer lacks a field without which pairlab cannot go on."""


def optional(answer: Any, *names: str) -> Any:
    """The field by its names, from the outermost to the innermost; None where one is missing or null."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return answer


def required(answer: Any, *names: str) -> Any:
    """As optional. Raises IncompleteAnswer in place of None."""
    if (value := optional(answer, *names)) is None:
        raise IncompleteAnswer(f"an answer without {'.'.join(names)}")
    return value


def failure(message: Any) -> str:
    """The error in a message of a stream, such as a build's; empty: none."""
    return optional(message, "errorDetail", "message") or optional(message, "error") or ""
