"""How a Dask scheduler is named to the processes that compute on its workers, and what is refused."""

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import pytest
from distributed import LocalCluster

from pairlab.base import caller, credentials, schedulers
from pairlab.errors import BadInput, Unavailable
from tests.support.dask_workers import free_port


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """This user's credentials."""
    monkeypatch.setenv(credentials.VARIABLE, str(tmp_path / "scheduler.pem"))
    credentials.make(credentials.file())
    return credentials.file()


@pytest.mark.parametrize("address", ["nonsense", "tls://", "tls://127.0.0.1"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(BadInput, match=r"is no address .*: give tls://HOST:PORT"):
        schedulers.connect(address, 0.1)


def test_without_tls_nobody_connects():
    with pytest.raises(BadInput, match="is without TLS, so whoever reaches that network could run commands as you"):
        schedulers.connect("tcp://127.0.0.1:8786", 0.1)


def test_a_scheduler_that_does_not_answer_is_told_before_anything_is_computed():
    address = f"tls://127.0.0.1:{free_port()}"
    with (
        pytest.raises(Unavailable, match=f"no Dask scheduler answers at {address} within 0.1 s .*`pairlab scheduler`"),
        schedulers.computing_on(address, within_s=0.1),
    ):
        pytest.fail("it was computed")


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.6\r\n"])
def test_what_listens_and_is_no_scheduler_is_told_in_time(greeting):
    """A server that waits for its client to begin, and one whose first bytes Dask takes for an enormous length."""
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        address = f"tls://127.0.0.1:{other.getsockname()[1]}"
        asked = pool.submit(schedulers.connect, address, 1.0)
        with other.accept()[0] as connection:
            connection.sendall(greeting)
            with pytest.raises(Unavailable, match=f"no Dask scheduler answers at {address} within 1 s"):
                asked.result(timeout=30)


def test_a_scheduler_that_is_looked_for_again_and_again_costs_one_thread():
    address = f"tls://127.0.0.1:{free_port()}"
    before = threading.active_count()
    for _ in range(4):
        with pytest.raises(Unavailable):
            schedulers.connect(address, 0.1)
    assert threading.active_count() <= before + 1


def test_workers_are_all_there_whatever_the_client_asks_beside(tmp_path, file):
    """Dask's client keeps asking for a description without workers: here all the time."""
    often = {"distributed.client.scheduler-info-interval": "1ms", "temporary-directory": str(tmp_path)}
    asked = {
        "processes": False,
        "protocol": "tls://",
        "dashboard_address": None,
        "security": credentials.security(file),
        "resources": {schedulers.RESOURCE: 1},
    }
    with dask.config.set(often), LocalCluster(n_workers=3, **asked) as cluster:
        client = schedulers.connect(cluster.scheduler_address, 10)
        try:
            seen = {len(schedulers.workers_of(client)) for _ in range(300)}
        finally:
            client.close()
    assert seen == {3}


def test_without_a_scheduler_it_is_computed_here():
    with schedulers.computing_on(""):
        assert schedulers.named() == ""


def test_processes_started_meanwhile_know_the_scheduler_and_its_credentials(monkeypatch):
    monkeypatch.setattr(schedulers, "connect", lambda *_: type("Client", (), {"close": lambda self: None})())
    script = "from pairlab.base import credentials, schedulers; print(schedulers.named(), credentials.file())"
    with schedulers.computing_on("tls://10.0.0.1:8786", "/its/own.pem"):
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["tls://10.0.0.1:8786", "/its/own.pem"]
    assert caller.VARIABLE not in os.environ
