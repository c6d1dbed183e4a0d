"""Child processes: their environment, their end with their parent's, and watchdogs, which clean up after it.

Their environment holds none of the user's secrets: traffic tools, switches and helpers need only a few variables, and
it can be read in /proc or in a core dump. Notebook kernels run the user's own code, and get all variables.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.ownership import closed_in_forks

#: Variables for programs (besides PATH), libraries, the home directory and the language.
_NEEDED = ("HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS")
_NEEDED_KINDS = ("LC_", "PYTHON", "PAIRLAB_")

#: Where most systems have their programs: for what pairlab itself cannot do without.
USUAL = ("/usr/local/bin", "/usr/bin", "/bin")

#: Variables to reach the Docker daemon: docker(1), "Environment variables"; ssh's agent; proxies.
_DOCKER = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_DOCKER_KINDS = ("DOCKER_",)


def needed() -> dict[str, str]:
    """The part of our environment that any program of a testbed may have, with the owner's mark."""
    return _selected(_NEEDED, _NEEDED_KINDS)


def needed_with_docker() -> dict[str, str]:
    """The same, with the variables to reach the Docker daemon."""
    return _selected(_NEEDED + _DOCKER, _NEEDED_KINDS + _DOCKER_KINDS)


def search_path(*further: str) -> str:
    """Where programs are looked for, as a PATH: where the user's says, and in system folders that it often lacks.

    further: more folders. A system may have its programs nowhere but on PATH, as NixOS and Guix have.
    """
    own = filter(None, os.environ.get("PATH", ":".join(USUAL)).split(os.pathsep))
    return os.pathsep.join(dict.fromkeys((*own, "/usr/local/sbin", "/usr/sbin", "/sbin", *further)))


def _selected(names: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, str]:
    chosen = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in names or name.startswith(kinds)  # proxies have lower-case names, too
    }
    return chosen | {"PATH": search_path(*USUAL), ownership.MARK: ownership.me()}


def killed_with_parent(argv: Sequence[str]) -> list[str]:
    """The command wrapped so that the kernel kills it when the thread that started it ends (prctl(2)).

    By setpriv(1) of util-linux; without it, the command unchanged.
    """
    setpriv = shutil.which("setpriv", path=search_path(*USUAL))
    return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *argv]


#: Makes a directory, or prints the error, and becomes the shell that has the directory as its argument. That shell must
#: go on even if no process is left to read the name.
_MAKE_DIRECTORY = """
trap "" PIPE
made=$(mktemp -d "$1" 2>&1) || { echo "$made"; exit 1; }
exec /bin/sh -c 'echo "$1"; read -r _; '"$2" sh "$made"
"""


@contextlib.contextmanager
def guarded(script: str, *arguments: str) -> Iterator[None]:
    """Runs that shell script, with these arguments, when this process dies, or else at the end of the block.

    In both cases our end of the watchdog's pipe is closed. The block normally cleans up itself, so that the script has
    nothing left to do. Raises OSError where no process can be started.
    """
    argv = ["/bin/sh", "-c", f"read -r _; {script}", "sh", *arguments]
    with _watchdog(argv, stdout=subprocess.DEVNULL):  # our stdout may be a pipe whose reader waits for its end
        yield


@contextlib.contextmanager
def guarded_directory(script: str, prefix: str) -> Iterator[Path]:
    """A new directory that only this user may enter; the script runs as in `guarded`, with the directory as argument.

    prefix: of the path. The watchdog makes the directory, so that we may be killed at any moment, and its name is
    secret before it exists. Raises OSError where it cannot be made.
    """
    argv = ["/bin/sh", "-c", _MAKE_DIRECTORY, "sh", f"{prefix}XXXXXXXX", script]
    with _watchdog(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        with process.stdout as output:
            line = os.fsdecode(output.readline()).rstrip("\n")
        if not line.startswith(prefix):
            raise OSError(line or "the watchdog that makes it was killed")
        yield Path(line)


@contextlib.contextmanager
def _watchdog(argv: Sequence[str], stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        argv,
        bufsize=0,  # a buffer has a lock, which one thread may hold when another forks
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=needed(),
        cwd="/",
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    assert process.stdin
    closed_in_forks(process.stdin)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
