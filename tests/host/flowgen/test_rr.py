"""flowgen rr: requests, their responses, and how long each took."""

from __future__ import annotations

import json
import secrets
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, Server, free_port, run, until

OPENING = struct.Struct("=16sIIII")  # token, magic, bytes of requests and of responses, flags: lib/flowgen/src/rrwire.h
MAGIC = 0x72657173


class RrServer(Server):
    def __init__(self, start, flowgen: str, *options):
        super().__init__(start, flowgen, *options, command="rr-server", stderr=subprocess.PIPE)

    def ask(self, *options) -> tuple[list[dict], list[list[list[int]]]]:
        """Totals and buckets of each connection of a client."""
        done = run(self.flowgen, "rr", *self.target, *options)
        assert done.returncode == 0, done.stderr
        return read(done.stdout)


def read(said: str) -> tuple[list[dict], list[list[list[int]]]]:
    lines = list(map(json.loads, said.splitlines()))
    totals = [line for line in lines if line["event"] == "total"]
    return totals, [line["buckets"] for line in lines if line["event"] == "latencies"]


@pytest.fixture
def serve(start, flowgen):
    return lambda *options: RrServer(start, flowgen, *options)


def test_each_response_that_came_is_in_the_histogram_once(serve):
    server = serve()
    (total,), (buckets,) = server.ask("--duration", 0.3)
    assert total["transactions"] == sum(count for _, count in buckets) > 100
    assert (total["lost"], total["failed"]) == (0, 0)
    assert total["requests"] == total["responses"] == total["transactions"]
    assert buckets == sorted(buckets)
    mean_s = sum(value * count for value, count in buckets) / total["transactions"] / 1e9
    assert mean_s == pytest.approx(total["mean_s"], rel=0.001)
    assert buckets[0][0] / 1e9 == pytest.approx(total["min_s"], rel=0.001)
    assert buckets[-1][0] / 1e9 == pytest.approx(total["max_s"], rel=0.001)
    (served,) = server.stop()
    both = {"requests": total["requests"], "responses": total["responses"]}
    assert served == {"event": "served", "protocol": "tcp", "connections": 1} | both


def test_what_is_sent_in_the_warm_up_is_not_counted(serve):
    (total,), (buckets,) = serve().ask("--duration", 0.2, "--warmup", 0.4, "--rate", 1000)
    assert total["requests"] + total["lost"] == 600  # lost are those that a late machine left no time for
    assert total["transactions"] + total["lost"] == 200
    assert total["transactions"] == sum(count for _, count in buckets)
    assert total["lasted_s"] >= 0.6
    assert total["duration_s"] == 0.2


@pytest.mark.parametrize("protocol", [[], ["--udp"]], ids=["tcp", "udp"])
def test_a_rate_is_kept_by_all_connections_together(serve, protocol):
    totals, _ = serve(*protocol).ask("--duration", 0.5, "--rate", 1000, "--connections", 3, *protocol)
    assert sorted(total["transactions"] + total["lost"] for total in totals) == [166, 167, 167]


@pytest.mark.parametrize("sizes", [(1, 1 << 22), (1 << 22, 1), (1 << 22, 1 << 22), (70_000, 65_537)])
def test_every_size_up_to_a_mebibyte_comes_whole(serve, sizes):
    server = serve()
    asked, answered = sizes
    (total,), _ = server.ask("--duration", 0.3, "--request-bytes", asked, "--response-bytes", answered)
    assert total["transactions"] > 2


def test_udp_takes_the_largest_datagrams(serve):
    (total,), _ = serve("--udp").ask("--udp", "--duration", 0.3, "--request-bytes", 65507, "--response-bytes", 65507)
    assert total["transactions"] > 2


def test_a_connection_per_request_is_one_for_each(serve):
    server = serve()
    totals, _ = server.ask("--duration", 0.3, "--connect-per-request", "--connections", 2)
    (served,) = server.stop()
    assert served["connections"] == sum(total["requests"] for total in totals) > 20
    assert [total["failed"] for total in totals] == [0, 0]


class Stalled:
    """A server by hand of one connection, which answers at once, but one request, of that number, late."""

    def __init__(self, number: int, stall_s: float):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(number, stall_s))
        self._thread.start()

    def _serve(self, number: int, stall_s: float) -> None:
        peer, _ = self._listener.accept()
        with peer, self._listener:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.recv(OPENING.size, socket.MSG_WAITALL)
            peer.send(b"!")
            served = 0
            while peer.recv(1):
                if served == number:
                    time.sleep(stall_s)
                served += 1
                peer.send(b"!")

    def join(self) -> None:
        self._thread.join(PATIENCE_S)


def test_a_stall_is_in_the_latency_of_every_request_that_was_due_in_it(flowgen):
    """200 requests a second, one of which takes 0.2 s: the 40 that were due meanwhile waited, too, each less."""
    stalled = Stalled(number=20, stall_s=0.2)
    done = run(flowgen, "rr", "--connect", f"127.0.0.1:{stalled.port}", "--duration", 1, "--rate", 200)
    stalled.join()
    (total,), (buckets,) = read(done.stdout)
    assert total["transactions"] + total["lost"] == 200
    late = sum(count for value, count in buckets if value > 0.1e9)
    assert late >= 20
    assert total["max_s"] >= 0.2


def test_what_is_due_and_cannot_be_sent_is_lost(flowgen):
    """A stall to the end: the request under way is answered soon enough after it, and no other is."""
    stalled = Stalled(number=20, stall_s=0.7)
    done = run(flowgen, "rr", "--connect", f"127.0.0.1:{stalled.port}", "--duration", 0.5, "--rate", 200)
    stalled.join()
    (total,), _ = read(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (total["transactions"], total["lost"]) == (21, 79)


def test_a_datagram_without_a_response_is_lost_and_late_ones_are_of_no_other(flowgen, start):
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        # So long, that a late machine is no lost datagram.
        asked = ["rr", "--udp", "--connect", address, "--duration", "1.5", "--timeout", "1"]
        client = start(flowgen, *asked, stdout=-1, stderr=-1, text=True)
        kept, number = b"", 0
        while client.poll() is None:
            if not select.select([server], [], [], 0.05)[0]:
                continue
            request, peer = server.recvfrom(65536)
            response = struct.pack("=II", 0x72657370, 0) + request[8:16]
            if number == 20:
                kept = response
            elif kept:
                server.sendto(kept, peer)  # of another request: passed over
                kept = b""
                server.sendto(response, peer)
            else:
                server.sendto(response, peer)
            number += 1
        said, _ = client.communicate()
    (total,), _ = read(said)
    assert total["lost"] == 1
    assert total["transactions"] == total["requests"] - 1 > 10


def test_a_server_that_ends_breaks_the_connection(serve, start, flowgen):
    server = serve()
    asked = ["rr", *server.target, "--duration", "60"]
    client = start(flowgen, *asked, stdout=-1, stderr=-1, text=True)
    established = f":{server.port:04X} 0100007F"
    until(lambda: established in Path("/proc/net/tcp").read_text(), "the client to connect")
    server.process.send_signal(signal.SIGKILL)
    said, complaint = client.communicate(timeout=PATIENCE_S)
    (total,), _ = read(said)
    assert client.returncode == 1
    assert total["failed"] == 1
    assert "the connection broke" in total["error"]
    assert "the connection broke" in complaint


@pytest.mark.parametrize("protocol", [[], ["--udp"]], ids=["tcp", "udp"])
def test_only_those_with_the_token_are_served(serve, flowgen, tmp_path, protocol):
    token, other = tmp_path / "token", tmp_path / "other"
    token.write_bytes(secrets.token_bytes(16))
    other.write_bytes(secrets.token_bytes(16))
    server = serve("--token-file", token, *protocol)
    (total,), _ = server.ask("--token-file", token, "--duration", 0.1, *protocol)
    target = ["rr", *server.target, "--duration", 0.1, *protocol]
    for others in ([], ["--token-file", other]):
        done = run(flowgen, *target, *others)
        assert done.returncode == 1
        assert "rr-server" in done.stderr
    (served,), complaint = server.stop_and_tell()
    assert served["requests"] == total["requests"] > 0
    assert "refused without the token: 2 " in complaint


def test_those_that_prove_nothing_keep_no_client_out(serve, flowgen, tmp_path):
    token = tmp_path / "token"
    token.write_bytes(secrets.token_bytes(16))
    server = serve("--token-file", token)
    strangers = [socket.create_connection(server.address) for _ in range(300)]
    try:
        strangers[0].sendall(token.read_bytes()[:15])
        totals, _ = server.ask("--token-file", token, "--duration", 0.2, "--connections", 5)
        assert not select.select(strangers[:1], [], [], 0)[0]  # nothing is said of part of a token
        strangers[1].sendall(OPENING.pack(b"x" * 16, MAGIC, 1, 1, 0))
        assert strangers[1].recv(1) == b""
    finally:
        for each in strangers:
            each.close()
    assert all(total["transactions"] for total in totals)


def test_nobody_there_is_an_error_that_says_what_is_missing(flowgen):
    done = run(flowgen, "rr", "--connect", f"127.0.0.1:{free_port()}", "--duration", 0.1)
    assert done.returncode == 1
    assert "a server (flowgen rr-server) must listen there first" in done.stderr
    (total,), (buckets,) = read(done.stdout)
    assert (total["connected_ns"], total["transactions"], buckets) == (None, 0, [])
