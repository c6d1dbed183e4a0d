"""Programs of MPI: how their ranks find each other, what is read of them and of the OSU micro-benchmarks."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed import requirements
from pairlab.testbed.cleanup import child_processes
from pairlab.testbed.requirements import PythonPackage
from pairlab_mpi import join
from pairlab_mpi.join import ProcessManager, environment
from pairlab_mpi.osu import OsuAllToAll, OsuBandwidth, OsuLatency
from pairlab_mpi.over_mpi4py import MpiAllToAll, MpiBandwidth, MpiLatency
from pairlab_mpi.rounds import middle_ns, report

OSU = [OsuAllToAll, OsuLatency, OsuBandwidth]


def captured(name):
    """What a tool printed: one of two ranks, with messages of 1024 bytes.

    Of mpi-all-to-all, rank 1, and of mpi-latency and mpi-bandwidth the rank that sends; the version is MPICH's, by
    mpi4py 4.1.2. Of the OSU micro-benchmarks 5.3, with Debian's MPICH 4.0.2, by join.py.
    """
    return (Path(__file__).parent / "captured" / name).read_text()


def only(told):
    """The one flow that a tool told of."""
    (measured,) = told
    return measured


def test_without_mpi4py_it_says_how_to_get_it():
    lack = PythonPackage("no_such_package", "", MpiAllToAll.programs[0].remedy).missing()
    assert "mpi.lock" in str(lack)
    assert "take workload 'all-to-all'" in str(lack)
    assert isinstance(lack, requirements.MissingRequirement)


@pytest.mark.parametrize("file", ["join.py", "rounds.py", "point_to_point.py"])
def test_what_runs_in_endpoints_is_whole_in_an_isolated_interpreter(file):
    """As far as it can be without MPI: what they import of this package is there."""
    place = Path(join.__file__).with_name(file)
    load = [sys.executable, "-P", "-c", "import runpy, sys; runpy.run_path(sys.argv[1])", place]
    done = subprocess.run(load, cwd="/", env=child_processes.needed(), capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)


def test_ranks_of_mpi_join_each_other_and_share_no_memory():
    told = environment(3, "10.77.0.2:5201", "eth0")
    assert (told["PMI_PORT"], told["PMI_ID"], told["MPIR_CVAR_NOLOCAL"]) == ("10.77.0.2:5201", "3", "1")
    assert (told["FI_PROVIDER"], told["FI_TCP_IFACE"]) == ("tcp", "eth0")


def test_the_process_manager_gives_each_rank_what_others_put():
    manager = ProcessManager(2)
    assert manager.answer("cmd=initack pmiid=1", "b") == [
        *(("b", "cmd=initack"), ("b", "cmd=set size=2")),
        *(("b", "cmd=set rank=1"), ("b", "cmd=set debug=0")),
    ]
    manager.answer("cmd=put kvsname=pairlab key=where-1 value=0200900B[8]", "b")
    assert manager.answer("cmd=get kvsname=pairlab key=where-1", "a") == [
        ("a", "cmd=get_result rc=0 msg=success value=0200900B[8]")
    ]
    assert "rc=-1" in manager.answer("cmd=get kvsname=pairlab key=where-2", "a")[0][1]
    assert "rc=-1" in manager.answer("cmd=no-such-thing", "a")[0][1]


def test_the_process_managers_barrier_opens_when_all_are_there():
    manager = ProcessManager(2)
    for _ in range(2):
        assert manager.answer("cmd=barrier_in", "a") == []
        released = manager.answer("cmd=barrier_in", "b")
        assert released == [("a", "cmd=barrier_out rc=0"), ("b", "cmd=barrier_out rc=0")]


def test_mpi4pys_rounds_are_reported_as_flowgens():
    found = {"rank": 0, "ranks": 2, "message_bytes": 1024, "connected_ns": 5, "lasted_s": 1.5, "duration_s": 1.0}
    lines = report(found | {"times_ns": [10_000, 10_001, 40_000]})
    measured = only(MpiAllToAll().parse("\n".join(map(json.dumps, lines))))
    assert measured.flow["transactions"] == 3
    assert measured.flow["rank_most_mean_s"] == pytest.approx(20_000.3e-9, rel=1e-4)
    assert measured.received_bytes is None


@pytest.mark.parametrize("value_ns", [1, 2047, 2048, 123_456, 9_876_543_210])
def test_a_buckets_middle_is_near_each_time_in_it(value_ns):
    assert middle_ns(value_ns) == pytest.approx(value_ns, rel=0.0005)


# --- One pair


def test_a_message_there_and_back_is_a_transaction_and_half_of_it_osu_latencys_figure():
    measured = only(MpiLatency().parse(captured("mpi-latency-5.0.2-one.jsonl")))
    transactions = measured.flow["transactions"]
    assert sum(count for _, count in measured.latencies) == transactions > 100
    mean_s = sum(value_s * count for value_s, count in measured.latencies) / transactions
    assert measured.flow["one_way_mean_s"] == pytest.approx(mean_s / 2, rel=5e-4)
    assert measured.flow["flow_bytes"] == transactions * 2 * 1024


def test_a_bandwidth_is_that_of_the_messages_in_their_time():
    told = json.loads(captured("mpi-bandwidth-5.0.2-one.jsonl").splitlines()[-1])
    measured = only(MpiBandwidth().parse(captured("mpi-bandwidth-5.0.2-one.jsonl")))
    assert measured.flow["flow_bytes"] == told["count"] * 1024
    assert told["count"] % 64 == 0
    assert measured.flow["throughput_bps"] == pytest.approx(told["count"] * 1024 * 8 / told["duration_s"])


def test_a_histogram_that_lacks_messages_is_refused():
    latencies, total = captured("mpi-latency-5.0.2-one.jsonl").splitlines()
    fewer = json.loads(latencies)
    fewer["buckets"] = fewer["buckets"][1:]
    with pytest.raises(ValueError, match="not as many latencies as it counted"):
        MpiLatency().parse(f"{json.dumps(fewer)}\n{total}\n")


# --- The OSU micro-benchmarks


def test_osu_alltoall_tells_of_all_ranks():
    printed = captured("osu-all-to-all-5.3-one.txt")
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("1024 ")]
    flow = only(OsuAllToAll().parse(printed)).flow
    assert [round(flow[name] * 1e6, 2) for name in ("round_mean_s", "rank_least_mean_s", "rank_most_mean_s")] == [
        float(number) for number in line[1:4]
    ]
    assert flow["rank_least_mean_s"] <= flow["round_mean_s"] <= flow["rank_most_mean_s"]


@pytest.mark.parametrize(
    ("workload", "file", "metric", "unit"),
    [
        (OsuLatency, "osu-latency-5.3-one.txt", "one_way_mean_s", 1e-6),
        (OsuBandwidth, "osu-bandwidth-5.3-one.txt", "bandwidth_bps", 8e6),
    ],
)
def test_of_all_sizes_that_of_the_spec_counts(workload, file, metric, unit):
    printed = captured(file)
    lines = printed.splitlines()
    by_size = {int(line.split()[0]): float(line.split()[1]) for line in lines if line[:1].isdigit()}
    assert set(by_size) >= {1, 1024, 1 << 22}
    assert only(workload().parse(printed)).flow[metric] == pytest.approx(by_size[1024] * unit)
    ended = json.loads(lines[-1])
    of_another = "\n".join([*lines[:-1], json.dumps(ended | {"message_bytes": 4096})])
    assert only(workload().parse(of_another)).flow[metric] == pytest.approx(by_size[4096] * unit)


@pytest.mark.parametrize("workload", OSU)
def test_an_osu_report_without_that_size_or_with_two_of_it_is_refused(workload):
    lines = captured(f"{workload.name}-5.3-one.txt").splitlines()
    of_size = [line for line in lines if line.startswith("1024 ")]
    without = [line for line in lines if line not in of_size]
    for told, found in ((without, 0), ([*of_size, *lines], 2)):
        with pytest.raises(ValueError, match=f"told {found} results of messages of 1024 B"):
            workload().parse("\n".join(told))


@pytest.mark.parametrize(
    ("workload", "size"),
    [(OsuAllToAll, 1000), (OsuLatency, 1 << 23), (OsuBandwidth, 3), (MpiLatency, (1 << 22) + 1)],
)
def test_sizes_that_they_do_not_measure_are_refused(workload, size):
    with pytest.raises(BadSpec, match="message_bytes"):
        workload().check(Spec(message_bytes=size))


@pytest.mark.parametrize("workload", OSU)
def test_without_the_osu_benchmarks_it_says_how_to_get_them(workload):
    (program,) = workload.programs
    assert program.name.startswith("osu_")
    assert "https://mvapich" in program.remedy


#: A program that joins as one of MPI does, and prints two lines.
JOINING = """
import os, socket
host, port = os.environ["PMI_PORT"].split(":")
with socket.create_connection((host, int(port))) as manager:
    manager.sendall(b"cmd=initack pmiid=0\\n")
    manager.recv(99)
print("# Size\\n64 =", os.environ["PMI_ID"] + "% 1.25")
"""


def test_every_rank_prints_what_the_program_of_rank_0_printed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [sys.executable, join.__file__, "--ranks", "3", "--interface", "lo", "--manager", address]
    command += ["--tell-all", "64"]
    program = ["--", sys.executable, "-c", JOINING]
    ranks = [
        subprocess.Popen(
            [*command, *(["--listen", address] if rank == 2 else []), "--rank", str(rank), *program],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    for process in ranks:
        *lines, last = process.communicate(timeout=30)[0].splitlines()
        assert lines == ["# Size", "64 = 0% 1.25"]
        assert json.loads(last)["message_bytes"] == 64
        assert process.returncode == 0


def test_a_rank_whose_program_fails_ends_as_that_did():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, join.__file__, "--rank", "1", "--ranks", "2", "--interface", "lo"]
        command += ["--manager", address, "--tell-all", "64", "--", sys.executable, "-c", "raise SystemExit(3)"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (3, "")
