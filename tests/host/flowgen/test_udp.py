"""flowgen over UDP: what arrives, what does not, and in which order."""

import contextlib
import json
import select
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.host.flowgen.helpers import PATIENCE_S, Server, free_port, run, until
from tests.support.punctual import PUNCTUAL

HEADER = struct.Struct("=IHHQQ16x")  # magic, kind, flow, sequence, time, no token: lib/flowgen/src/udpwire.h
ANSWER = struct.Struct("=IHHQQ16x QQQQQQ")  # the same, then received, reordered, duplicated, bytes, first, last
MAGIC, DATA, END, ANSWERED = 0x666C6F77, 1, 2, 3
COUNTS = ("datagrams_sent", "datagrams_received", "datagrams_lost", "datagrams_reordered", "datagrams_duplicated")


@pytest.fixture
def udp_server(start, flowgen) -> Server:
    return Server(start, flowgen, "--udp")


@pytest.fixture
def silent():
    """Bound, and says nothing."""
    with socket.socket(type=socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", free_port()))
        bound.settimeout(PATIENCE_S)
        yield bound


def send(flowgen: str, port: int, *options, **of_process) -> tuple[subprocess.CompletedProcess, list[dict]]:
    done = run(flowgen, "client", "--udp", "--connect", f"127.0.0.1:{port}", *options, **of_process)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


class Peer:
    """A client of our own, which sends what it likes."""

    def __init__(self, port: int):
        self.socket = socket.socket(type=socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.socket.settimeout(0.5)
        self.began_ns = time.monotonic_ns()

    def data(self, *sequences: int, size_bytes: int = 100, at_ns: int = 0) -> None:
        for sequence in sequences:
            header = HEADER.pack(MAGIC, DATA, 7, sequence, at_ns or time.monotonic_ns())
            self.socket.send(header.ljust(size_bytes, b"f"))

    def end(self, sent: int) -> dict:
        """What the server answers, which is asked again where it had no room for the question, or no time for it."""
        asked = MAGIC, ANSWERED, 7, sent, self.began_ns

        def answer() -> list[int]:
            self.socket.send(HEADER.pack(MAGIC, END, 7, sent, self.began_ns))
            with contextlib.suppress(TimeoutError):
                while True:  # one to an earlier question may come late
                    *about, received, reordered, duplicated, length, first, last = ANSWER.unpack(self.socket.recv(2000))
                    if tuple(about) == asked:
                        return [received, reordered, duplicated, length, first, last]
            return []

        names = ("received", "reordered", "duplicated", "bytes", "first_ns", "last_ns")
        return dict(zip(names, until(answer, "the server's answer"), strict=True))


@pytest.fixture
def peer(udp_server) -> Peer:
    peer = Peer(udp_server.port)
    with contextlib.closing(peer.socket):
        yield peer


def test_a_flow_that_is_slow_enough_arrives_whole_and_both_sides_say_the_same(flowgen, udp_server):
    # A hundred, for which there is room, however late the server has its turn of the CPU.
    done, (total,) = send(flowgen, udp_server.port, "--duration", 0.2, "--rate", 2_000_000, "--write-bytes", 500)
    assert done.returncode == 0, done.stderr
    received = udp_server.received()
    assert (total["protocol"], received["protocol"], received["peer"]) == ("udp", "udp", total["local"])
    assert [total[key] for key in COUNTS] == [received[key] for key in COUNTS]
    assert [total[key] for key in COUNTS[1:]] == [total["datagrams_sent"], 0, 0, 0]
    assert total["flow_bytes"] == received["flow_bytes"] == total["bytes_written"] == 500 * total["datagrams_sent"]
    assert (total["first_ns"], total["last_ns"]) == (received["first_ns"], received["last_ns"])
    assert total["connect_ns"] < total["connected_ns"] < total["first_ns"] < total["last_ns"] < time.monotonic_ns()
    over_ns = max(total["end_ns"], total["last_ns"])
    assert total["duration_s"] == pytest.approx((over_ns - total["connected_ns"]) / 1e9)
    assert total["throughput_bps"] == pytest.approx(total["flow_bytes"] * 8 / total["duration_s"])


def test_a_flow_keeps_its_rate_for_as_long_as_asked(flowgen, udp_server):
    """1000 are due. Who is held up at the end misses some."""
    options = ["--duration", 1, "--rate", 8_000_000, "--write-bytes", 1000]
    done, (total,) = send(flowgen, udp_server.port, *options, **PUNCTUAL)
    assert done.returncode == 0, done.stderr
    assert 900 <= total["datagrams_sent"] <= 1000
    assert 1 <= (total["end_ns"] - total["connected_ns"]) / 1e9 < 2


def test_without_a_rate_datagrams_go_as_fast_as_they_can(flowgen, udp_server):
    _, (total,) = send(flowgen, udp_server.port, "--duration", 0.2)
    assert total["datagrams_sent"] > 1000
    assert total["datagrams_received"] + total["datagrams_lost"] == total["datagrams_sent"]
    assert total["flow_bytes"] == 1448 * total["datagrams_received"]


@pytest.mark.parametrize("size_bytes", [HEADER.size, 65507])
def test_the_smallest_and_the_largest_datagrams_arrive(flowgen, udp_server, size_bytes):
    # Two, for which there is room, however late the server has its turn of the CPU.
    options = ["--duration", 0.015, "--rate", size_bytes * 8 * 100, "--write-bytes", size_bytes]
    done, (total,) = send(flowgen, udp_server.port, *options)
    assert done.returncode == 0, done.stderr
    assert total["flow_bytes"] == size_bytes * total["datagrams_sent"] > 0


def test_what_a_full_receive_buffer_drops_is_lost(flowgen, udp_server, start):
    def dropped() -> int:
        of_port = f":{udp_server.port:04X} 00000000:0000"
        (line,) = (line for line in Path("/proc/net/udp").read_text().splitlines() if of_port in line)
        return int(line.split()[-1])

    udp_server.process.send_signal(signal.SIGSTOP)
    target = [*udp_server.target, "--duration", "0.3", "--rate", "100000000"]
    sender = start(flowgen, "client", "--udp", *target, stdout=subprocess.PIPE)
    until(lambda: dropped() > 10, "the kernel to drop")
    udp_server.process.send_signal(signal.SIGCONT)
    total = json.loads(sender.communicate(timeout=PATIENCE_S)[0])
    assert sender.returncode == 0
    assert 10 < total["datagrams_lost"] <= dropped()
    assert total["datagrams_received"] == total["datagrams_sent"] - total["datagrams_lost"] > 0


def test_several_flows_are_counted_apart(flowgen, udp_server):
    done, totals = send(flowgen, udp_server.port, "--duration", 0.1, "--rate", 1_000_000, "--flows", 5)
    assert done.returncode == 0, done.stderr
    received = {line["peer"]: line for line in (udp_server.received() for _ in totals)}
    assert [total["flow"] for total in totals] == [0, 1, 2, 3, 4]
    for total in totals:
        assert received[total["local"]]["flow"] == total["flow"]
        assert received[total["local"]]["datagrams_sent"] == total["datagrams_sent"] > 0


def test_tcp_and_udp_share_the_port(flowgen, udp_server):
    target = f"127.0.0.1:{udp_server.port}"
    assert run(flowgen, "client", "--connect", target, "--bytes", 1000).returncode == 0
    assert udp_server.received()["protocol"] == "tcp"
    done, _ = send(flowgen, udp_server.port, "--duration", 0.01, "--rate", 1_000_000)
    assert done.returncode == 0
    assert udp_server.received()["protocol"] == "udp"


def test_a_server_that_never_answers_is_an_error_and_its_counts_are_not_known(flowgen, silent):
    done, (total,) = send(flowgen, silent.getsockname()[1], "--duration", 0.05, "--rate", 1_000_000)
    assert done.returncode == 1
    assert done.stderr == "flowgen client: the server did not say within 1 s what it had received\n"
    assert total["error"] in done.stderr
    assert total["datagrams_sent"] > 0
    assert [total[key] for key in (*COUNTS[1:], "flow_bytes", "throughput_bps", "first_ns")] == [None] * 7


def test_an_end_mark_that_is_lost_is_sent_again(flowgen, silent, start):
    target = ["--connect", f"127.0.0.1:{silent.getsockname()[1]}", "--duration", "0.01", "--rate", "1000000"]
    sender = start(flowgen, "client", "--udp", *target, stdout=subprocess.PIPE)
    marks = []
    while len(marks) < 3:
        datagram, sender_address = silent.recvfrom(2000)
        if HEADER.unpack_from(datagram)[1] == END:
            marks.append(datagram)
    assert len(set(marks)) == 1
    magic, _, flow, sequence, at_ns = HEADER.unpack(marks[0])
    other = ANSWER.pack(magic, ANSWERED, flow, sequence, at_ns + 1, *[9] * 6)  # of another flow: must not count
    silent.sendto(other, sender_address)
    silent.sendto(
        ANSWER.pack(magic, ANSWERED, flow, sequence, at_ns, 1, 0, 0, 1448, at_ns + 5, at_ns + 10**9), sender_address
    )
    total = json.loads(sender.communicate(timeout=PATIENCE_S)[0])
    assert (total["datagrams_received"], total["datagrams_lost"]) == (1, sequence - 1)
    assert (total["duration_s"], total["throughput_bps"]) == (1, 1448 * 8)


@pytest.mark.parametrize("listening", [False, True], ids=["nobody", "tcp-only"])
def test_a_port_without_a_udp_server_is_an_error_that_says_what_to_do(flowgen, server, listening):
    done, (total,) = send(flowgen, server.port if listening else free_port(), "--duration", 1)
    assert done.returncode == 1
    assert "Connection refused; a server must be there first, with --udp" in total["error"]


@pytest.mark.parametrize(
    ("arrivals", "sent", "received", "reordered", "duplicated"),
    [
        ([0, 1, 2, 3], 4, 4, 0, 0),
        ([0, 1, 3, 4], 5, 4, 0, 0),  # a loss alone reorders nothing
        ([0, 1, 2, 4, 5, 6, 3, 7], 8, 8, 1, 0),  # one late: only that one is reordered (RFC 4737, section 10)
        ([0, 1, 2, 6, 7, 8, 9, 3, 4, 5, 10], 11, 11, 3, 0),
        ([3, 2, 1, 0], 4, 4, 3, 0),
        ([0, 0, 1, 1, 1], 2, 2, 0, 3),
        ([0, 2, 1, 2, 1], 3, 3, 1, 2),  # a duplicate is not reordered as well
        ([63, 64, 0, 127, 128, 64, 0], 129, 5, 1, 2),
        ([0, 100_000, 1, 100_000], 100_001, 3, 1, 1),  # farther than duplicates are looked for
        ([0, 65_535, 65_535, 0], 65_536, 2, 0, 2),
        ([5, 65_541, 6, 65_542, 6], 65_543, 5, 2, 0),  # who shares a place in the window is no duplicate
        ([], 3, 0, 0, 0),
    ],
)
def test_arrivals_are_counted_as_rfc_4737_has_it(udp_server, peer, arrivals, sent, received, reordered, duplicated):
    peer.data(*arrivals)
    answer = peer.end(sent)
    line = udp_server.received()
    assert (answer["received"], answer["reordered"], answer["duplicated"]) == (received, reordered, duplicated)
    assert answer["bytes"] == line["flow_bytes"] == 100 * received
    assert [line[key] for key in COUNTS] == [sent, received, sent - received, reordered, duplicated]
    assert (line["first_ns"], line["last_ns"]) == (answer["first_ns"] or None, answer["last_ns"] or None)


def test_who_asks_again_hears_the_same_and_the_flow_is_reported_once(udp_server, peer):
    peer.data(0, 1)
    first = peer.end(3)
    peer.data(2, at_ns=peer.began_ns)  # late, after the end: it counts as lost
    assert peer.end(3) == first
    assert udp_server.received()["datagrams_lost"] == 1
    assert udp_server.stop() == []


def test_a_port_that_is_used_again_is_another_flow(udp_server, peer):
    peer.data(0, 1, 2)
    assert peer.end(3)["received"] == 3
    peer.began_ns = time.monotonic_ns()
    peer.data(0)
    assert peer.end(1)["received"] == 1
    peer.began_ns = time.monotonic_ns()
    assert peer.end(5)["received"] == 0  # nothing of it arrived but its end
    assert [udp_server.received()["datagrams_lost"] for _ in range(3)] == [0, 0, 5]


def test_datagrams_of_others_are_ignored(udp_server, peer):
    for stray in (
        b"",
        b"hello",
        bytes(HEADER.size),
        bytes(2000),
        HEADER.pack(MAGIC, ANSWERED, 0, 0, 0),
        HEADER.pack(MAGIC, 9, 0, 0, 0),
    ):
        peer.socket.send(stray)
    peer.data(0)
    assert peer.end(1)["received"] == 1
    assert udp_server.received()["datagrams_received"] == 1
    assert udp_server.stop() == []


def test_strangers_without_number_take_no_more_memory_and_nobody_elses_place(udp_server, peer):
    """They are one socket, which has 20,000 of the loopback's addresses: ip(7), IP_PKTINFO."""
    peer.data(0, 1)
    header = HEADER.pack(MAGIC, DATA, 0, 0, 1)
    with socket.socket(type=socket.SOCK_DGRAM) as strangers:
        for number in range(20_000):
            source = bytes((127, 1, number // 250, 1 + number % 250))
            chosen = (socket.IPPROTO_IP, 8, struct.pack("=i4s4x", 0, source))
            strangers.sendmsg([header], [chosen], 0, ("127.0.0.1", udp_server.port))
    assert peer.end(2)["received"] == 2
    assert psutil.Process(udp_server.process.pid).memory_info().rss < 100 * 2**20  # of 20,000 flows: 160 MiB more


def test_a_stopped_server_reports_flows_that_have_not_ended(udp_server, peer):
    peer.data(0, 1)
    other = Peer(udp_server.port)
    with contextlib.closing(other.socket):
        other.data(0)
        other.end(1)  # answered, so what came before it has been taken
    assert select.select([udp_server.process.stdout], [], [], PATIENCE_S)[0]
    ended, line = udp_server.received(), *udp_server.stop()
    assert ended["datagrams_lost"] == 0
    assert (line["datagrams_received"], line["datagrams_sent"], line["datagrams_lost"]) == (2, None, None)
    assert "stopped" in line["error"]
    assert udp_server.process.returncode == 0


def test_a_udp_port_in_use_is_an_error_that_names_it(flowgen, silent):
    port = silent.getsockname()[1]
    done = run(flowgen, "server", "--port", port, "--bind", "127.0.0.1", "--udp")
    assert done.returncode == 1
    assert f"cannot receive UDP on 127.0.0.1:{port}: Address" in done.stderr
