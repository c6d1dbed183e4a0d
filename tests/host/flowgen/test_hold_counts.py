"""flowgen hold: what the kernel counted while a child ran, and the UDP ports it waits for."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import mostly_whole
from tests.host.flowgen.helpers import child_of, free_port, listens, run, status_of, until

#: Of a test that takes seconds: what is counted does not depend on how its child was held.
BOTH_WAYS = mostly_whole(["exec", "gate"], but=["exec"])
BINDS_UDP = (
    "import socket, sys, signal; s = socket.socket(type=socket.SOCK_DGRAM);"
    "s.bind(('127.0.0.1', int(sys.argv[1]))); signal.pause()"
)
FLOODS_ITSELF = """
import socket
taker, sender = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
taker.bind(("127.0.0.1", 0))
taker.setblocking(False)
for _ in range(100):
    sender.sendto(bytes(1000), taker.getsockname())
taken = 0
try:
    while taker.recv(2000):
        taken += 1
except BlockingIOError:
    print(100 - taken, flush=True)
"""


# One may wait to be accepted; of who comes later, the kernel drops the SYN. TCP_INFO tells of each that is sent again.
IS_NOT_LET_IN = """
import socket, struct, time
with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
    with socket.socket() as second:
        begun = time.monotonic()
        second.setblocking(False)
        second.connect_ex(full.getsockname())
        while not (again := struct.unpack("100xI", second.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))[0]):
            time.sleep(0.01)
        print(again, time.monotonic() - begun, flush=True)
"""


class Lossy:
    """A network namespace whose loopback drops what comes too fast, with a flowgen server in it."""

    def __init__(self, namespace: int, flowgen: str, start):
        self.inside = ["nsenter", "--target", namespace, "--user", "--preserve-credentials"]
        self.path = f"/proc/{namespace}/ns/net"
        shape = "tc qdisc add dev lo root tbf rate 200mbit burst 100kb limit 100kb"
        if run(*self.inside, "--net", "sh", "-c", f"ip link set lo up && {shape}").returncode != 0:
            pytest.skip(
                "losing packets in a namespace needs ip, tc and the token bucket filter: apt-get install iproute2"
            )
        start(*self.inside, "--net", flowgen, "server", "--port", "5000", stdout=subprocess.DEVNULL)
        within = Path(f"/proc/{namespace}/net/tcp")
        until(lambda: ":1388 00000000:0000 0A" in within.read_text(), "the server to listen")
        self.client = [flowgen, "client", "--connect", "127.0.0.1:5000", "--bytes", "8000000"]  # 0.5 s and more


@pytest.fixture
def lossy(namespace, flowgen, start) -> Lossy:
    if not shutil.which("tc") or not shutil.which("ip"):
        pytest.skip("losing packets in a namespace needs ip and tc, not both on PATH: apt-get install iproute2")
    return Lossy(namespace, flowgen, start)


@pytest.mark.parametrize("held_at", BOTH_WAYS, indirect=True)
def test_retransmissions_are_those_of_the_childs_namespace_while_it_ran(hold_at_gate, gate, lossy, out):
    run(*lossy.inside, "--net", *lossy.client)  # an earlier one, which must not count
    held = hold_at_gate(
        "--netns", lossy.path, "--diagnose-after", 0.3, "--stdout", out, "--", *lossy.client, before=lossy.inside
    )  # fmt: skip
    assert held.event()["event"] == "ready"
    gate.release()
    ended = held.event()
    total = json.loads(out.read_text().splitlines()[-1])
    assert total["retransmits"] > 0
    assert total["retransmits"] <= ended["tcp_retransmits"] <= total["retransmits"] + 2
    assert total["retransmits"] <= ended["diag_retransmits"] <= ended["tcp_retransmits"]
    assert total["retransmits"] <= ended["tcp_retransmits_by_end"] <= ended["tcp_retransmits"]
    before, after = (
        total[f"netns_retransmits_{when}"] - ended["tcp_retransmits_before"] for when in ("before", "after")
    )
    assert before - 2 <= total["retransmits"] <= after <= ended["tcp_retransmits_by_end"]
    assert ended["syn_retransmits"] == 0  # what was lost is data


def test_a_syn_that_is_sent_again_is_counted_and_was_not_before_a_second_had_passed(hold, lossy, out):
    child = [sys.executable, "-c", IS_NOT_LET_IN]
    assert run(*lossy.inside, "--net", *child).returncode == 0  # an earlier one, which must not count
    held = hold("--netns", lossy.path, "--stdout", out, "--", *child, before=lossy.inside).ready()
    ended = held.event()
    again, waited_s = out.read_text().split()
    assert ended["syn_retransmits"] == int(again) == ended["tcp_retransmits"] > 0
    assert float(waited_s) > 1.0


@pytest.mark.parametrize("held_at", BOTH_WAYS, indirect=True)
def test_a_diagnosis_follows_each_connection_to_its_end_and_knows_none_that_came_later(hold_at_gate, gate, lossy, out):
    twice = ["sh", "-c", '"$@"; "$@"; true', "sh", *lossy.client]
    held = hold_at_gate(
        "--netns", lossy.path, "--diagnose-after", 0.3, "--stdout", out, "--", *twice, before=lossy.inside
    )  # fmt: skip
    assert held.event()["event"] == "ready"
    gate.release()
    ended = held.event()
    first, second = (json.loads(line) for line in out.read_text().splitlines() if '"total"' in line)
    assert second["retransmits"] > 2
    assert 0 < first["retransmits"] <= ended["diag_retransmits"] <= first["retransmits"] + 2


@pytest.mark.whole
def test_a_diagnosis_finds_the_connections_of_a_program_that_a_script_runs(hold, lossy, tmp_path):
    script = ["sh", "-c", '"$@"; true', "sh", *lossy.client]
    held = hold("--netns", lossy.path, "--diagnose-after", 0.3, "--", *script, before=lossy.inside).ready()
    assert held.event()["diag_retransmits"] > 0


# A connection that the kernel never tells the end of: broken, and yet open in a process that lives on.
BROKEN_BESIDE = """
import os, socket, struct, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(listener.getsockname())
ours.sendall(b"!")
theirs, _ = listener.accept()
subprocess.Popen(["sleep", "1000"], pass_fds=[ours.fileno()])
subprocess.run(sys.argv[1:], check=True)
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
theirs.close()
os._exit(0)
"""


@pytest.mark.whole
def test_what_connections_send_again_while_their_ends_are_awaited_is_in_the_namespaces_count_too(hold, gate, lossy):
    """Flows by time leave megabytes to be sent, and the kernel goes on with them after their process."""
    soon = "tc qdisc change dev lo root tbf rate 2gbit burst 100kb limit 100kb"
    soon += " && echo 4096 65536 1000000 > /proc/sys/net/ipv4/tcp_wmem"
    assert run(*lossy.inside, "--net", "sh", "-c", soon).returncode == 0
    flows = [*lossy.client[:-2], "--duration", "2", "--flows", "40"]
    held = hold(
        "--gate", gate.path, "--netns", lossy.path, "--diagnose-after", 1.5, "--stdout", "/dev/null", "--",
        sys.executable, "-c", BROKEN_BESIDE, *flows, before=lossy.inside,
    )  # fmt: skip
    assert held.event()["event"] == "ready"
    gate.release()
    ended = held.event()
    assert ended["exit_code"] == 0
    assert 0 < ended["diag_retransmits"] <= ended["tcp_retransmits"]
    assert ended["tcp_retransmits_by_end"] < ended["tcp_retransmits"]


ENDING = """
import socket, struct, time
listener = socket.create_server(("127.0.0.1", 0))
while True:
    with socket.create_connection(listener.getsockname()) as other, listener.accept()[0]:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.005)
"""


@pytest.mark.whole
def test_where_others_connections_end_all_the_time_none_is_awaited_for_ever(hold, start):
    start(sys.executable, "-c", ENDING)
    # By then, on a machine of any load, it is connected.
    held = hold("--diagnose-after", 2.0, "--", sys.executable, "-c", BROKEN_BESIDE, "sleep", "2.5").ready()
    ended = held.event()
    assert (ended["exit_code"], ended["diag_retransmits"]) == (0, 0)


def test_a_diagnosis_leaves_out_the_connections_of_others(hold, start):
    listener, peer = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with listener, peer:
        peer.connect(listener.getsockname())
        peer.sendall(b"of no child of flowgen")
        held = hold("--diagnose-after", 0.001, "--", "sleep", "0.1").ready()
        assert held.event()["diag_retransmits"] is None


def test_what_was_not_sampled_is_null_and_what_was_counted_is_a_number(hold):
    held = hold("--diagnose-after", 1000, "--", "true").ready()
    ended = held.event()
    assert ended["diag_retransmits"] is None
    assert ended["tcp_retransmits"] >= 0
    assert ended["syn_retransmits"] >= 0
    assert ended["udp_receive_errors"] >= 0


def test_a_launcher_that_has_diagnosed_still_ends_with_its_child_when_told_to(hold_at_gate, gate):
    held = hold_at_gate("--diagnose-after", 0.001, "--", "sleep", "1000").ready()
    child = child_of(held)
    gate.release()
    until(lambda: status_of(child)["State"].startswith("S"), "the child to sleep")
    held.control.send(b"term")
    assert held.event()["signal"] == 15


def test_datagrams_that_a_child_did_not_take_are_counted(hold, lossy, out):
    held = hold(
        "--netns", lossy.path, "--stdout", out, "--", sys.executable, "-c", FLOODS_ITSELF, before=lossy.inside
    ).ready()
    assert held.event()["udp_receive_errors"] == int(out.read_text()) > 0


def test_a_udp_server_is_ready_when_its_port_is_bound(hold):
    port = free_port()
    hold("--listen-udp", port, "--", sys.executable, "-c", BINDS_UDP, port).ready()
    with socket.socket(type=socket.SOCK_DGRAM) as second, pytest.raises(OSError, match="in use"):
        second.bind(("127.0.0.1", port))


def test_a_udp_port_that_another_has_bound_is_not_taken_for_the_child(hold):
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        failed = hold("--listen-udp", port, "--", "sleep", "1000").event()
    assert failed["event"] == "failed"
    assert f"UDP port {port} is already bound" in failed["error"]


def test_a_server_of_both_is_not_ready_before_it_has_both_ports(hold):
    port = free_port()
    script = BINDS_UDP.replace("signal.pause()", "t = socket.create_server(('127.0.0.1', int(sys.argv[1])));") + (
        "sys.stdin.read(); signal.pause()"
    )
    hold("--listen", port, "--listen-udp", port, "--", sys.executable, "-c", script, port).ready()
    assert listens(port)
    never = hold("--listen", free_port(), "--listen-udp", other := free_port(), "--",
                 "timeout", "0.5", sys.executable, "-c", BINDS_UDP, other)  # fmt: skip
    assert never.event()["event"] == "ended"


# --- what kept the child from running


def signalled(held, number, state):
    """Sends it to the child; when it returns, the child is so, and the launcher has seen it."""
    child, launcher = child_of(held), held.process.pid
    woken = "voluntary_ctxt_switches"
    before = int(status_of(launcher)[woken])
    os.kill(child, number)
    until(lambda: status_of(child)["State"][0] in state, f"the child to be {state}")
    until(lambda: int(status_of(launcher)[woken]) > before, "the launcher to see it")
    return child


@pytest.mark.parametrize("held_at", BOTH_WAYS, indirect=True)
def test_the_times_for_which_signals_stopped_the_child_are_reported(hold_at_gate, gate):
    held = hold_at_gate("--", "sleep", "1000")
    assert held.event()["event"] == "ready"
    gate.release()
    until(lambda: status_of(child_of(held))["Name"] == "sleep", "the child to run")
    at_least_s = 0.0
    begun = time.monotonic()
    for _ in range(2):
        signalled(held, signal.SIGSTOP, "T")
        stopped = time.monotonic()
        until(lambda since=stopped: time.monotonic() > since + 0.05, "some time to pass")
        at_least_s += time.monotonic() - stopped
        child = signalled(held, signal.SIGCONT, "RS")
    os.kill(child, signal.SIGTERM)
    ended = held.event()
    assert at_least_s <= ended["stopped_s"] <= time.monotonic() - begun


def test_a_child_that_is_killed_where_it_was_stopped_was_stopped_until_then(hold):
    held = hold("--", "sleep", "1000").ready()
    child, stopped = signalled(held, signal.SIGSTOP, "T"), time.monotonic()
    until(lambda: time.monotonic() > stopped + 0.05, "some time to pass")
    os.kill(child, signal.SIGKILL)
    assert held.event()["stopped_s"] >= 0.05


def test_a_child_that_nobody_stops_was_not_stopped(hold):
    held = hold("--", "true")
    assert [held.event()["event"], held.event()["stopped_s"]] == ["ready", 0]


COMPUTES = "x = sum(range(5_000_000))"


def test_the_time_for_which_the_child_waited_for_its_cpu_is_reported(hold, start):
    cpu = min(os.sched_getaffinity(0))
    start(sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass")
    held = hold("--cpus", cpu, "--", sys.executable, "-c", COMPUTES).ready()
    ended = held.event()
    without_s = (ended["end_ns"] - ended["start_ns"]) / 1e9 - ended["user_s"] - ended["sys_s"]
    assert 0 < ended["runqueue_wait_s"] <= without_s + 0.01


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ("true", 0),
        ("ip address add 127.0.0.9/8 dev lo; ip link set lo promisc on; ip link set lo promisc off", 0),
        ("ip link add other type dummy; ip link set other up; ip link set other down", 0),
        ("tc qdisc add dev lo root pfifo; tc qdisc del dev lo root", 2),
        ("ip link set lo down; ip link set lo up", 1),
        ("ip address add 127.0.0.9/8 dev lo; ip address del 127.0.0.9/8 dev lo", 1),
    ],
)
def test_changes_of_the_link_on_the_way_are_counted_though_it_is_as_before_in_the_end(hold, lossy, changes, least):
    held = hold("--netns", lossy.path, "--link", "lo", "--", "sh", "-c", changes, before=lossy.inside).ready()
    changed = held.event()["link_changes"]
    assert changed >= least
    assert (changed > 0) == (least > 0)
