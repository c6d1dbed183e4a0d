"""flowgen's token: a server counts what its own clients send, whoever else reaches its port."""

from __future__ import annotations

import json
import resource
import secrets
import select
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, Server, on_the_way, run, until

TOKEN_BYTES = 16
HEADER = struct.Struct("=IHHQQ16s")  # magic, kind, flow, sequence, time, token: lib/flowgen/src/udpwire.h
MAGIC, DATA, END = 0x666C6F77, 1, 2
WRONG = b"\0" * TOKEN_BYTES


@pytest.fixture
def token(tmp_path) -> Path:
    (tmp_path / "token").write_bytes(secrets.token_bytes(TOKEN_BYTES))
    return tmp_path / "token"


class Guarded(Server):
    """A server that asks for the token."""

    def __init__(self, flowgen: str, token: Path, start, *before: str):
        super().__init__(start, flowgen, "--udp", "--token-file", token, before=before, stderr=subprocess.PIPE)
        self._token = token

    def send(self, *options) -> list[dict]:
        """What a client reports of each flow."""
        done = run(self.flowgen, "client", *self.asked(), *options)
        assert done.returncode == 0, done.stderr
        return [line for line in map(json.loads, done.stdout.splitlines()) if line["event"] == "total"]

    def asked(self, token: Path | None = None) -> list[str]:
        """What a client with this token is asked, or with the right one."""
        return [*self.target, "--token-file", str(token or self._token)]

    def told(self) -> tuple[dict[str, dict], str]:
        """Stopped: its lines, by peer, and what it complained of."""
        lines, complaint = self.stop_and_tell()
        by_peer = {line["peer"]: line for line in lines}
        assert len(by_peer) == len(lines)
        return by_peer, complaint


@pytest.fixture
def guarded(flowgen, token, start) -> Guarded:
    return Guarded(flowgen, token, start)


@pytest.fixture
def many_descriptors():
    """For a test's own sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"needs 4096 descriptors; this process may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(PATIENCE_S)
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("size_bytes", [1, 15, 16, 17, 1000, 5_000_000])
@pytest.mark.parametrize("write_bytes", [1, 7, 131072])
def test_the_token_is_part_of_a_flows_bytes_which_are_as_many_as_asked(guarded, size_bytes, write_bytes):
    if write_bytes < 1000 < size_bytes:
        pytest.skip("a million calls")
    (total,) = guarded.send("--bytes", size_bytes, "--write-bytes", write_bytes)
    assert total["complete"]
    assert total["flow_bytes"] == total["bytes_written"] == size_bytes
    lines, complaint = guarded.told()
    assert lines[total["local"]]["flow_bytes"] == size_bytes
    assert len(lines) == 1
    assert complaint == ""


def test_flows_by_time_and_of_udp_arrive_with_the_token(guarded):
    totals = guarded.send("--duration", 0.2, "--flows", 3)
    totals += guarded.send("--udp", "--duration", 0.1, "--rate", 2_000_000, "--write-bytes", HEADER.size)
    lines, complaint = guarded.told()
    assert lines.keys() == {total["local"] for total in totals}
    assert all(total["flow_bytes"] > 0 for total in totals)
    arrived = totals[-1]["datagrams_sent"] - totals[-1]["datagrams_lost"]  # the kernel drops what a late server leaves
    assert lines[totals[-1]["local"]]["flow_bytes"] == HEADER.size * arrived > 0
    assert complaint == ""


def test_without_the_token_or_with_another_nothing_is_counted(guarded, tmp_path, flowgen):
    (tmp_path / "other").write_bytes(secrets.token_bytes(TOKEN_BYTES))
    for options in (guarded.target, guarded.asked(tmp_path / "other")):
        assert run(flowgen, "client", *options, "--bytes", 5_000_000).returncode == 1
        assert run(flowgen, "client", "--udp", *options, "--duration", 0.05, "--rate", 10**6).returncode == 1
    lines, complaint = guarded.told()
    assert lines == {}
    assert complaint.startswith("flowgen server: refused without the token: 2 connections, ")


def test_what_others_send_during_a_measurement_changes_nothing_of_its_counts(guarded, token, flowgen, start):
    known = token.read_bytes()
    wrong = known[:-1] + bytes([known[-1] ^ 1])
    client = start(flowgen, "client", *guarded.asked(), "--duration", 1, "--flows", 2, stdout=subprocess.PIPE)
    finite = start(flowgen, "client", *guarded.asked(), "--bytes", 300_000_000, stdout=subprocess.PIPE)
    datagrams = ["--udp", "--duration", 1, "--rate", 1_000_000, "--write-bytes", 500]
    paced = start(flowgen, "client", *guarded.asked(), *datagrams, stdout=subprocess.PIPE)
    stalled = socket.create_connection(guarded.address)
    stalled.sendall(known[:8])  # and no more: it must hold up nobody
    strangers = socket.socket(type=socket.SOCK_DGRAM)
    with stalled, strangers:
        while client.poll() is None or paced.poll() is None:
            for sent in (WRONG + b"x" * 1000, wrong, b"", b"x"):
                with socket.create_connection(guarded.address) as peer:
                    peer.sendall(sent)
                    peer.shutdown(socket.SHUT_WR)
                    assert is_closed(peer)
            for kind, its in ((DATA, WRONG), (DATA, wrong), (END, wrong)):
                strangers.sendto(HEADER.pack(MAGIC, kind, 0, 0, 1, its), guarded.address)
        assert not select.select([stalled], [], [], 0)[0]  # it may still be one of ours
        totals = [json.loads(line) for each in (client, finite, paced) for line in each.communicate()[0].splitlines()]
        totals = [line for line in totals if line["event"] == "total"]
        until(lambda: not on_the_way(guarded.port), "the server to read what clients that have ended sent")
        lines, complaint = guarded.told()
    assert lines.keys() == {total["local"] for total in totals}
    assert len(totals) == 4
    for total in totals:
        received = lines[total["local"]]["flow_bytes"]
        sent = total["bytes_written"]
        assert received == sent if total["protocol"] == "tcp" else received == total["flow_bytes"] > 0, total
    assert "refused without the token: " in complaint


def test_a_token_that_comes_byte_by_byte_is_one(guarded, token):
    with socket.create_connection(guarded.address) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in token.read_bytes() + b"and":
            peer.sendall(bytes([byte]))
        peer.shutdown(socket.SHUT_WR)
        assert is_closed(peer)
        local = "{}:{}".format(*peer.getsockname())
    lines, _ = guarded.told()
    assert lines[local]["flow_bytes"] == TOKEN_BYTES + 3


def test_nothing_is_said_of_part_of_a_token(guarded, token):
    """A connection that were closed at the first wrong byte would let others find them one by one."""
    known = token.read_bytes()
    with socket.create_connection(guarded.address) as right, socket.create_connection(guarded.address) as wrong:
        right.sendall(known[:15])
        wrong.sendall(bytes(byte ^ 1 for byte in known[:15]))
        guarded.send("--bytes", 1000)  # by whose end the server has read both
        assert not select.select([right, wrong], [], [], 0)[0]
        wrong.sendall(b"x")
        assert is_closed(wrong)


@pytest.mark.parametrize("descriptors", ["", "ulimit -n 64; "], ids=["as-many-as-there-are", "of-64-descriptors"])
@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_connections_of_others_keep_no_client_out(flowgen, token, start, descriptors):
    server = Guarded(flowgen, token, start, "sh", "-c", f'{descriptors}exec "$@"', "sh")
    strangers = [socket.create_connection(server.address) for _ in range(1000)]
    try:
        totals = server.send("--bytes", 100_000, "--flows", 20)
        late = [socket.create_connection(server.address) for _ in range(10)]
        strangers += late
        totals += server.send("--duration", 0.1)
    finally:
        for each in strangers:
            each.close()
    lines, complaint = server.told()
    assert lines.keys() == {total["local"] for total in totals}
    assert [lines[total["local"]]["flow_bytes"] for total in totals[:20]] == [100_000] * 20
    assert "out of file descriptors" not in complaint


@pytest.mark.usefixtures("many_descriptors")
def test_those_that_prove_nothing_take_no_more_than_two_thousand_descriptors(guarded):
    strangers = [socket.create_connection(guarded.address) for _ in range(2100)]
    try:
        guarded.send("--bytes", 1000)
        assert len(list(Path(f"/proc/{guarded.process.pid}/fd").iterdir())) < 2050
    finally:
        for each in strangers:
            each.close()


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"short", "16 bytes"), (b"x" * 17, "16 bytes")])
@pytest.mark.parametrize("command", [["server", "--port", "1"], ["client", "--connect", "127.0.0.1:1", "--bytes", "1"]])
def test_a_file_that_is_no_token_is_refused(flowgen, tmp_path, command, content, why):
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    done = run(flowgen, *command, "--token-file", tmp_path / "token")
    assert done.returncode == 1
    assert f"{tmp_path}/token" in done.stderr
    assert why in done.stderr


def test_the_token_is_in_no_command_line(guarded, token):
    words = Path(f"/proc/{guarded.process.pid}/cmdline").read_bytes()
    assert token.read_bytes() not in words
    assert token.read_bytes().hex().encode() not in words
