"""flowgen hold, as the launcher hears it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab.errors import MeasurementFailed
from pairlab.testbed.contracts import Site
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.process_launcher import ProcessLauncher
from tests.host.flowgen.helpers import PATIENCE_S, children_of, free_port, has_gone, run, until


class Here(Site):
    """A site whose endpoints are this host."""

    def __init__(self, flowgen: str, directory: Path, start):
        self.flowgen, self.directory = flowgen, str(directory)
        self.launchers: list[subprocess.Popen] = []
        self._start = start

    def spawn(self, calls) -> None:
        self.launchers += [self._start(*argv) for _, argv in calls]

    def facts(self) -> dict:
        return {}


class Late(Here):
    """Its launchers come after half a second."""

    def spawn(self, calls) -> None:
        super().spawn([(name, ["sh", "-c", 'sleep 0.5; exec "$@"', "sh", *argv]) for name, argv in calls])


@pytest.fixture
def here(flowgen, tmp_path, start):
    return Here(flowgen, tmp_path, start)


@pytest.fixture
def launcher(here, tmp_path):
    with contextlib.closing(ProcessLauncher(here, tmp_path)) as launcher:
        yield launcher


@pytest.fixture
def endpoint():
    return Endpoint("here", "127.0.0.1", lambda *_: None)


def test_a_launcher_that_is_killed_before_it_is_ready_is_missed(launcher, here, endpoint):
    never_listens = [(endpoint, ["sleep", "1000"])]
    (process,) = launcher.start(never_listens, options=[["--listen", str(free_port())]])
    child = until(lambda: children_of(here.launchers[0].pid), "the launcher to launch")
    here.launchers[0].kill()
    launcher.wait_ready([process], PATIENCE_S)
    assert (process.ready, process.ended, process.failure) == (False, True, "its launcher was killed")
    assert has_gone(child[0])


def test_no_launcher_exits_while_others_of_its_gate_run(launcher, here, endpoint):
    gate = launcher.gate()
    short, long = launcher.start([(endpoint, ["true"]), (endpoint, ["sleep", "1000"])], gate=gate)
    launcher.wait_ready([short, long], PATIENCE_S)
    gate.release()
    launcher.wait_ended([short], PATIENCE_S)
    assert (short.ended, short.exit_code) == (True, 0)
    with pytest.raises(subprocess.TimeoutExpired):
        here.launchers[0].wait(0.1)
    launcher.stop([short, long])
    assert [each.wait(PATIENCE_S) for each in here.launchers] == [0, 128 + signal.SIGTERM]


def test_reports_are_read_when_all_have_reported_and_flows_have_the_cpus_until_then(launcher, here, endpoint):
    gate = launcher.gate()
    both = launcher.start([(endpoint, ["true"]), (endpoint, ["sleep", "0.1"])], gate=gate)
    launcher.wait_ready(both, PATIENCE_S)
    gate.release()
    seen = []
    launcher.wait_ended(both, PATIENCE_S, lambda: seen.append([each.ended for each in both]))
    assert seen == [[False, False]]
    assert [(each.ended, each.exit_code) for each in both] == [(True, 0), (True, 0)]


def test_one_that_has_reported_is_over_though_another_is_killed(launcher, here, endpoint):
    gate = launcher.gate()
    short, long = launcher.start([(endpoint, ["true"]), (endpoint, ["sleep", "1000"])], gate=gate)
    launcher.wait_ready([short, long], PATIENCE_S)
    gate.release()
    launcher.wait_ended([short], PATIENCE_S)
    here.launchers[1].kill()
    launcher.wait_ended([short, long], PATIENCE_S)
    assert [each.failure for each in (short, long)] == ["", "its launcher was killed"]


def test_nobody_but_its_launcher_speaks_for_a_process(launcher, endpoint, tmp_path):
    """A tool finds the control socket and its slot in its launcher's command line, and tells of an end of its own."""
    (process,) = launcher.start([(endpoint, ["sleep", "1000"])])
    launcher.wait_ready([process], PATIENCE_S)
    forged = {"event": "ended", "slot": process.slot, "start_ns": 1, "end_ns": 2, "exit_code": 0, "signal": None}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as liar:
        liar.connect(str(tmp_path / "control"))
        liar.sendall(json.dumps({**forged, "user_s": 0.0, "sys_s": 0.0}).encode())
        launcher.wait_ended([process], 0.2)
        liar.settimeout(PATIENCE_S)
        assert liar.recv(1) == b""  # it is not listened to
    assert not process.ended
    launcher.stop([process], PATIENCE_S)
    assert (process.ended, process.signal) == (True, signal.SIGTERM)
    assert process.end_ns > 2


def test_a_launcher_that_is_not_ready_yet_can_be_stopped(launcher, endpoint):
    (process,) = launcher.start([(endpoint, ["sleep", "1000"])], options=[["--listen", str(free_port())]])
    with pytest.raises(MeasurementFailed, match="were not ready"):
        launcher.wait_ready([process], 0.2)
    launcher.stop([process], PATIENCE_S)
    assert (process.ended, process.signal) == (True, signal.SIGTERM)


def test_a_launcher_that_comes_after_its_time_is_stopped_all_the_same(flowgen, tmp_path, start, endpoint):
    late = Late(flowgen, tmp_path, start)
    with contextlib.closing(ProcessLauncher(late, tmp_path)) as launcher:
        with pytest.raises(MeasurementFailed, match=r"sleep in here did not end within 0\.1 s"):
            launcher.run(endpoint, ["sleep", "1000"], 0.1)
        assert late.launchers[0].wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_a_process_knows_how_it_was_held_and_how_urgent_its_launcher_was(launcher, endpoint):
    gate = launcher.gate()
    (process,) = launcher.start([(endpoint, ["true"])], gate=gate)
    launcher.wait_ready([process], PATIENCE_S)
    assert (process.held_at, process.priority in ("realtime", "slice", "none")) == ("exec", True)
    gate.release()
    launcher.wait_ended([process], PATIENCE_S)
    assert process.failure == ""


def test_as_many_launchers_may_connect_as_the_host_allows(tmp_path):
    """In a process of its own, as a limit is for good."""
    script = (
        "import resource, sys; from pathlib import Path; from pairlab.testbed.process_launcher import ProcessLauncher;"
        "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, most)); ProcessLauncher(None, Path(sys.argv[1]));"
        "sys.exit(resource.getrlimit(resource.RLIMIT_NOFILE) != (most, most))"
    )
    assert run(sys.executable, "-c", script, tmp_path).returncode == 0
