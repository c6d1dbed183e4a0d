"""The environment of child processes: what they need, and nothing that may be a secret of the user's.

Traffic tools, switches and helpers need little of it, and it can be read in /proc or in a core dump. Kernels of
notebooks run the user's own code, and get all of it.
"""

import os

from pairlab.testbed.cleanup import ownership

#: To find programs, libraries and a home, and the language.
_NEEDED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS")
_NEEDED_KINDS = ("LC_", "PYTHON", "PAIRLAB_")

#: How to reach the daemon: docker(1), "Environment variables"; the key ring for one behind ssh; proxies.
_DOCKER = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_DOCKER_KINDS = ("DOCKER_",)


def needed() -> dict[str, str]:
    """The part of our environment that any program of a testbed may have, and the mark that it is ours."""
    return _kept(_NEEDED, _NEEDED_KINDS) | {ownership.MARK: ownership.me()}


def needed_with_docker() -> dict[str, str]:
    """The same, and what a process of ours needs that talks to the Docker daemon."""
    return _kept(_NEEDED + _DOCKER, _NEEDED_KINDS + _DOCKER_KINDS) | {ownership.MARK: ownership.me()}


def _kept(names: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() in names or name.startswith(kinds)  # proxies have lower-case names, too
    }
