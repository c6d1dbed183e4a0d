"""What of Docker's containers `clean` may take for abandoned."""

import platform
import socket
from types import SimpleNamespace

import pytest

from pairlab.testbed.audit import leftovers
from pairlab.testbed.cleanup.ownership import Liveness
from pairlab.testbed.docker import daemon
from pairlab.testbed.docker.reaper import LABEL

OTHER_BOOT = f"4242@1000.4026531836.4026531834.{'a' * 32}"


def client(*, state, name=None, kernel=None, base_url="http+docker://localhost"):
    """A daemon with one container of a testbed, whose owner is of another boot."""
    labels = {LABEL: "ABCDEFGH", "pairlab.owner": OTHER_BOOT}
    info = {"Name": name or socket.gethostname(), "KernelVersion": kernel or platform.release(), "MemTotal": 0}
    api = SimpleNamespace(
        base_url=base_url,
        containers=lambda **_: [{"Id": "1", "State": state, "Labels": labels}],
        networks=lambda **_: [],
    )
    return SimpleNamespace(api=api, info=lambda: info, close=lambda: None)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"state": "exited"}, Liveness.DEAD),  # from before this host was started again
        ({"state": "running"}, Liveness.UNKNOWN),  # over a forwarded socket, of a host as this one
        ({"state": "exited", "name": "elsewhere"}, Liveness.UNKNOWN),
        ({"state": "exited", "kernel": "5.0"}, Liveness.UNKNOWN),
        ({"state": "exited", "base_url": "https://far:2376"}, Liveness.UNKNOWN),
    ],
)
def test_a_testbed_of_another_boot_is_abandoned_only_where_its_daemon_is_here_and_it_does_not_run(
    monkeypatch, seen, expected
):
    monkeypatch.setattr(daemon, "connect", lambda *_: client(**seen))
    ((state, leftover),) = leftovers._docker_testbeds()
    assert (state, leftover.what) == (expected, "Docker testbed ABCDEFGH")
