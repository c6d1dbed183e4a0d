"""Environment variables that tell something to the processes started meanwhile."""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def setting(**variables: str) -> Iterator[None]:
    """These variables have these values in the block, and afterwards those that they had."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
