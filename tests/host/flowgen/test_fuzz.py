"""Bad input: flowgen under AddressSanitizer and UBSan, given anything as arguments and by its peers, for a short while.

`make -C lib/flowgen fuzz SECONDS=600` does it for long. Here each harness has the same inputs in every run; then real
processes meet peers that do not keep to any protocol, and a sanitized flowgen carries a real measurement.
"""

import json
import os
import random
import re
import select
import signal
import socket
import struct
import time

import pytest

from pairlab.measurement.measure import measure
from pairlab.model.spec import Spec
from tests.conftest import need
from tests.host.flowgen.helpers import (
    PATIENCE_S,
    SOURCE,
    Server,
    free_port,
    listens,
    make,
    needs_compiler,
    needs_sanitizers,
    run,
    until,
)

pytestmark = pytest.mark.whole

INPUTS = 2000  # for each harness
HARNESSES = {"answering", "control", "histogram", "netcounters", "options", "rr_server", "sizes", "tcp_server", "text"}
HARNESSES |= {"udp_answer", "udp_server"}
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST

UDP_MAGIC, UDP_DATA, UDP_END, UDP_ANSWER = 0x666C6F77, 1, 2, 3  # udpwire.h


@pytest.fixture(scope="module")
def flowgen(tmp_path_factory):
    """The sanitized one."""
    needs_compiler()
    needs_sanitizers(tmp_path_factory.mktemp("sanitizers"))
    make("sanitize")
    return str(SOURCE / "build" / "flowgen-sanitize")


@pytest.fixture
def chosen():
    """The same choices in every run."""
    return random.Random(1)


def test_no_harness_finds_anything(flowgen, record_property):
    done = run("make", "-C", SOURCE, "fuzz", f"RUNS={INPUTS}", patience_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    harnesses = re.findall(rf"^(\w+): {INPUTS} inputs$", done.stdout, re.MULTILINE)
    counts = [int(count) for count in re.findall(r"(?:number_of_executed_units: |Done )(\d+)", done.stdout)]
    assert set(harnesses) == HARNESSES
    assert len(counts) >= len(harnesses)
    assert all(count >= INPUTS for count in counts)
    record_property("fuzzed_inputs", INPUTS * len(harnesses))


def test_a_tcp_server_counts_what_every_kind_of_peer_sent(flowgen, start, chosen):
    """Peers that send and close, half-close, reset, or only look in; many at once."""
    server = Server(start, flowgen)
    sent_whole, sent_reset, peers = 0, 0, 200
    for _ in range(peers):
        with socket.create_connection(server.address) as peer:
            payload = os.urandom(chosen.choice([0, 1, 100, 70_000]))
            peer.sendall(payload)
            if chosen.random() < 0.3:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                sent_reset += len(payload)
                continue
            sent_whole += len(payload)
            if chosen.random() < 0.5:
                peer.shutdown(socket.SHUT_WR)
                assert peer.recv(1) == b""
    lines = [server.received() for _ in range(peers)]
    lines += server.stop()
    assert server.process.returncode == 0
    assert len(lines) == peers
    assert sum(line["flow_bytes"] for line in lines if "error" not in line) >= sent_whole
    assert sum(line["flow_bytes"] for line in lines) <= sent_whole + sent_reset


def datagram(chosen):
    """Ours, nearly ours, or anything."""
    if chosen.random() < 0.2:
        return chosen.randbytes(chosen.choice([0, 1, 39, 40, 41, 1448]))
    kind = chosen.choice([0, UDP_DATA, UDP_DATA, UDP_DATA, UDP_END, UDP_ANSWER, 65535])
    number = chosen.choice([0, 1, 2, 65535, 65536, 2**32, 2**63, 2**64 - 1, chosen.randrange(2**17)])
    moment = chosen.choice([0, 1, time.monotonic_ns(), 2**64 - 1])
    told = struct.pack("=IHHQQ16x", UDP_MAGIC, kind, chosen.randrange(2**16), number, moment)
    return told[: chosen.choice([40, 40, 40, 39, 4])] + bytes(chosen.choice([0, 0, 1, 1000]))


def test_a_udp_server_survives_any_datagrams_and_still_counts(flowgen, start, chosen):
    server = Server(start, flowgen, "--udp")
    strangers = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(5)]
    for _ in range(3000):
        chosen.choice(strangers).sendto(datagram(chosen), server.address)
    with socket.socket(type=socket.SOCK_DGRAM) as ours:
        ours.connect(server.address)
        ours.settimeout(0.2)
        begun = time.monotonic_ns()
        for number in range(5):
            ours.send(struct.pack("=IHHQQ16x", UDP_MAGIC, UDP_DATA, 7, number, begun) + bytes(76))

        def answer():
            ours.send(struct.pack("=IHHQQ16x", UDP_MAGIC, UDP_END, 7, 5, begun))
            try:
                return ours.recv(65536)
            except TimeoutError:
                return b""

        received = struct.unpack_from("=IHHQQ16xQQQQQQ", until(answer, "the server's answer"))
    assert received[1] == UDP_ANSWER
    assert received[5] <= 5  # some may have found its buffer full of the strangers'
    for stranger in strangers:
        stranger.close()
    server.process.send_signal(signal.SIGTERM)
    said, _ = server.process.communicate(timeout=PATIENCE_S)
    assert server.process.returncode == 0
    assert all(json.loads(line)["event"] == "received" for line in said.splitlines())


def test_a_udp_client_takes_no_strangers_answer_for_its_servers(flowgen, start, chosen):
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        client = start(
            *(flowgen, "client", "--udp", "--connect", address, "--duration", "0.05", "--rate", "1000000"),
            stdout=-1,
            stderr=-1,
            text=True,
        )
        server.settimeout(0.1)
        while client.poll() is None:
            try:
                _, peer = server.recvfrom(65536)
            except TimeoutError:
                continue
            server.sendto(datagram(chosen), peer)
            answer = struct.pack("=IHHQQ16x", UDP_MAGIC, UDP_ANSWER, 0, 1, 12345) + bytes(48)  # of another flow
            server.sendto(answer, peer)
        said, complaint = client.communicate()
    assert client.returncode == 1
    assert "did not say within" in complaint
    assert "Sanitizer" not in complaint
    assert json.loads(said)["datagrams_received"] is None


def test_a_tcp_client_reports_whatever_its_server_does(flowgen, start, chosen):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for how in ("reset", "close", "chatter", "silence"):
            client = start(
                *(flowgen, "client", "--connect", address, "--bytes", "3000000", "--limit", "1", "--interval", "0.01"),
                stdout=-1,
                stderr=-1,
                text=True,
            )
            peer, _ = server.accept()
            with peer:
                if how == "reset":
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                if how == "chatter":
                    peer.sendall(chosen.randbytes(500_000))
                if how == "silence":
                    client.wait(PATIENCE_S)
            said, complaint = client.communicate(timeout=PATIENCE_S)
            total = json.loads(said.splitlines()[-1])
            assert client.returncode == 1
            assert (total["event"], total["complete"]) == ("total", False), how
            assert "Sanitizer" not in complaint
            assert complaint.count("\n") == 1


def test_a_launcher_heeds_term_and_no_other_packet(flowgen, hold, gate, chosen):
    for _ in range(20):
        held = hold("--gate", gate.path, "--", "sleep", "60", stderr=-1).ready()
        for _ in range(chosen.randrange(60)):
            known = [b"t", b"ter", b"term\n", b"TERM", b"\0", b'{"event":"ready"}']
            packet = chosen.choice([*known, chosen.randbytes(3000)])
            held.control.send(packet)
            os.write(gate.fd, chosen.randbytes(10))  # nor is what is written into the gate an event
            while select.select([gate.fd], [], [], 0)[0]:
                os.read(gate.fd, 65536)
        assert held.process.poll() is None
        assert held.is_silent()
        held.control.send(b"term")
        ended = held.event()
        assert (ended["event"], ended["start_ns"], ended["signal"]) == ("ended", None, signal.SIGKILL)
        held.exit_status()
        assert "Sanitizer" not in held.process.stderr.read().decode(errors="replace")


def test_a_sanitized_flowgen_carries_a_whole_measurement(flowgen, runs_dir, monkeypatch):
    """A real transfer: in namespaces, over a bridge, launched, held and released by what is tested here."""
    need("netns")
    monkeypatch.setenv("PAIRLAB_FLOWGEN", flowgen)
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # the leak check traces, and the launcher does so already
    for asked in ({}, {"udp_share": 1.0}, {"flow_bytes": 5_000_000}):
        done = measure(Spec(workload="flowgen", pairs=3, duration_s=1.0, flows_per_pair=2, max_skew_s=10.0, **asked))
        assert list(done.flows["status"]) == ["ok"] * 6, done.flows["error"]
        assert (done.flows["flow_bytes"] > 0).all()
        assert not [text for text in done.raw.values() if "Sanitizer" in text or "runtime error" in text]


def test_a_server_that_is_full_of_connections_takes_more_when_some_end(flowgen, start):
    """The kernel has no more descriptors for it; it says so, waits, and loses nobody."""
    port = free_port()
    limited = ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", flowgen, "server", "--bind", "127.0.0.1"]
    server = start(*limited, "--port", port, stdout=-1, stderr=-1, text=True)
    until(lambda: listens(port), "the server to listen")
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    for peer in peers:
        peer.sendall(b"x" * 10)
    for peer in peers:
        peer.close()
    lines = [json.loads(server.stdout.readline()) for _ in range(61)]
    server.terminate()
    _, complaint = server.communicate(timeout=PATIENCE_S)
    assert sum(line["flow_bytes"] for line in lines) == 600
    assert "out of file descriptors" in complaint
    assert server.returncode == 0
