"""flowgen client: flows of a given size, and several flows at once."""

import itertools
import json
import socket
import time

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, Server, client, free_port, listens, run, until

NEVER_TAKEN = 100_000  # bytes: more than a small receive buffer holds, and less than a send buffer


@pytest.fixture
def silent():
    """Listens, and never reads."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


def address(listener: socket.socket) -> str:
    return "{}:{}".format(*listener.getsockname())


def drain(peer: socket.socket) -> None:
    """Reads to the end."""
    while peer.recv(65536):
        pass


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("size_bytes", [1, 131_072, 5_000_001])
def test_a_finite_flow_ends_when_the_server_has_had_all_of_it(flowgen, server, size_bytes):
    intervals, total = client(flowgen, server, "--bytes", size_bytes)
    received = server.received()
    assert total["complete"] is True
    assert size_bytes == total["flow_bytes"] == total["bytes_written"] == received["flow_bytes"]
    assert sum(line["bytes"] for line in intervals) == size_bytes
    assert received["peer"] == total["local"]
    assert total["connect_ns"] < total["connected_ns"] < total["sent_ns"] < total["end_ns"] < time.monotonic_ns()
    assert total["connect_ns"] < received["first_ns"] <= received["last_ns"] < total["end_ns"]


def test_moments_are_told_by_the_clock_of_whoever_measures(flowgen, start, monkeypatch):
    """As on a host with a kernel of its own, whose clock began later."""
    offset_ns = 10**15
    monkeypatch.setenv("FLOWGEN_CLOCK_OFFSET_NS", str(offset_ns))
    before_ns = time.monotonic_ns()
    server = Server(start, flowgen)
    _, total = client(flowgen, server, "--bytes", 1000)
    received = server.received()
    after_ns = time.monotonic_ns()
    moments = [total[name] for name in ("connect_ns", "connected_ns", "sent_ns", "end_ns")]
    moments += [received[name] for name in ("accept_ns", "first_ns", "last_ns")]
    for moment_ns in moments:
        assert before_ns < moment_ns - offset_ns < after_ns
    assert 0 < total["duration_s"] < 100


def test_a_finite_flow_is_sampled_at_every_interval(flowgen, silent):
    done = run(flowgen, "client", "--connect", address(silent), "--bytes", NEVER_TAKEN, "--interval", 0.1,
               "--limit", 0.95)  # fmt: skip
    *intervals, total = lines(done.stdout)
    assert len(intervals) >= 2
    assert all(a["end_s"] == b["start_s"] for a, b in itertools.pairwise(intervals))
    assert intervals[-1]["end_s"] == pytest.approx(total["duration_s"])
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"] < NEVER_TAKEN


def test_a_finite_flow_that_takes_too_long_gives_up_and_resets(flowgen, silent):
    done = run(flowgen, "client", "--connect", address(silent), "--bytes", NEVER_TAKEN, "--limit", 0.2)
    assert done.returncode == 1
    assert done.stderr == "flowgen client: not complete after 0.2 s\n"
    total = lines(done.stdout)[-1]
    assert (total["complete"], total["error"]) == (False, "not complete after 0.2 s")
    assert 0.2e9 <= total["end_ns"] - total["connect_ns"] < 2e9
    peer, _ = silent.accept()
    with peer, pytest.raises(ConnectionResetError):
        drain(peer)


def test_the_limit_holds_for_the_connection_as_well(flowgen):
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # one may wait to be accepted; of who comes later, the kernel drops the SYN
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        done = run(flowgen, "client", "--connect", address(full), "--bytes", 1, "--limit", 0.2)
    assert done.returncode == 1
    (total,) = lines(done.stdout)
    assert total["error"] == "not complete after 0.2 s"
    assert [total[key] for key in ("connected_ns", "sent_ns", "local", "complete")] == [None, None, None, False]


def test_a_server_that_closes_before_it_has_all_is_a_failure(flowgen, silent, start):
    sender = start(flowgen, "client", "--connect", address(silent), "--bytes", NEVER_TAKEN, stdout=-1, stderr=-1)
    peer, _ = silent.accept()
    with peer:
        peer.shutdown(socket.SHUT_WR)
        output, told = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 1
    assert f"of {NEVER_TAKEN} bytes" in told.decode()
    total = lines(output)[-1]
    assert "the server closed the connection after" in total["error"]
    assert (total["complete"], total["bytes_written"]) == (False, NEVER_TAKEN)
    assert total["flow_bytes"] < NEVER_TAKEN


def test_several_flows_are_told_apart(flowgen, server):
    done = run(flowgen, "client", *server.target, "--bytes", 300_000, "--flows", 5)
    assert done.returncode == 0, done.stderr
    totals = [line for line in lines(done.stdout) if line["event"] == "total"]
    received = {line["peer"]: line["flow_bytes"] for line in (server.received() for _ in totals)}
    assert [total["flow"] for total in totals] == [0, 1, 2, 3, 4]
    assert received == {total["local"]: 300_000 for total in totals}
    assert len(received) == 5
    assert all(total["complete"] for total in totals)


def test_several_flows_run_at_once_each_with_its_own_intervals(flowgen, server):
    done = run(flowgen, "client", *server.target, "--duration", 0.5, "--interval", 0.2,
               "--flows", 3)  # fmt: skip
    told = lines(done.stdout)
    totals = [line for line in told if line["event"] == "total"]
    assert max(total["connected_ns"] for total in totals) < min(total["end_ns"] for total in totals)
    for total in totals:
        own = [line for line in told if line["flow"] == total["flow"] and line["event"] == "interval"]
        assert sum(line["bytes"] for line in own) == total["flow_bytes"] > 0
        assert own[-1]["end_s"] == pytest.approx(total["duration_s"])
        assert "complete" not in total


def test_as_many_flows_as_allowed_all_end_however_few_descriptors_there_are_at_first(flowgen, start, tmp_path):
    port = free_port()
    with open(tmp_path / "received", "wb") as taken:  # a pipe would fill
        start(flowgen, "server", "--port", port, "--bind", "127.0.0.1", stdout=taken)
    until(lambda: listens(port), "the server to listen")
    few = ["sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh"]
    done = run(*few, flowgen, "client", "--connect", f"127.0.0.1:{port}", "--bytes", 10_000, "--flows", 1000)
    assert done.returncode == 0, done.stderr
    totals = [line for line in lines(done.stdout) if line["event"] == "total"]
    assert [total["flow_bytes"] for total in totals] == [10_000] * 1000


def test_one_failed_flow_fails_the_client_and_leaves_the_others_whole(flowgen, silent, start):
    sender = start(flowgen, "client", "--connect", address(silent), "--bytes", 1000, "--flows", 2, stdout=-1, stderr=-1)
    good, _ = silent.accept()
    bad, broken = silent.accept()
    bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close resets
    bad.close()
    with good:
        drain(good)
    output, told = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 1
    totals = [line for line in lines(output) if line["event"] == "total"]
    assert [total["complete"] for total in totals] == [total["local"] != "{}:{}".format(*broken) for total in totals]
    number = next(total["flow"] for total in totals if not total["complete"])
    assert f"1 of 2 flows failed, the first of them flow {number}: the connection broke" in told.decode()
