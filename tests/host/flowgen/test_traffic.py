"""flowgen traffic: sizes from a CDF, at a load or in a closed loop, from servers that answer."""

from __future__ import annotations

import errno
import itertools
import json
import secrets
import signal
import socket
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pairlab.model import flow_records, flow_sizes
from tests.host.flowgen.helpers import PATIENCE_S, SOURCE, Server, run, until
from tests.support.flow_sizes import ks_p

LOAD_BPS = 100_000_000
SIZES = flow_sizes.FOLDER / "prv2-1.txt"
#: Twenty thousand small flows per second.
MANY = ["--sizes", flow_sizes.FOLDER / "facebook.txt", "--load", 50_000_000]


@pytest.fixture
def answering(start, flowgen) -> list[Server]:
    return [Server(start, flowgen, "--answer") for _ in range(2)]


class Traffic:
    def __init__(self, flowgen: str, servers: list[Server], folder: Path, *options):
        self.file = folder / "flows"
        targets = [word for server in servers for word in ("--server", f"127.0.0.1:{server.port}")]
        self.argv = [flowgen, "traffic", *targets, "--records", str(self.file), *map(str, options)]

    def run(self, patience_s: float = 60) -> dict:
        done = run(*self.argv, patience_s=patience_s)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def has_written(self) -> bool:
        """Which it does when it has some thousand flows."""
        return self.file.exists() and self.file.stat().st_size > 0

    @property
    def flows(self) -> np.ndarray:
        return flow_records.read(self.file)


def in_order(flows: np.ndarray) -> bool:
    """Of flows that are complete."""
    moments = [flows[name] for name in ("intended_ns", "start_ns", "first_byte_ns", "completed_ns")]
    return all((before <= after).all() for before, after in itertools.pairwise(moments))


def test_an_open_loop_offers_the_asked_load_and_records_each_flow(flowgen, answering, tmp_path, record_property):
    traffic = Traffic(
        flowgen, answering, tmp_path, "--sizes", SIZES, "--load", LOAD_BPS, "--duration", 1, "--connections", 200
    )
    said, flows = traffic.run(), traffic.flows
    assert said["flows"] == said["requests"] == len(flows)
    assert said["flow_bytes"] == flows["flow_bytes"].sum() == flows["received_bytes"].sum()
    assert said["failed_flows"] == 0
    assert not flows["error"].any()
    assert in_order(flows)
    assert set(flows["server"]) == {0, 1}
    assert sorted(flows["request"]) == list(range(len(flows)))
    # Until the whole schedule was over; the last request is due a gap before.
    offered_bps = 8 * flows["flow_bytes"].sum() / said["schedule_s"]
    assert offered_bps == pytest.approx(LOAD_BPS, rel=1e-6)
    assert flows["intended_ns"].max() - said["begin_ns"] <= said["schedule_s"] * 1e9
    record_property("offered_load_percent_of_asked", 100 * offered_bps / LOAD_BPS)
    # How much of it a busy host achieves, make bench measures.
    lasted_s = (flows["completed_ns"].max() - said["begin_ns"]) / 1e9
    assert said["duration_s"] == pytest.approx(max(lasted_s, said["schedule_s"]), abs=1e-6)
    assert said["achieved_bps"] == pytest.approx(8 * flows["flow_bytes"].sum() / said["duration_s"], rel=1e-6)
    assert said["achieved_bps"] <= LOAD_BPS * (1 + 1e-6)


@pytest.mark.whole
def test_arrivals_are_a_poisson_process_or_have_fixed_gaps(flowgen, answering, tmp_path):
    options = ["--sizes", flow_sizes.FOLDER / "facebook.txt", "--load", 8_000_000, "--requests", 4000]
    traffic = Traffic(flowgen, answering, tmp_path, *options)
    traffic.run()
    gaps = np.diff(np.sort(traffic.flows["intended_ns"]).astype(np.int64))
    assert stats.kstest(gaps, stats.expon(scale=gaps.mean()).cdf).pvalue > 0.001
    fixed = Traffic(flowgen, answering, tmp_path, *options, "--fixed-gaps")
    fixed.run()
    gaps = np.diff(np.sort(fixed.flows["intended_ns"]).astype(np.int64))
    assert np.ptp(gaps) <= 2  # deadlines in floating point: rounded to ns, and no drift
    assert gaps.mean() % 1000 > 0.01  # no whole number of µs


def test_the_sizes_pass_a_ks_test_against_the_cdf_and_fail_against_another(flowgen, answering, tmp_path):
    options = ["--load", 0, "--requests", 20_000, "--at-once", 16]
    for name, other in (("prv2-1", "vl2"), ("facebook", "uniform")):
        traffic = Traffic(flowgen, answering, tmp_path, "--sizes", flow_sizes.FOLDER / f"{name}.txt", *options)
        traffic.run()
        drawn = traffic.flows["flow_bytes"]
        assert ks_p(drawn, flow_sizes.load(name)) > 0.001
        assert ks_p(drawn, flow_sizes.load(other)) < 1e-6


def test_the_same_seed_draws_the_same_requests_at_any_load(flowgen, answering, tmp_path):
    def drawn(*options):
        traffic = Traffic(flowgen, answering, tmp_path, "--sizes", SIZES, "--requests", 300, *options)
        traffic.run()
        flows = np.sort(traffic.flows, order=["request", "server"])
        return flows[["request", "server", "flow_bytes"]].tolist()

    first = drawn("--load", 0, "--seed", 7)
    assert drawn("--load", 10**9, "--seed", 7) == first
    assert drawn("--load", 0, "--seed", 8) != first


def test_a_closed_loop_has_so_many_requests_at_once_and_ends_by_time_or_number(flowgen, answering, tmp_path):
    traffic = Traffic(flowgen, answering, tmp_path, "--sizes", SIZES, "--load", 0, "--duration", 0.3, "--at-once", 5)
    said = traffic.run()
    assert said["most_flows_at_once"] == 5
    flows = traffic.flows
    assert len(flows) > 5
    assert flows["intended_ns"].max() - said["begin_ns"] < 0.3e9
    assert in_order(flows)
    assert Traffic(flowgen, answering, tmp_path, "--sizes", SIZES, "--load", 0, "--requests", 7).run()["flows"] == 7


def test_a_request_asks_several_servers_at_once_for_equal_parts_each_server_once(flowgen, start, tmp_path):
    servers = [Server(start, flowgen, "--answer") for _ in range(3)]
    traffic = Traffic(
        flowgen,
        servers,
        tmp_path,
        *["--sizes", flow_sizes.FOLDER / "fixed.txt", "--load", 0, "--requests", 600],
        *["--fan-out", "3=1", "--fan-out", "1=2"],
    )
    said, flows = traffic.run(), traffic.flows
    counts = np.bincount(flows["request"])
    assert set(counts) == {1, 3}
    assert 0.25 < (counts == 3).mean() < 0.42
    incast = flows[counts[flows["request"]] == 3]
    assert set(incast["flow_bytes"]) == {33_334}  # a third of 100,000, rounded up
    assert len(np.unique(incast[["request", "server"]])) == len(incast)
    assert len(np.unique(incast["intended_ns"])) == (counts == 3).sum()
    assert said["most_flows_at_once"] == 3


def test_what_is_not_complete_within_its_time_fails_and_no_more_begins(flowgen, answering, tmp_path):
    loop = ["--sizes", SIZES, "--load", 0, "--requests", 10_000_000, "--within", 0.5]
    traffic = Traffic(flowgen, answering, tmp_path, *loop)
    done = run(*traffic.argv, patience_s=PATIENCE_S)
    assert done.returncode == 1
    said, flows = json.loads(done.stdout), traffic.flows
    assert len(flows) == said["requests"] < 10_000_000
    assert set(flows["error"]) == {0, errno.ETIMEDOUT}
    assert flows["completed_ns"].max() - said["begin_ns"] < 2e9


def test_flows_wait_where_all_connections_are_busy_and_count_from_when_they_were_due(flowgen, answering, tmp_path):
    traffic = Traffic(
        flowgen,
        answering[:1],
        tmp_path,
        *["--sizes", flow_sizes.FOLDER / "uniform.txt", "--load", 20_000_000_000, "--requests", 3000],
        *["--connections", 2],
    )
    said, flows = traffic.run(), traffic.flows
    assert said["most_flows_at_once"] == 2
    assert said["waited_flows"] > 100
    late_s = (flows["start_ns"] - flows["intended_ns"]).max() / 1e9
    assert said["most_late_s"] == pytest.approx(late_s, abs=1e-9)
    assert in_order(flows)


def test_a_killed_servers_flows_are_recorded_as_failed_and_the_rest_counts(flowgen, answering, start, tmp_path):
    traffic = Traffic(flowgen, answering, tmp_path, *MANY, "--duration", 2)
    client = start(*traffic.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(traffic.has_written, "thousands of flows")
    answering[1].process.send_signal(signal.SIGKILL)
    out, complaint = client.communicate(timeout=PATIENCE_S)
    said, flows = json.loads(out), traffic.flows
    assert client.returncode == 1
    failed = flows["error"] > 0
    assert said["failed_flows"] == failed.sum() > 0
    assert set(flows["server"][failed]) == {1}
    assert not flows["completed_ns"][failed].any()
    assert (flows["server"] == 0).sum() > failed.sum() / 2
    assert in_order(flows[~failed])
    assert said["flow_bytes"] == flows["flow_bytes"][~failed].sum()
    assert sorted(flows["request"]) == list(range(said["requests"]))
    assert f"flows failed, the first of them from 127.0.0.1:{answering[1].port}: " in complaint.decode()


def test_traffic_ends_when_no_server_is_left_and_when_one_says_nothing(flowgen, start, server, tmp_path):
    """The second takes what it is sent, and does not answer."""
    gone = Server(start, flowgen, "--answer")
    traffic = Traffic(flowgen, [gone], tmp_path, *MANY, "--requests", 100_000)
    client = start(*traffic.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(traffic.has_written, "thousands of flows")
    gone.process.send_signal(signal.SIGKILL)
    out, _ = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 1
    assert json.loads(out)["requests"] < 100_000
    assert json.loads(out)["all_servers_gone"]

    silent = Traffic(flowgen, [server], tmp_path, "--sizes", SIZES, "--load", 0, "--requests", 5, "--limit", 0.2)
    done = run(*silent.argv)
    assert done.returncode == 1
    assert "Connection timed out; the server must run with --answer" in done.stderr
    assert silent.flows["error"].tolist() == [110]


@pytest.mark.whole
def test_half_a_million_flows_need_no_more_than_200_mb(flowgen, answering, tmp_path):
    if flowgen.endswith("sanitize"):
        pytest.skip("the sanitizer's own memory counts too")
    (tmp_path / "small").write_text("1 0\n100 1\n")
    # They are due at once, and the last waits for all others, on whichever machine.
    options = ["--sizes", tmp_path / "small", "--load", 10**12, "--requests", 500_000, "--limit", 100]
    traffic = Traffic(flowgen, answering, tmp_path, *options)
    limited = ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", *traffic.argv]  # of address space, which is more
    done = run(*limited, patience_s=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["flows"] == len(traffic.flows) == 500_000
    assert said["waited_flows"] > 400_000


def test_a_server_that_asks_for_the_token_answers_nobody_without(flowgen, start, tmp_path):
    for name in ("token", "other"):
        (tmp_path / name).write_bytes(secrets.token_bytes(16))
    server = Server(start, flowgen, "--answer", "--token-file", tmp_path / "token", stderr=subprocess.PIPE)
    options = ["--sizes", SIZES, "--load", 0, "--requests", 20, "--connections", 3]
    assert Traffic(flowgen, [server], tmp_path, *options, "--token-file", tmp_path / "token").run()["flows"] == 20
    for wrong in (["--token-file", tmp_path / "other"], []):
        done = run(*Traffic(flowgen, [server], tmp_path, *options, *wrong, "--limit", 0.2).argv)
        assert done.returncode == 1
        assert json.loads(done.stdout)["flow_bytes"] == 0
    lines, complaint = server.stop_and_tell()
    assert sum(line.get("requests", 0) for line in lines) == 20
    assert "refused without the token: 6 connections" in complaint


@pytest.mark.parametrize("asked", [0, 10**15 + 1, 2**64 - 1])
def test_a_server_answers_no_request_of_a_size_that_no_flow_has(answering, asked):
    server = answering[0]
    with socket.create_connection(server.address, timeout=PATIENCE_S) as peer:
        peer.sendall(struct.pack(">Q", 1000) + struct.pack(">Q", asked)[:5])
        assert len(receive(peer, 1000)) == 1000
        peer.sendall(struct.pack(">Q", asked)[5:])
        assert peer.recv(1) == b""
    line = server.received()
    assert (line["requests"], line["sent_bytes"]) == (1, 1000)
    assert line["error"] == "the peer asked for a flow of a size that none has"


def receive(peer: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length and (part := peer.recv(length - len(received))):
        received += part
    return received


TARGET = ["traffic", "--server", "127.0.0.1:9", "--server", "127.0.0.1:10"]
ENOUGH = ["--sizes", str(SIZES), "--load", "0", "--requests", "1"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["traffic", *ENOUGH], "--server is missing"),
        ([*TARGET, "--load", "0", "--requests", "1"], "--sizes is missing"),
        ([*TARGET, *ENOUGH, "--duration", "1"], "give --requests or --duration, and not both"),
        ([*TARGET, *ENOUGH[:4]], "give --requests or --duration"),
        ([*TARGET, *ENOUGH, "--server", "localhost:9"], "--server 'localhost:9' is not an address and port"),
        ([*TARGET, *ENOUGH, "--server", "127.0.0.1:9=2"], "--server '127.0.0.1:9=2' is not an address and port"),
        ([*TARGET, *ENOUGH, "--fan-out", "1=x"], "has a weight that is not a number"),
        ([*TARGET, *ENOUGH, "--fan-out", "1="], "has a weight that is not a number"),
        ([*TARGET, *ENOUGH, "--fan-out", "3"], "--fan-out '3' is not a number of servers from 1 to the 2"),
        ([*TARGET, *ENOUGH, "--fan-out", "0"], "--fan-out '0'"),
        ([*TARGET, *ENOUGH, "--fan-out", "1=0"], "--fan-out: none of them has a weight above 0"),
        ([*TARGET, *ENOUGH, "--fixed-gaps"], "--fixed-gaps is for a --load above 0"),
        ([*TARGET, "--sizes", str(SIZES), "--load", "9", "--requests", "1", "--at-once", "2"], "--at-once is for"),
        ([*TARGET, *ENOUGH, "--", "ls"], "traffic runs no command"),
    ],
)
def test_what_traffic_cannot_do_is_refused_before_anything_is_sent(flowgen, arguments, why):
    done = run(flowgen, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("flowgen traffic: ")
    assert why in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0\n10 0.5\n20 0.4\n30 1\n", "line 3: the CDF falls from 0.5 to 0.4"),
        ("0 0\n10 0.5\n5 1\n", "line 3: sizes fall from 10 to 5"),
        ("-1 0\n10 1\n", "line 1: the size -1 is not from 0"),
        ("0 0\n10 50\n", "line 2: the share 50 is not from 0 to 1; shares in percent must be divided by 100"),
        ("0 0\n10\n", "line 2 has 1 columns"),
        ("0 0\n1O 1\n", "line 2 has no numbers"),
        ("0 0\n10 0.9\n", "the CDF ends at 0.9, not at 1"),
        ("0 0\n10 0.99999\n", "the CDF ends at 0.99999, not at 1"),
        ("0 0\n1000001 0.5\n1000000 1\n", "line 3: sizes fall from 1000001 to 1000000"),
        ("0 0.1\n10 1\n", "flows of 0 bytes have a share above 0"),
        ("# nothing\n", "has no points"),
    ],
)
def test_what_is_no_cdf_is_refused_with_file_line_and_what_to_do(flowgen, tmp_path, text, why):
    (tmp_path / "cdf").write_text(text)
    done = run(flowgen, *TARGET, "--sizes", tmp_path / "cdf", "--load", "0", "--requests", "1")
    assert done.returncode == 1
    assert f"{tmp_path}/cdf" in done.stderr
    assert why in done.stderr


def test_a_port_where_nobody_listens_is_said(flowgen):
    done = run(flowgen, "traffic", "--server", "127.0.0.1:1", *ENOUGH)
    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:1: Connection refused; a server with --answer must listen" in done.stderr


def test_a_file_that_is_none_of_traffics_or_ends_within_a_record_is_not_read(flowgen, answering, tmp_path):
    traffic = Traffic(flowgen, answering, tmp_path, *ENOUGH)
    traffic.run()
    assert len(traffic.flows) == 1
    whole = traffic.file.read_bytes()
    traffic.file.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="ends within a record"):
        assert traffic.flows
    with pytest.raises(ValueError, match="does not begin as a file of flowgen traffic"):
        flow_records.read(SOURCE / "Makefile")
