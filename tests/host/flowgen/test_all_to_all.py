"""flowgen all-to-all: ranks that each send a message to all others and receive as many."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, free_port, until

HELLO_BYTES = 24  # lib/flowgen/src/mesh.h
ESTABLISHED, LISTENS = "01", "0A"  # in /proc/net/tcp


@pytest.fixture
def ranks(start, flowgen):
    """ranks(4, ...) -> the processes of so many ranks, the first started last."""

    def begin(count, *options, without=()):
        ports = {free_port() for _ in range(4 * count)}
        addresses = [f"127.0.0.1:{port}" for port in sorted(ports)[:count]]
        command = [flowgen, "all-to-all", "--ranks", ",".join(addresses), *options]
        return [
            start(*command, "--rank", rank, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in reversed(range(count))
            if rank not in without
        ][::-1]

    return begin


def reports(processes):
    told = [process.communicate(timeout=PATIENCE_S) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), told
    return [list(map(json.loads, said.splitlines())) for said, _ in told]


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_all_ranks_make_equally_many_rounds_and_each_is_in_the_histogram_once(ranks, count):
    found = reports(ranks(count, "--duration", "0.2", "--warmup", "0.1"))
    rounds = {rank["rounds"] for _, rank in found}
    assert len(rounds) == 1
    assert min(rounds) > 5
    for number, (latencies, rank) in enumerate(found):
        assert (rank["rank"], rank["ranks"]) == (number, count)
        assert sum(times for _, times in latencies["buckets"]) == rank["rounds"]
        mean_s = sum(value * times for value, times in latencies["buckets"]) / rank["rounds"] / 1e9
        assert mean_s == pytest.approx(rank["mean_s"], rel=0.001)
        assert rank["min_s"] <= rank["mean_s"] <= rank["max_s"]
        assert rank["duration_s"] >= 0.2  # by its own clock, whenever it looked
        assert rank["lasted_s"] >= 0.1 + rank["duration_s"]


def test_what_all_ranks_sent_all_ranks_received(ranks):
    found = [rank for _, rank in reports(ranks(4, "--duration", "0.2", "--message-bytes", "1000"))]
    assert sum(rank["sent_bytes"] for rank in found) == sum(rank["received_bytes"] for rank in found)
    for rank in found:  # a message to each of three, and a byte in each of the two steps of a barrier
        payload = rank["sent_bytes"] - HELLO_BYTES * rank["rank"]
        assert payload == rank["rounds"] * (3 * 1000 + 2) + 2


def test_messages_larger_than_sockets_take_are_exchanged_in_parts(ranks):
    for _, rank in reports(ranks(3, "--duration", "0.3", "--message-bytes", str(1 << 20))):
        assert rank["rounds"] > 0


def test_a_rank_that_does_not_come_is_named(ranks):
    (first, third) = ranks(3, "--duration", "1", "--wait", without=(1,))
    until(lambda: lines_of(third, ESTABLISHED) == 2, "both ends of the connection of the two that are there")
    third.terminate()
    said, complaint = third.communicate(timeout=PATIENCE_S)
    assert third.returncode == 1
    assert said == ""
    assert "cannot connect to rank 1 at 127.0.0.1:" in complaint
    assert complaint.count("\n") == 1
    first.terminate()
    _, complaint = first.communicate(timeout=PATIENCE_S)
    assert "the first of them rank 1 at 127.0.0.1:" in complaint


def test_a_rank_that_ends_is_told_by_all_others(ranks):
    processes = ranks(3, "--duration", "30")
    until(lambda: lines_of(processes[0], ESTABLISHED) == 6, "three connections, of which each end is a line")
    processes[1].kill()
    for process in (processes[0], processes[2]):
        said, complaint = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert "broke" in complaint
        assert json.loads(said.splitlines()[-1])["error"] in complaint


def lines_of(process, state):
    """How many sockets in that state have a port of the process's ranks."""
    addresses = process.args[process.args.index("--ranks") + 1].split(",")
    ports = {f":{int(address.rsplit(':')[-1]):04X}" for address in addresses}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[3] == state and (line[1][8:] in ports or line[2][8:] in ports) for line in lines)


def test_strangers_take_no_ranks_place(start, flowgen, tmp_path):
    token = tmp_path / "token"
    token.write_bytes(b"0123456789abcdef")
    ports = sorted({free_port() for _ in range(8)})[:2]
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    command = [flowgen, "all-to-all", "--ranks", addresses, "--duration", "0.1", "--token-file", token]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    first = start(*command, "--rank", "0", "--wait", **options)

    def stranger():
        try:
            return socket.create_connection(("127.0.0.1", ports[0]), timeout=1)
        except ConnectionRefusedError:
            return None

    with until(stranger, "the first rank to listen") as peer:
        peer.sendall(bytes(16) + b"hsem" + (1).to_bytes(4, "little"))
        assert peer.recv(1) == b""
        (found,) = reports([start(*command, "--rank", "1", **options)])
    assert found[-1]["rounds"] > 0
    first.terminate()
    assert reports([first])[0][-1]["rounds"] == found[-1]["rounds"]
