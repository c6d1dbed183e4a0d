"""flowgen server, over TCP."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess

from tests.host.flowgen.helpers import PATIENCE_S, Server, run, until


def test_the_server_takes_many_flows_at_once_and_starves_none(flowgen, server, start):
    argv = [flowgen, "client", *server.target, "--duration", 0.5]
    senders = [start(*argv, stdout=subprocess.PIPE) for _ in range(8)]
    totals = [json.loads(sender.communicate(timeout=PATIENCE_S)[0].splitlines()[-1]) for sender in senders]
    received = [server.received() for _ in senders]
    assert len({line["peer"] for line in received}) == 8
    assert sum(line["flow_bytes"] for line in received) >= sum(total["flow_bytes"] for total in totals)
    assert all(total["flow_bytes"] > 0 for total in totals)


def test_a_stopped_server_exits_cleanly_and_reports_flows_that_are_still_open(flowgen, server):
    with socket.create_connection(server.address) as peer:
        peer.sendall(b"x" * 1000)
        (line,) = server.stop()
        assert line["flow_bytes"] == 1000
        assert "stopped" in line["error"]
    assert server.process.returncode == 0


def test_a_reset_connection_is_reported_with_its_error(flowgen, server):
    peer = socket.create_connection(server.address)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close resets
    peer.close()
    assert server.received()["error"] == "Connection reset by peer"


def test_a_server_out_of_descriptors_makes_peers_wait_and_serves_them_later(flowgen, start):
    limited = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh"]
    server = Server(start, flowgen, before=limited, stderr=subprocess.PIPE)
    process = server.process
    peers = []

    def connects() -> bool:
        with contextlib.suppress(ConnectionRefusedError):
            peers.append(socket.create_connection(server.address))
        return len(peers) == 20

    until(connects, "20 connections")
    assert select.select([process.stderr], [], [], PATIENCE_S)[0]
    assert b"out of file descriptors" in process.stderr.readline()
    for peer in peers:
        peer.sendall(b"x" * 10)
        peer.close()
    lines = [json.loads(process.stdout.readline()) for _ in peers]
    assert [line["flow_bytes"] for line in lines] == [10] * 20


def test_a_port_in_use_is_an_error_that_names_it(flowgen, server):
    done = run(flowgen, "server", "--port", server.port, "--bind", "127.0.0.1")
    assert done.returncode == 1
    told = done.stderr.replace("Address in use", "Address already in use")  # musl's words, and glibc's
    assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in told
