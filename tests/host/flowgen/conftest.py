"""flowgen, in the release build, and in CI in the sanitized one, too."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys

import pytest

from tests.host.flowgen.helpers import (
    PATIENCE_S,
    REFUSED,
    SOURCE,
    Gate,
    Hold,
    Server,
    make,
    needs_compiler,
    needs_sanitizers,
    run,
    sleeps,
    until,
)


@pytest.fixture(scope="session", params=["release", pytest.param("sanitize", marks=pytest.mark.whole)])
def flowgen(request, tmp_path_factory) -> str:
    binary = SOURCE / "build" / ("flowgen" if request.param == "release" else "flowgen-sanitize")
    if request.param == "release" and binary.exists() and not shutil.which("cc"):
        return str(binary)  # built with another compiler
    needs_compiler()
    if request.param == "sanitize":
        needs_sanitizers(tmp_path_factory.mktemp("sanitizers"))
    make("all" if request.param == "release" else "sanitize")
    return str(binary)


@pytest.fixture
def start():
    """Starts processes, and ends those that are left, each by its own handle."""
    processes = []

    def start(*argv, **options) -> subprocess.Popen:
        process = subprocess.Popen([str(a) for a in argv], **options)
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.terminate()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()  # what it has to say that nobody reads must not keep it
    for process in processes:
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def server(start, flowgen) -> Server:
    return Server(start, flowgen)


@pytest.fixture
def hold(flowgen, start, tmp_path):
    """hold("--gate", gate, "--", "true", slot="a") -> Hold, connected, and its hello heard."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "control"))
    listener.listen(64)
    listener.settimeout(PATIENCE_S)
    connections = []

    def launch(*arguments, slot="a", before=(), **options) -> Hold:
        process = start(
            *before, flowgen, "hold", "--control", tmp_path / "control", "--slot", slot, *arguments, **options
        )
        control, _ = listener.accept()
        control.settimeout(PATIENCE_S)
        connections.append(control)
        held = Hold(process, control)
        assert held.event() == {"event": "hello", "slot": slot}
        return held

    yield launch
    for connection in connections:
        connection.close()
    listener.close()


@pytest.fixture
def out(tmp_path):
    """A file for what a child prints."""
    (tmp_path / "out").touch()
    return tmp_path / "out"


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path / "gate")
    yield gate
    if gate.fd >= 0:
        gate.release()


@pytest.fixture(params=["exec", "gate"])
def held_at(request) -> str:
    """Both ways of holding: after the exec, and, where tracing is refused, at the gate before it."""
    return request.param


@pytest.fixture
def hold_at_gate(hold, gate, held_at):
    """hold_at_gate("--", "true") -> Hold, at the gate in the way of held_at."""
    if held_at == "exec":
        return lambda *arguments, **options: hold("--gate", gate.path, *arguments, **options)
    untraced = [sys.executable, "-c", REFUSED, "ptrace"]
    if platform.machine() not in ("x86_64", "aarch64") or run(*untraced, "/bin/true").returncode != 0:
        pytest.skip("this host does not let us refuse ptrace (seccomp)")
    # The leak check of the sanitizers traces, too.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}

    def hold_untraced(*arguments, before=(), **options) -> Hold:
        return hold("--gate", gate.path, *arguments, before=[*before, *untraced], env=environment, **options)

    return hold_untraced


@pytest.fixture
def namespace(flowgen, start) -> int:
    """The pid of a process in user and network namespaces of its own."""
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if not shutil.which("nsenter") or run(*alone, "true").returncode != 0:
        pytest.skip("this host does not let us make a network namespace (unshare --user --net)")
    process = start(*alone, flowgen, "pause")
    until(lambda: sleeps(process.pid), "pause to wait")
    return process.pid
