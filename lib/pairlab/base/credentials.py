"""The file by which a Dask scheduler, its workers and who sweeps know each other: a private key and its certificate.

The certificate is its own authority, so whoever has the file may connect, and nobody else. Source:
distributed.dask.org, TLS/SSL; req(1) of OpenSSL.
"""

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pairlab.errors import BadInput, Unavailable

#: The environment variable that names the file; unset: scheduler.pem among this user's settings.
VARIABLE = "PAIRLAB_CREDENTIALS"
#: A key of NIST P-256, and a certificate that says so for ten years.
_OPENSSL = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
    *("-days", "3650", "-subj", "/CN=pairlab", "-keyout", "-", "-out", "-"),
)


def file(named: str | Path | None = None) -> Path:
    """The file: as named, else by VARIABLE, else pairlab/scheduler.pem in $XDG_CONFIG_HOME, else in ~/.config."""
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(named or os.environ.get(VARIABLE) or Path(settings, "pairlab", "scheduler.pem")).absolute()


def make(path: Path) -> None:
    """Makes the file, which its owner alone can read, unless it is there. Raises Unavailable where that cannot be."""
    if path.exists():
        return
    try:
        os.makedirs(path.parent, mode=0o700, exist_ok=True)
        made = subprocess.run(_OPENSSL, capture_output=True, check=True, cwd="/")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-") as draft:  # mode 0600
            draft.write(made.stdout)
            draft.flush()
            with contextlib.suppress(FileExistsError):  # another scheduler has just made it
                os.link(draft.name, path)
    except OSError as error:
        needs = "install openssl" if error.filename == _OPENSSL[0] else "name another file by --credentials"
        raise Unavailable(f"{path} cannot be made: {error.strerror or error}: {needs}") from error
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(f"{path} cannot be made: openssl says: {last}") from error


def security(path: Path) -> Any:
    """Dask's Security by that file. Raises BadInput where it is not there, another user's, or readable by others."""
    from distributed.security import Security

    try:
        status = path.stat()
    except OSError as error:
        raise BadInput(
            f"no credentials in {path} ({error.strerror}): `pairlab scheduler` makes them on its host. Copy the file,"
            f" or name it by --credentials or {VARIABLE}"
        ) from error
    if status.st_uid != os.geteuid():
        raise BadInput(f"{path} is another user's, who could run commands as you: copy it to a file of your own")
    if status.st_mode & 0o077:
        raise BadInput(f"{path} is open to others, who could run commands as you: chmod 600 {path}, or make a new one")
    files = {f"tls_{role}_cert": str(path) for role in ("client", "scheduler", "worker")}
    found = Security(require_encryption=True, tls_ca_file=str(path), **files)
    try:
        found.get_connection_args("client")
    except OSError as error:
        raise BadInput(f"{path} is not the file that `pairlab scheduler` makes ({error}): copy that one") from error
    return found
