"""flowgen client, over TCP."""

from __future__ import annotations

import itertools
import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, client, free_port, run
from tests.support.punctual import PUNCTUAL


def test_intervals_follow_each_other_and_sum_to_the_total(flowgen, server):
    intervals, total = client(flowgen, server, "--duration", 0.5, "--interval", 0.2)
    assert [line["event"] for line in intervals] == ["interval"] * len(intervals)
    assert 1 <= len(intervals) <= 3  # three, unless the machine stalls for a whole interval
    assert intervals[0]["start_s"] == 0
    assert all(a["end_s"] == b["start_s"] for a, b in itertools.pairwise(intervals))
    assert intervals[-1]["end_s"] == pytest.approx(total["duration_s"])
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"] > 1_000_000
    assert sum(line["retransmits"] for line in intervals) == total["retransmits"]


def test_intervals_end_on_multiples_of_the_interval_and_do_not_drift(flowgen, server, start):
    """One that is stopped for a while, across such a moment, is late for that one and not for those that follow.

    Had it counted on from there, all that follow would be late by as much; a machine that stalls delays some of them.
    """
    target = [*server.target, "--duration", "1", "--interval", "0.1"]
    sender = start(flowgen, "client", *target, stdout=subprocess.PIPE, **PUNCTUAL)
    for number, wait_s in ((signal.SIGSTOP, 0.15), (signal.SIGCONT, 0.1)):
        time.sleep(wait_s)
        sender.send_signal(number)
    *intervals, _, _ = map(json.loads, sender.communicate(timeout=PATIENCE_S)[0].splitlines())
    assert all(line["end_s"] >= number / 10 for number, line in enumerate(intervals, 1))  # never early
    assert min(line["end_s"] % 0.1 for line in intervals if line["start_s"] > 0.2) < 0.02


def test_the_total_is_consistent_in_itself_and_with_what_the_server_received(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.25)
    assert total["event"] == "total"
    assert "error" not in total
    assert total["connect_ns"] < total["connected_ns"] < total["end_ns"] < time.monotonic_ns()
    assert total["duration_s"] == pytest.approx((total["end_ns"] - total["connected_ns"]) / 1e9)
    assert 0.25 <= total["duration_s"] < 1.25
    assert total["throughput_bps"] == pytest.approx(total["flow_bytes"] * 8 / total["duration_s"])
    assert total["mss_bytes"] > 500
    assert total["cwnd_bytes"] >= total["mss_bytes"]
    assert 0 <= total["min_rtt_s"] <= total["rtt_s"] < 5
    assert total["congestion_control"] == Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    received = server.received()
    assert 0 < total["flow_bytes"] <= received["flow_bytes"] <= total["bytes_written"]
    assert received["peer"].startswith("127.0.0.1:")
    assert total["connect_ns"] < received["first_ns"] < received["last_ns"]
    assert received["accept_ns"] <= received["first_ns"]
    assert "error" not in received


def test_one_that_is_stopped_reports_what_it_has_sent_until_then(flowgen, server, start):
    target = [*server.target, "--duration", "1000", "--interval", "0.1", "--stoppable"]
    begun_ns = time.monotonic_ns()
    sender = start(flowgen, "client", *target, stdout=subprocess.PIPE)
    time.sleep(0.45)  # the time that it sends
    sender.terminate()
    *intervals, total = map(json.loads, sender.communicate(timeout=PATIENCE_S)[0].splitlines())
    assert sender.returncode == 0
    assert "error" not in total
    assert total["duration_s"] < (time.monotonic_ns() - begun_ns) / 1e9
    assert intervals[-1]["end_s"] == pytest.approx(total["duration_s"])
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"] > 1_000_000


def test_one_that_is_not_told_that_it_may_be_stopped_reports_nothing(flowgen, server, start):
    sender = start(*(flowgen, "client", *server.target, "--duration", "1000"), stdout=subprocess.PIPE)
    time.sleep(0.2)
    sender.terminate()
    assert (sender.communicate(timeout=PATIENCE_S)[0], sender.returncode) == (b"", -signal.SIGTERM)


def test_bytes_that_nobody_acknowledged_do_not_count(flowgen):
    with socket.socket() as silent:  # listens, but never reads: the socket buffers fill, and then writes block
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        done = run(
            flowgen, "client", "--connect", f"127.0.0.1:{silent.getsockname()[1]}", "--duration", 0.4,
            "--interval", 0.1, **PUNCTUAL,
        )  # fmt: skip
    *intervals, total = (json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert total["flow_bytes"] < total["bytes_written"]
    assert intervals[-1]["bytes"] == 0
    assert total["duration_s"] >= 0.4


def test_a_chosen_congestion_control_is_used(flowgen, server):
    _, total = client(flowgen, server, "--duration", 0.05, "--congestion", "reno")
    assert total["congestion_control"] == "reno"


def test_an_unknown_congestion_control_is_refused_by_name(flowgen, server):
    done = run(
        flowgen, "client", *server.target, "--duration", 1, "--congestion", "warp"
    )  # fmt: skip
    assert done.returncode == 1
    assert "'warp': No such file or directory" in done.stderr
    assert "warp" in json.loads(done.stdout)["error"]


def test_a_refused_connection_is_an_error_and_still_a_total(flowgen):
    done = run(flowgen, "client", "--connect", f"127.0.0.1:{free_port()}", "--duration", 1)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert done.stderr.count("\n") == 1
    total = json.loads(done.stdout)
    assert total["event"] == "total"
    assert total["flow_bytes"] == 0
    assert total["throughput_bps"] is None
    assert total["connected_ns"] is None
    assert "Connection refused" in total["error"]


def test_a_connection_that_breaks_keeps_the_intervals_so_far(flowgen, start):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender = start(
            flowgen, "client", "--connect", f"127.0.0.1:{listener.getsockname()[1]}",
            "--duration", 60, "--interval", 0.05, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **PUNCTUAL,
        )  # fmt: skip
        peer, _ = listener.accept()
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            peer.recv(1 << 20)
        peer.close()  # with unread data: a reset
    output, errors = sender.communicate(timeout=PATIENCE_S)
    *intervals, total = (json.loads(line) for line in output.splitlines())
    assert sender.returncode == 1
    assert "the connection broke" in errors
    assert "the connection broke" in total["error"]
    assert len(intervals) >= 2
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"] > 0
    assert total["duration_s"] < 30
