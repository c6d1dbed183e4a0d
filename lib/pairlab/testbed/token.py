"""The token by which flowgen's servers know their clients from others who reach their port: lib/flowgen/src/token.h."""

import secrets
from pathlib import Path

from pairlab.testbed.contracts import Site

_FILE, _BYTES = "token", 16


def write(directory: Path) -> None:
    """Makes the file with a new token in that directory."""
    (directory / _FILE).write_bytes(secrets.token_bytes(_BYTES))
    (directory / _FILE).chmod(0o644)  # a container's user is not ours; other users do not get into the directory


def options(site: Site) -> list[str]:
    """The options of server and client by which they read it."""
    return ["--token-file", f"{site.directory}/{_FILE}"]
