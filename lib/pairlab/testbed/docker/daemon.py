"""The user's Docker daemon, as the docker CLI chooses it, and the reason if it cannot be used."""

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

from pairlab.testbed.docker.answers import IncompleteAnswer, optional, required
from pairlab.testbed.host import facts
from pairlab.testbed.requirements import MissingRequirement

#: Errors of a daemon that refuses, or does not answer.
DOCKER_ERRORS = (DockerException, requests.RequestException)
#: Calls to the daemon under way at once.
AT_ONCE = 16
#: The time limits for a ping, and for any one call: starts wait for each other.
PING_S, ANSWER_S = 5, 60
#: docker-py's address of any daemon behind a Unix socket.
_LOCAL = "http+docker://localhost"
#: Files of a context with TLS, without their ending.
_KEYS = ("ca", "cert", "key")
_USUAL = "/var/run/docker.sock"
_INSTALL = "sudo apt-get install docker.io, and start it: sudo systemctl start docker"


class NoContext(DockerException):
    """The context that the user chose does not exist, or cannot be read."""


class BadAddress(DockerException):
    """DOCKER_HOST is no address of a daemon."""


class Context(NamedTuple):
    """A context of the docker CLI: its name, and docker.DockerClient's arguments for its daemon."""

    name: str
    base_url: str
    tls: TLSConfig | None


def connect(timeout_s: int | None = None) -> docker.DockerClient:
    """A client of the daemon that the docker CLI would talk to: DOCKER_HOST's, else that of the chosen context.

    timeout_s: for any one call; by default ANSWER_S. Raises DockerException within PING_S where none answers.
    """
    options: dict[str, Any] = {"timeout": PING_S, "max_pool_size": AT_ONCE}
    if chosen := context():
        _require_socket(chosen.base_url)
        client = docker.DockerClient(base_url=chosen.base_url, tls=chosen.tls or False, **options)
    else:
        _require_socket(_url_of(os.environ.get("DOCKER_HOST")))
        client = docker.from_env(**options)
    client.api.timeout = timeout_s or ANSWER_S
    return client


def _url_of(address: str | None) -> str:
    """The URL of DOCKER_HOST. Raises BadAddress where that is no address."""
    try:
        url = str(parse_host(address))
        _ = urlsplit(url).port
    except (ValueError, DockerException) as error:
        raise BadAddress(f"DOCKER_HOST is {address!r}, which is no address: {error}") from None
    return url


def _require_socket(url: str) -> None:
    """Raises DockerException if no process listens at that Unix socket: docker-py would leave a socket open."""
    scheme, _, path = url.partition("://")
    if "unix" not in scheme:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PING_S)
        try:
            probe.connect("/" + path.lstrip("/"))
        except OSError as error:
            raise DockerException(f"{path}: {error}") from error


def is_remote(client: docker.DockerClient) -> bool:
    """Whether the client's daemon may be on another host: it is not reached by a Unix socket."""
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


def missing() -> MissingRequirement | None:
    """Why there is no Docker daemon for us, or None."""
    try:
        with contextlib.closing(connect(2 * PING_S)) as client:
            info = client.info()
            engines = optional(client.version(), "Components") or []
            here = is_here(client, info)
    except DOCKER_ERRORS as error:
        return explain(error)
    if podman := [each for each in engines if optional(each, "Name") == "Podman Engine"]:
        return MissingRequirement(
            f"Podman {podman[0].get('Version', '')} answers at {where()}, and is no Docker Engine",
            "set DOCKER_HOST to the socket of Docker Engine, or take backend 'netns', which needs neither",
        )
    if not here:
        return MissingRequirement(
            f"the Docker daemon runs on another host ({info['Name']})",
            "CPU use is measured where pairlab runs: run pairlab there",
        )
    return None


def is_here(client: docker.DockerClient, info: dict[str, Any]) -> bool:
    """Whether the daemon runs on this host.

    A daemon that was started before the host was renamed may still report the old name. So behind a Unix socket the
    kernel and the memory size decide, unless this is a container, whose name differs anyway.
    """
    if required(info, "KernelVersion") != platform.release():
        return False
    if required(info, "Name") == socket.gethostname():
        return True
    same_memory = info.get("MemTotal") == psutil.virtual_memory().total
    return same_memory and not is_remote(client) and not facts.in_container()


def where() -> str:
    """The daemon's address, for messages."""
    with contextlib.suppress(NoContext):
        if chosen := context():
            return f"{chosen.base_url} (context {chosen.name!r})"
    return os.environ.get("DOCKER_HOST") or _USUAL


def is_absent(error: Exception) -> bool:
    """Whether there is no daemon, or none for this user, and so no container of ours."""
    return any(
        isinstance(each, (FileNotFoundError, ConnectionRefusedError, PermissionError)) for each in _causes(error)
    )


def explain(error: Exception) -> MissingRequirement:
    """Explains an error of DOCKER_ERRORS, from `connect` or a client, with the remedy."""
    causes = list(_causes(error))
    if isinstance(error, NoContext):
        return MissingRequirement(
            str(error), "`docker context ls` lists those there are; choose one with `docker context use`"
        )
    if isinstance(error, BadAddress):
        return MissingRequirement(str(error), f"unset DOCKER_HOST, or give one such as unix://{_USUAL}")
    if refused := next((each for each in causes if isinstance(each, APIError)), None):
        reason = " ".join(str(refused.explanation or refused).split())
        if reason.startswith("<"):
            return _no_daemon(f"HTTP {refused.status_code}, with the page {_title(reason)!r}")
        what = f"the Docker daemon at {where()} refuses ({refused.status_code}): {reason}"
        return MissingRequirement(what, "ask who runs it, or take backend 'netns', which needs none")
    if any(isinstance(each, (json.JSONDecodeError, KeyError)) for each in causes):  # no JSON, or another's
        return _no_daemon("something else than the Docker API")
    if isinstance(error, IncompleteAnswer):
        return _no_daemon(str(error))
    if any(isinstance(each, InvalidVersion) for each in causes):
        return MissingRequirement(f"the Docker daemon at {where()} is too old: {error}", "update Docker Engine")
    if any(isinstance(each, PermissionError) for each in causes):
        return MissingRequirement(
            "the Docker daemon refuses this user", "sudo usermod -aG docker $USER, and log in again"
        )
    if any(isinstance(each, requests.Timeout) for each in causes):
        what = f"the Docker daemon at {where()} did not answer in time"
        return MissingRequirement(
            what, "see its log, journalctl -u docker, or restart it: sudo systemctl restart docker"
        )
    detail = "" if is_absent(error) else f": {' '.join(str(error).split())}"
    chosen = "" if where() == _USUAL else ", or choose another by DOCKER_HOST or `docker context use`"
    return MissingRequirement(f"no Docker daemon answers at {where()}{detail}", f"{_INSTALL}{chosen}")


def _no_daemon(answer: str) -> MissingRequirement:
    proxied = where().startswith("tcp://") and any(os.environ.get(name) for name in ("http_proxy", "HTTP_PROXY"))
    through = " (a proxy's, perhaps: HTTP_PROXY is set)" if proxied else ""
    what = f"what answers at {where()} is no Docker daemon: it sent {answer}{through}"
    return MissingRequirement(what, "correct DOCKER_HOST or the context, or name its host in NO_PROXY")


def _title(page: str) -> str:
    title = re.search(r"<title>(.*?)</title>", page, re.IGNORECASE)
    return title[1].strip() if title else page[:80]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, also those in arguments of exceptions, as requests and urllib3 have them."""
    causes: list[BaseException] = []
    pending: list[object] = [error]
    while pending:
        each = pending.pop(0)
        if isinstance(each, BaseException) and not any(each is other for other in causes):
            causes.append(each)
            pending += [each.__cause__, each.__context__, *each.args, getattr(each, "reason", None)]
    yield from causes
