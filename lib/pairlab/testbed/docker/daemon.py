"""The user's Docker daemon: which one, as the docker CLI chooses it, and why it cannot be used where that is so."""

import contextlib
import hashlib
import json
import os
import platform
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import docker
import psutil
import requests
from docker.errors import APIError, DockerException, InvalidVersion
from docker.tls import TLSConfig
from docker.utils import parse_host

from pairlab.testbed.host import facts
from pairlab.testbed.requirements import Lack

#: Errors of a daemon that refuses, or does not answer.
DOCKER_ERRORS = (DockerException, requests.RequestException)
#: Calls to the daemon under way at once.
AT_ONCE = 16
#: How long a daemon may take to answer a ping, and any one call: starts wait for each other.
PING_S, ANSWER_S = 5, 60
#: docker-py's address of any daemon behind a Unix socket.
_LOCAL = "http+docker://localhost"
#: Files of a context with TLS, without their ending.
_KEYS = ("ca", "cert", "key")
_USUAL = "/var/run/docker.sock"
_INSTALL = "sudo apt-get install docker.io, and start it: sudo systemctl start docker"


class NoContext(DockerException):
    """The context that the user chose is not there, or cannot be read."""


class BadAddress(DockerException):
    """DOCKER_HOST is no address of a daemon."""


class Context(NamedTuple):
    """A context of the docker CLI: its name, and what docker.DockerClient takes to reach its daemon."""

    name: str
    base_url: str
    tls: TLSConfig | None


def connect(timeout_s: int | None = None) -> docker.DockerClient:
    """A client of the daemon that the docker CLI would talk to: DOCKER_HOST's, else that of the chosen context.

    timeout_s: for any one call; by default ANSWER_S. Raises DockerException within PING_S where none answers.
    """
    asked: dict[str, Any] = {"timeout": PING_S, "max_pool_size": AT_ONCE}
    if chosen := context():
        client = docker.DockerClient(base_url=chosen.base_url, tls=chosen.tls or False, **asked)
    else:
        _check_address(os.environ.get("DOCKER_HOST"))
        client = docker.from_env(**asked)
    client.api.timeout = timeout_s or ANSWER_S
    return client


def _check_address(address: str | None) -> None:
    """Raises BadAddress where DOCKER_HOST is none."""
    try:
        _ = urlsplit(parse_host(address)).port
    except (ValueError, DockerException) as error:
        raise BadAddress(f"DOCKER_HOST is {address!r}, which is no address: {error}") from None


def is_remote(client: docker.DockerClient) -> bool:
    """Whether its daemon may be on another host: it is not reached by a Unix socket."""
    return client.api.base_url != _LOCAL


def context() -> Context | None:
    """The context that DOCKER_CONTEXT or the CLI's config.json names; None: the default one, or DOCKER_HOST counts.

    Raises NoContext. Source: docker-context(1), and "Environment variables" of docker(1).
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker"))
    name, named_by = os.environ.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        named_by = str(folder / "config.json")
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the CLI does without such a file, too
            name = json.loads((folder / "config.json").read_bytes()).get("currentContext") or ""
    if os.environ.get("DOCKER_HOST") or name in ("", "default"):
        return None
    identity = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
    try:
        meta = json.loads((folder / "contexts" / "meta" / identity / "meta.json").read_bytes())
        endpoint = meta["Endpoints"]["docker"]
        host, skips_verification = endpoint["Host"], bool(endpoint.get("SkipTLSVerify"))
    except FileNotFoundError:
        raise NoContext(f"there is no Docker context {name!r}, which {named_by} names") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise NoContext(f"the Docker context {name!r}, which {named_by} names, cannot be read: {error!r}") from error
    keys = folder / "contexts" / "tls" / identity / "docker"
    ca, cert, key = (str(file) if file.exists() else None for file in (keys / f"{each}.pem" for each in _KEYS))
    tls = None
    if host.startswith("tcp://") and (ca or cert or skips_verification):
        tls = TLSConfig((cert, key) if cert and key else None, ca_cert=ca, verify=not skips_verification)
    return Context(name, host, tls)


def lack() -> Lack | None:
    """Why there is no Docker daemon for us, or None."""
    try:
        with contextlib.closing(connect(2 * PING_S)) as client:
            info = client.info()
            engines = client.version().get("Components") or []
            here = is_here(client, info)
    except DOCKER_ERRORS as error:
        return explain(error)
    if podman := [each for each in engines if each.get("Name") == "Podman Engine"]:
        return Lack(
            f"Podman {podman[0].get('Version', '')} answers at {where()}, and is no Docker Engine",
            "set DOCKER_HOST to the socket of Docker Engine, or take backend 'netns', which needs neither",
        )
    if not here:
        return Lack(
            f"the Docker daemon runs on another host ({info['Name']})",
            "CPU use is measured where pairlab runs: run pairlab there",
        )
    return None


def is_here(client: docker.DockerClient, info: dict[str, Any]) -> bool:
    """Whether the daemon runs on this host.

    One that was started before the host was renamed may still have the old name. So, unless this is a container, whose
    name is another anyway, the kernel and the size of the memory decide behind a Unix socket.
    """
    if info["KernelVersion"] != platform.release():
        return False
    if info["Name"] == socket.gethostname():
        return True
    same_memory = info.get("MemTotal") == psutil.virtual_memory().total
    return same_memory and not is_remote(client) and not facts.in_container()


def where() -> str:
    """Where the daemon is asked, for a text."""
    with contextlib.suppress(NoContext):
        if chosen := context():
            return f"{chosen.base_url} (context {chosen.name!r})"
    return os.environ.get("DOCKER_HOST") or _USUAL


def is_absent(error: Exception) -> bool:
    """Whether no daemon is there at all, or none for this user, so that it can have nothing of ours."""
    return any(
        isinstance(each, (FileNotFoundError, ConnectionRefusedError, PermissionError)) for each in _causes(error)
    )


def explain(error: Exception) -> Lack:
    """What an error of DOCKER_ERRORS, as `connect` and clients raise them, says of the daemon, and what to do."""
    causes = list(_causes(error))
    if isinstance(error, NoContext):
        return Lack(str(error), "`docker context ls` lists those there are; choose one with `docker context use`")
    if isinstance(error, BadAddress):
        return Lack(str(error), f"unset DOCKER_HOST, or give one such as unix://{_USUAL}")
    if refused := next((each for each in causes if isinstance(each, APIError)), None):
        said = " ".join(str(refused.explanation or refused).split())
        if said.startswith("<"):
            return _no_daemon(f"HTTP {refused.status_code}, with the page {_title(said)!r}")
        what = f"the Docker daemon at {where()} refuses ({refused.status_code}): {said}"
        return Lack(what, "ask who runs it, or take backend 'netns', which needs none")
    if any(isinstance(each, (json.JSONDecodeError, KeyError)) for each in causes):  # no JSON, or another's
        return _no_daemon("something else than the Docker API")
    if any(isinstance(each, InvalidVersion) for each in causes):
        return Lack(f"the Docker daemon at {where()} is too old: {error}", "update Docker Engine")
    if any(isinstance(each, PermissionError) for each in causes):
        return Lack("the Docker daemon refuses this user", "sudo usermod -aG docker $USER, and log in again")
    if any(isinstance(each, requests.Timeout) for each in causes):
        what = f"the Docker daemon at {where()} did not answer in time"
        return Lack(what, "see its log, journalctl -u docker, or restart it: sudo systemctl restart docker")
    known = "" if is_absent(error) else f": {' '.join(str(error).split())}"
    chosen = "" if where() == _USUAL else ", or choose another by DOCKER_HOST or `docker context use`"
    return Lack(f"no Docker daemon answers at {where()}{known}", f"{_INSTALL}{chosen}")


def _no_daemon(answer: str) -> Lack:
    proxied = where().startswith("tcp://") and any(os.environ.get(name) for name in ("http_proxy", "HTTP_PROXY"))
    through = " (a proxy's, perhaps: HTTP_PROXY is set)" if proxied else ""
    what = f"what answers at {where()} is no Docker daemon: it sent {answer}{through}"
    return Lack(what, "correct DOCKER_HOST or the context, or name its host in NO_PROXY")


def _title(page: str) -> str:
    title = re.search(r"<title>(.*?)</title>", page, re.IGNORECASE)
    return title[1].strip() if title else page[:80]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it came of, and what these were made of: requests and urllib3 keep errors in their arguments."""
    seen: list[BaseException] = []
    left: list[object] = [error]
    while left:
        each = left.pop(0)
        if isinstance(each, BaseException) and not any(each is other for other in seen):
            seen.append(each)
            left += [each.__cause__, each.__context__, *each.args, getattr(each, "reason", None)]
    yield from seen
