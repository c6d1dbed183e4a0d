"""A sweep on a worker of a real Dask scheduler, with real measurements; and who is refused."""

import contextlib
import socket
import subprocess
import sys

import psutil
import pytest

from pairlab.base import credentials
from pairlab.batch import runner, sweep_file
from pairlab.batch.executors import workers
from pairlab.batch.executors.workers import WorkerPool
from pairlab.batch.watcher import Watcher
from pairlab.errors import BadInput, Unavailable
from pairlab.store.dataset import load_runs
from tests.conftest import need
from tests.support.dask_workers import PAIRLAB, Processes, free_port

SWEEP = """
name: shared
repetitions: 2
parameters: {workload: flowgen, duration_s: 0.5, interval_s: 0.5, max_foreign_cpu: 1.0, max_skew_s: 1.0}
experiments:
  throughput: {driver: [bridge, host], pairs: 1}
"""


@pytest.fixture(autouse=True)
def dasks_folder_of_another_user(tmp_path, monkeypatch):
    """In the folder for temporary files, the name that Dask takes for all users is taken, and cannot be written to."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "dask-scratch-space").touch()
    monkeypatch.setenv("TMPDIR", str(shared))


@pytest.fixture(autouse=True)
def its_credentials(tmp_path, monkeypatch):
    monkeypatch.setenv(credentials.VARIABLE, str(tmp_path / "scheduler.pem"))


def listening(process):
    """The addresses at which a process can be connected to."""
    connections = psutil.Process(process.pid).net_connections()
    return {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}


@pytest.mark.whole
def test_a_sweep_on_a_worker_ends_with_the_same_cells_as_without(tmp_path, clean_host):
    """And tells the board who measured, says who is left out, and leaves nothing."""
    need("netns", workload="flowgen")
    file = tmp_path / "shared.yaml"
    file.write_text(SWEEP)
    plan, reports, boards = sweep_file.load(file), [], []
    with Processes(tmp_path, free_port()) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAIRLAB_RUNS", str(made.runs))
        processes = made.scheduler(), made.worker()
        assert {address for process in processes for address in listening(process)} == {"127.0.0.1"}

        def tell(report):
            reports.append(report)
            boards.append(Watcher("shared").board())

        with WorkerPool(made.address, wait_s=30) as pool:
            tally = runner.run(plan, pool=pool, tell=tell)
        assert (tally.done, tally.good) == (4, True)
        assert [report.spec for report in reports] == runner.cells(plan)
        runs = load_runs(made.runs)
        assert {run.key for run in runs} == {spec.key for spec in runner.cells(plan)}
        assert all((run.path / "notebook.ipynb").exists() for run in runs)
        assert all(run.flows["throughput_bps"].gt(0).all() for run in runs)
        (worker,) = boards[-2].workers
        assert f"{worker.name} measures throughput: flowgen over" in str(boards[-2])
        assert boards[-2].cells_per_hour > 0

        patch.setattr(workers, "__version__", "9.9.9")
        said = []
        with WorkerPool(made.address, wait_s=1) as pool:
            assert pool.arrived(said.append) == []
        (text,) = said
        assert "is left out: it has pairlab 0." in text
        assert "and this is 9.9.9: update it" in text


def test_a_scheduler_that_has_no_worker_is_said_so(tmp_path, runs_dir):
    file = tmp_path / "shared.yaml"
    file.write_text(SWEEP)
    plan = sweep_file.load(file)
    with Processes(tmp_path, free_port()) as made:
        made.scheduler()
        with (
            WorkerPool(made.address, wait_s=1) as pool,
            pytest.raises(Unavailable, match="has had no worker that can measure this sweep: start `pairlab worker"),
        ):
            runner.run(plan, pool=pool)


@pytest.mark.whole
def test_who_has_the_schedulers_credentials_connects_and_nobody_else(tmp_path):
    """A key of another scheduler's is none, nor is no key."""
    credentials.make(theirs := tmp_path / "theirs.pem")
    with Processes(tmp_path, free_port()) as made:
        made.scheduler()
        made.worker()
        with WorkerPool(made.address, wait_s=10) as pool:
            assert len(pool.arrived(print)) == 1
        with pytest.raises(Unavailable, match=f"no Dask scheduler answers at {made.address}"):
            WorkerPool(made.address, wait_s=1, credentials=theirs).__enter__()
        words = "import sys; from distributed import Client; Client(sys.argv[1], timeout=3).submit(print).result()"
        plain = made.address.replace("tls:", "tcp:")
        script = [sys.executable, "-c", words]
        assert subprocess.run([*script, plain], capture_output=True, check=False).returncode
        assert subprocess.run([*script, made.address], capture_output=True, check=False).returncode


def test_a_scheduler_and_a_worker_listen_at_one_port_each_and_answer_nobody_in_plain_text(tmp_path):
    with Processes(tmp_path, free_port()) as made:
        started = [psutil.Process(each.pid) for each in (made.scheduler(), made.worker())]
        ports = [
            [each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
            for process in started
        ]
        assert list(map(len, ports)) == [1, 1]
        for (port,) in ports:
            with socket.create_connection(("127.0.0.1", port)) as asked, contextlib.suppress(ConnectionError):
                asked.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert not asked.recv(5).startswith(b"HTTP")


def test_a_port_in_use_is_refused_in_words():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = [*PAIRLAB, "scheduler", "--port", port]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    told = f"no scheduler can listen at 127.0.0.1:{port}: Address already in use: give another --host or --port"
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_that_is_given_no_address_says_what_one_is():
    words = [*PAIRLAB, "worker", "--scheduler", "127.0.0.1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give tls://HOST:PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_scheduler_that_is_not_there_is_said_so():
    credentials.make(credentials.file())
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(Unavailable, match="no Dask scheduler answers at tls"):
        WorkerPool(f"tls://127.0.0.1:{port}", wait_s=1).__enter__()
    with pytest.raises(BadInput, match="give tls://HOST:PORT"):
        WorkerPool("gopher://somewhere", wait_s=1).__enter__()
