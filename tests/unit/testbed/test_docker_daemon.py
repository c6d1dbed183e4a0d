"""Which Docker daemon is asked, and what is said of those that cannot be used: made-up daemons at Unix sockets."""

import contextlib
import hashlib
import json
import platform
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler

import psutil
import pytest

from pairlab import paths
from pairlab.errors import TestbedError
from pairlab.testbed.audit import leftovers
from pairlab.testbed.docker import backend, daemon
from pairlab.testbed.docker.engine import translated

#: Of Docker Engine 20.10.24, Debian 12's, as far as it is asked for.
VERSION = {"Platform": {"Name": ""}, "Components": [{"Name": "Engine", "Version": "20.10.24+dfsg1"}]}
VERSION |= {"Version": "20.10.24+dfsg1", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}
INFO = {"Name": socket.gethostname(), "KernelVersion": platform.release(), "MemTotal": psutil.virtual_memory().total}
#: What Podman 4.3.1, Debian 12's, has of its own.
PODMAN = {"Components": [{"Name": "Podman Engine", "Version": "4.3.1"}, {"Name": "Conmon", "Version": "2.1.6"}]}
PODMAN |= {"Version": "4.3.1", "ApiVersion": "1.41", "MinAPIVersion": "1.24"}
DENIED = "authorization denied by plugin opa-docker-authz: request rejected by administrative policy"
PAGE = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx/1.22.1</body></html>"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def serve(tmp_path, sockets_folder, monkeypatch):
    """Serves answers by the end of their path, each a status and a text, or an object for JSON; returns the address."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    with contextlib.ExitStack() as stack:

        def serve(answers=None, name="docker.sock", **info):
            known = {"/version": VERSION, "/info": INFO | info, "/_ping": "OK"} | (answers or {})

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self):
                    answer = next(value for end, value in known.items() if self.path.split("?")[0].endswith(end))
                    status, said = answer if isinstance(answer, tuple) else (200, answer)
                    text = said if isinstance(said, str) else json.dumps(said)
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())

                do_POST = do_GET

                def address_string(self):
                    return "a Unix socket"

                def log_message(self, *_):
                    pass

            server = stack.enter_context(Server(str(sockets_folder / name), Handler))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"unix://{sockets_folder / name}"

        yield serve


def choose(tmp_path, name, host, **endpoint):
    """Makes a context as `docker context create` does."""
    place = tmp_path / "config" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    meta = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False, **endpoint}}}
    (place / "meta.json").write_text(json.dumps(meta))


def test_a_daemon_of_this_host_is_no_lack(serve, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", serve())
    assert daemon.missing() is None


UNUSABLE = {
    "an authorization plugin": (
        {"/version": (403, {"message": DENIED})},
        f"the Docker daemon at WHERE refuses (403): {DENIED}: ask who runs it",
    ),
    "one that lets versions pass": (
        {"/info": (403, {"message": DENIED})},
        f"the Docker daemon at WHERE refuses (403): {DENIED}: ask who runs it",
    ),
    "another's words on permissions": (
        {"/info": (500, {"message": "open /etc/docker/x: Permission denied"})},
        "the Docker daemon at WHERE refuses (500): open /etc/docker/x: Permission denied",
    ),
    "too old": (
        {"/version": {"Version": "1.9.1", "ApiVersion": "1.21"}},
        "the Docker daemon at WHERE is too old: API versions below 1.24 are no longer supported by this library",
    ),
    "a page of a proxy": (
        {"/version": (502, PAGE)},
        "what answers at WHERE is no Docker daemon: it sent HTTP 502, with the page '502 Bad Gateway'",
    ),
    "a page as if all were well": (
        {"/version": PAGE},
        "what answers at WHERE is no Docker daemon: it sent something else",
    ),
    "another service": ({"/version": {"etcdserver": "3.4.23"}}, "what answers at WHERE is no Docker daemon"),
    "Podman": ({"/version": PODMAN}, "Podman 4.3.1 answers at WHERE, and is no Docker Engine: set DOCKER_HOST to"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_a_daemon_says_that_cannot_be_used_is_said(what, serve, monkeypatch):
    answers, said = UNUSABLE[what]
    where = serve(answers)
    monkeypatch.setenv("DOCKER_HOST", where)
    told = str(daemon.missing())
    assert told.startswith(said.replace("WHERE", where))
    assert "apt-get install" not in told


@pytest.mark.parametrize("address", ["tcp://[::1", "nonsense://x"])
def test_a_docker_host_that_is_no_address_is_a_lack_and_nothing_that_stops_cleaning(address, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", address)
    assert daemon.missing().what.startswith(f"DOCKER_HOST is {address!r}, which is no address: ")
    assert daemon.missing().remedy == "unset DOCKER_HOST, or give one such as unix:///var/run/docker.sock"
    assert leftovers.find()


def test_what_a_daemon_that_refuses_may_have_left_is_not_known(serve, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", serve({"/version": (403, {"message": DENIED})}))
    assert [what for what in leftovers.find().unclear if DENIED in what]


def test_a_host_that_was_renamed_is_this_host_and_one_with_other_memory_or_kernel_is_not(serve, monkeypatch):
    monkeypatch.setattr(daemon.facts, "in_container", lambda: False)
    monkeypatch.setenv("DOCKER_HOST", serve(Name="before"))
    assert daemon.missing() is None
    for number, other in enumerate(({"MemTotal": 2**34 + 1}, {"KernelVersion": "4.9.0"})):
        monkeypatch.setenv("DOCKER_HOST", serve(name=f"{number}.sock", Name="big", **other))
        assert daemon.missing().what == "the Docker daemon runs on another host (big)"
    monkeypatch.setattr(daemon.facts, "in_container", lambda: True)  # the socket of its host, mounted there
    monkeypatch.setenv("DOCKER_HOST", serve(name="mounted.sock", Name="big"))
    assert daemon.missing().what == "the Docker daemon runs on another host (big)"


@pytest.mark.parametrize("by", ["variable", "file"])
def test_the_context_is_honoured_that_the_docker_cli_would_use(by, serve, tmp_path, monkeypatch):
    where = serve({"/version": PODMAN})
    choose(tmp_path, "mine", where)
    if by == "variable":
        monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    else:
        (tmp_path / "config" / "config.json").write_text('{"currentContext": "mine"}')
    assert daemon.missing().what == f"Podman 4.3.1 answers at {where} (context 'mine'), and is no Docker Engine"
    monkeypatch.setenv("DOCKER_HOST", serve(name="other.sock"))  # counts more than any context
    assert daemon.missing() is None


def test_a_context_that_is_not_there_is_said_and_no_other_daemon_is_taken_for_it(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    lack = daemon.missing()
    assert lack.what == "there is no Docker context 'gone', which DOCKER_CONTEXT names"
    assert "docker context ls" in lack.remedy
    choose(tmp_path, "damaged", "unix:///x")
    (meta,) = (tmp_path / "config").rglob("meta.json")
    meta.write_text("{")
    monkeypatch.setenv("DOCKER_CONTEXT", "damaged")
    assert daemon.missing().what.startswith("the Docker context 'damaged', which DOCKER_CONTEXT names, cannot be read")


def test_the_keys_of_a_context_are_used(serve, tmp_path, monkeypatch):
    choose(tmp_path, "far", "tcp://192.0.2.1:2376", SkipTLSVerify=True)
    keys = tmp_path / "config" / "contexts" / "tls" / hashlib.sha256(b"far").hexdigest() / "docker"
    keys.mkdir(parents=True)
    for name in ("ca", "cert", "key"):
        (keys / f"{name}.pem").write_text("made up")
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    chosen = daemon.context()
    assert chosen.tls.cert == (str(keys / "cert.pem"), str(keys / "key.pem"))
    assert (chosen.base_url, chosen.tls.ca_cert, chosen.tls.verify) == (
        "tcp://192.0.2.1:2376",
        str(keys / "ca.pem"),
        False,
    )


REFUSED = {
    "could not find an available, non-overlapping IPv4 address pool among the defaults": "docker network prune",
    "all predefined address pools have been fully subscribed": "docker network prune",
    "write /var/lib/docker/tmp/x: no space left on device": "docker system df",
    "failed to create shim task": "journalctl -u docker",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_to_do_about_a_refusal_is_what_it_is_about(message, serve, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", serve({"/networks/create": (500, {"message": message})}))
    refused = pytest.raises(TestbedError)
    with (
        contextlib.closing(daemon.connect()) as client,
        refused as caught,
        translated("the testbed could not be built"),
    ):
        client.api.create_network("x")
    assert message in str(caught.value)
    assert REFUSED[message] in str(caught.value)
    assert ("disk" in str(caught.value)) == ("space" in message)


def test_a_generator_that_was_built_under_a_strict_umask_is_closed_to_containers(tmp_path, monkeypatch):
    flowgen = tmp_path / "flowgen"
    flowgen.touch(0o700)
    monkeypatch.setattr(paths, "flowgen", lambda: flowgen)
    assert str(backend._closed_flowgen()).endswith(f"containers run as nobody: chmod o+rx {flowgen}")
    flowgen.chmod(0o755)
    assert backend._closed_flowgen() is None
