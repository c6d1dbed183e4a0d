"""What else runs on the host, on a tree of files like /proc."""

import os
import threading
from dataclasses import replace

import pytest

from pairlab.testbed.host import cpu_sampler, foreign_load, perf_events
from pairlab.testbed.host.cpu_sampler import CpuTelemetry

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Proc:
    """A folder like /proc."""

    def __init__(self, root):
        self.root = root
        self.add(1, "init", 0)
        self.busy(0)

    def busy(self, ticks, irq=0, softirq=0):
        (self.root / "stat").write_text(f"cpu  {ticks} 0 0 9000 0 {irq} {softirq} 70 0 0\ncpu0 1 0 0\n")

    def add(self, pid, name, parent, ticks=0, of_children=0, flags=0, command="", policy=0):
        place = self.root / str(pid)
        place.mkdir(exist_ok=True)
        fields = ["S", parent, 0, 0, 0, 0, flags, 0, 0, 0, 0, ticks, 0, of_children, 0, *[0] * 23, policy]
        (place / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        (place / "cmdline").write_bytes(command.replace(" ", "\0").encode())

    def end(self, pid):
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "proc").mkdir()
    return Proc(tmp_path / "proc")


def spent(proc, tmp_path, change, before=None, after=None):
    """Ticks of CPU time that each part has spent between two samples with a change between them."""
    uses = []
    for testbed in (before, after or before):
        sample = foreign_load.take_sample(testbed, proc.root, tmp_path, clock_s=lambda pid: None)
        uses.append({name: value for name, value in vars(sample.cpu).items() if value is not None})
        change()
    return {name: round((uses[1][name] - uses[0][name]) * TICKS_PER_S) for name in uses[0]}


def test_everybodys_time_is_told_apart(proc, tmp_path):
    """The testbed is what descends from its roots; other children of the process that measures are others."""
    me = os.getpid()

    def work(ticks):
        proc.busy(10 * ticks)
        proc.add(me, "pairlab", 1, of_children=ticks)
        proc.add(800, "a child of pairlab that is no testbed", me, 2 * ticks)
        proc.add(900, "unshare", me)
        proc.add(901, "iperf", 900, 3 * ticks, of_children=4 * ticks)
        proc.add(902, "a (b) c", 1, 5 * ticks)
        proc.add(20, "ksoftirqd/0", 2, 6 * ticks, flags=foreign_load.KERNEL_THREAD)
        proc.add(21, "kworker/u4:1", 2, 7 * ticks, flags=foreign_load.KERNEL_THREAD)

    work(10)
    found = spent(proc, tmp_path, lambda: work(110), foreign_load.OwnProcesses(roots=[900]))
    assert found == {
        "busy_s": 1000,
        "testbed_s": 700,
        "pairlab_s": 0,
        "packets_s": 600,
        "kernel_s": 700,
        "others_s": 100 + 200 + 500,
    }


@pytest.mark.parametrize(("policy", "share"), [(0, 0.0), (1, 0.5), (2, 0.5), (3, 0.0), (6, 0.5)])
def test_the_time_of_those_who_run_before_all_others_is_known(policy, share, proc, tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_load, "cpus_online", lambda: 1)
    samples = []
    for at_s, ticks in ((0.0, 0), (1.0, TICKS_PER_S // 2)):
        proc.add(800, "jackd", 1, ticks, policy=policy)
        proc.add(21, "migration/0", 2, ticks, flags=foreign_load.KERNEL_THREAD, policy=1)
        proc.add(900, "flowgen", 1, ticks, policy=2)
        own = foreign_load.OwnProcesses(roots=[900])
        samples.append(replace(foreign_load.take_sample(own, proc.root, tmp_path, lambda pid: None), at_s=at_s))
    assert foreign_load.compare(*samples)["realtime_cpu"] == share


def test_of_one_that_came_to_run_before_all_others_its_earlier_time_does_not_count(proc, tmp_path, monkeypatch):
    """pairlab's own lifeline beside Docker is such a one."""
    monkeypatch.setattr(foreign_load, "cpus_online", lambda: 1)
    samples = []
    for at_s, ticks, policy in ((0.0, 20 * TICKS_PER_S, 0), (1.0, 20 * TICKS_PER_S + TICKS_PER_S // 4, 1)):
        proc.add(800, "python", 1, ticks, policy=policy)
        sample = foreign_load.take_sample(foreign_load.OwnProcesses(), proc.root, tmp_path, lambda pid: None)
        samples.append(replace(sample, at_s=at_s))
    assert foreign_load.compare(*samples)["realtime_cpu"] == 0.25


def test_one_that_began_and_ended_meanwhile_counts_by_its_parent(proc, tmp_path):
    proc.add(800, "make", 1, ticks=10)
    proc.add(801, "cc", 800, ticks=500)

    def work():
        if (proc.root / "801").exists():
            proc.end(801)
        proc.add(800, "make", 1, ticks=10, of_children=500 + 200)  # it had 500 before, and another took 200

    assert spent(proc, tmp_path, work)["others_s"] == 200


def test_what_a_launcher_reports_of_its_process_is_taken_instead_of_the_kernels_ticks(proc, tmp_path):
    proc.add(900, "flowgen", 1)
    proc.add(901, "iperf", 900)

    def work():
        if (proc.root / "901").exists():
            proc.end(901)
        proc.add(900, "flowgen", 1, of_children=100)

    before = foreign_load.OwnProcesses(roots=[900])
    after = foreign_load.OwnProcesses(roots=[900], reported_s={900: 101.5 / TICKS_PER_S, 77: 5.0})
    assert spent(proc, tmp_path, work, before, after)["testbed_s"] == pytest.approx(101.5, abs=0.6)


def test_a_process_may_have_a_name_of_any_bytes(proc, tmp_path):
    proc.add(800, "odd", 1, ticks=100)
    stat = proc.root / "800" / "stat"
    stat.write_bytes(stat.read_bytes().replace(b"odd", b"\xe9\xff"))
    assert foreign_load.take_sample(None, proc.root, tmp_path).cpu.others_s == pytest.approx(100 / TICKS_PER_S)


def test_what_a_marked_shim_holds_is_the_testbeds(proc, tmp_path):
    proc.add(700, "containerd-shim", 1, command="containerd-shim -namespace moby -id abc123")
    proc.add(710, "containerd-shim", 1, command="containerd-shim -namespace moby -id other")

    def work():
        proc.add(701, "iperf", 700, ticks=4000)
        proc.add(711, "nginx", 710, ticks=50)

    found = spent(proc, tmp_path, work, foreign_load.OwnProcesses(marks=["abc123"]))
    assert (found["testbed_s"], found["others_s"]) == (4000, 50)


def test_where_others_are_hidden_nothing_is_said_of_them(proc, tmp_path):
    proc.end(1)
    hidden = foreign_load.take_sample(None, proc.root, tmp_path)
    assert hidden.cpu.others_s is None
    assert foreign_load.compare(hidden, foreign_load.take_sample())["foreign_cpu"] is None


@pytest.mark.parametrize(("irq", "counted"), [(0, 1300), (7, 1000)], ids=["interrupts are processes' time", "are not"])
def test_interrupts_are_busy_time_where_the_kernel_counts_them_as_a_processs(proc, tmp_path, irq, counted):
    proc.busy(0, irq)
    found = spent(proc, tmp_path, lambda: proc.busy(1000, 2 * irq, softirq=300))
    assert found["busy_s"] == counted


@pytest.mark.skipif(TICKS_PER_S != 100, reason="the expected values are for 100 ticks per second")
@pytest.mark.parametrize(("left_over_s", "found"), [(0.1, 0), (0.94142, 0.4), (-1.0, 0)])
def test_busy_time_that_nobody_accounts_for_is_hidden_as_far_as_it_cannot_be_chance(left_over_s, found, monkeypatch):
    """Of one CPU in two seconds: 200 ticks, so that two standard errors are 0.141 s at most."""
    monkeypatch.setattr(foreign_load, "cpus_online", lambda: 1)
    use = foreign_load.CpuUse(0, 0, 0, 0, 0, 0)
    before = foreign_load.HostSample(0, use, None, {})
    parts = foreign_load.CpuUse(0.9 + left_over_s, 0.4, 0.1, 0.2, 0.1, 0.1)
    after = foreign_load.HostSample(2, parts, None, {})
    checks = foreign_load.compare(before, after)
    assert checks["hidden_cpu"] == pytest.approx(found, abs=1e-4)
    shares = {name: checks[name] for name in ("foreign_cpu", "kernel_cpu")}
    assert shares == {"foreign_cpu": 0.05, "kernel_cpu": 0.05}


def test_the_three_processes_that_used_most_are_named(proc, tmp_path, monkeypatch):
    """Of one CPU in a second. What began meanwhile counts with all its time, and what ended with its parent's."""
    monkeypatch.setattr(foreign_load, "cpus_online", lambda: 1)
    proc.add(20, "old", 1, ticks=5 * TICKS_PER_S)
    proc.add(21, "small", 1)
    proc.add(2, "kthreadd", 0, flags=foreign_load.KERNEL_THREAD)
    before = foreign_load.take_sample(None, proc.root, tmp_path)
    proc.add(20, "old", 1, ticks=round(5.2 * TICKS_PER_S))
    proc.add(21, "small", 1, ticks=round(0.01 * TICKS_PER_S))
    proc.add(22, "made\nup", 1, ticks=round(0.3 * TICKS_PER_S))
    proc.add(23, "shell", 1, of_children=round(0.1 * TICKS_PER_S))
    proc.add(2, "kthreadd", 0, flags=foreign_load.KERNEL_THREAD, ticks=round(0.4 * TICKS_PER_S))
    after = replace(foreign_load.take_sample(None, proc.root, tmp_path), at_s=before.at_s + 1)
    found = foreign_load.largest(before, after, "foreign_cpu")
    assert [(name, pid, round(share, 3)) for name, pid, share in found] == [
        ("made?up", 22, 0.3),
        ("old", 20, 0.2),
        ("shell", 23, 0.1),
    ]
    assert [name for name, _, _ in foreign_load.largest(before, after, "kernel_cpu")] == ["kthreadd"]
    assert foreign_load.largest(before, after, "steal") == []


def test_a_parent_that_has_waited_for_a_child_has_used_what_the_child_used_meanwhile(proc, tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_load, "cpus_online", lambda: 1)
    proc.add(20, "make", 1)
    proc.add(21, "sh", 20)
    proc.add(22, "cc", 21, ticks=14 * TICKS_PER_S)
    before = foreign_load.take_sample(None, proc.root, tmp_path)
    proc.end(22)
    proc.end(21)
    proc.add(20, "make", 1, of_children=round(14.3 * TICKS_PER_S))
    after = replace(foreign_load.take_sample(None, proc.root, tmp_path), at_s=before.at_s + 1)
    ((name, pid, share),) = foreign_load.largest(before, after, "foreign_cpu")
    assert (name, pid, round(share, 3)) == ("make", 20, 0.3)
    assert foreign_load.others_share(before, after) == pytest.approx(0.3)
    assert foreign_load.compare(before, after)["foreign_cpu"] == pytest.approx(0.3)


def test_throttling_and_frequencies_are_read_where_the_kernel_tells(tmp_path):
    assert foreign_load.frequencies_hz(tmp_path) == ()
    for cpu, (khz, count) in enumerate([(2_000_000, 3), (1_500_000, 4)]):
        for folder, name, value in (
            ("cpufreq", "scaling_cur_freq", khz),
            ("thermal_throttle", "core_throttle_count", count),
        ):
            place = tmp_path / f"cpu{cpu}" / folder
            place.mkdir(parents=True)
            (place / name).write_text(f"{value}\n")
    assert foreign_load.frequencies_hz(tmp_path) == (2e9, 1.5e9)
    before = foreign_load.take_sample(cpus=tmp_path)
    (tmp_path / "cpu1" / "thermal_throttle" / "core_throttle_count").write_text("9\n")
    assert foreign_load.compare(before, foreign_load.take_sample(cpus=tmp_path))["throttled"] == 5


@pytest.mark.parametrize(
    ("offsets_s", "step_s"), [((7, 7, 7), 0), ((0, 3600, 0), 3600), ((5, 3, 6), -2)], ids=["none", "back again", "both"]
)
def test_a_clock_that_was_moved_and_moved_back_was_moved(offsets_s, step_s, monkeypatch):
    left, all_read = list(offsets_s), threading.Event()

    def offset_ns():
        if len(left) == 1:
            all_read.set()
        return (left.pop(0) if len(left) > 1 else left[0]) * 10**9

    monkeypatch.setattr(foreign_load, "clock_offset_ns", offset_ns)
    with CpuTelemetry(0.1) as telemetry:
        assert all_read.wait(30)
    assert telemetry.clock_step_s() == step_s


def test_a_cpu_keeps_its_number_where_one_before_it_is_offline(tmp_path, monkeypatch):
    """CPU 1 is offline: the kernel has no line for it. CPU 2 works for half of the second, of which 5 % are stolen."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(cpu_sampler, "STAT", stat)
    stat.write_text(
        "cpu  90 0 0 900 0 0 0 0 0 0\ncpu0 50 0 0 500 0 0 0 0 0 0\ncpu2 40 0 0 400 0 0 0 0 40 0\nintr 7 cpu9\n"
    )
    telemetry = CpuTelemetry(0.1)
    telemetry.sample()
    stat.write_text("cpu  135 0 0 1050 0 0 0 5 0 0\ncpu0 50 0 0 600 0 0 0 0 0 0\ncpu2 85 0 0 450 0 0 0 5 85 0\n")
    telemetry.sample()
    rows = telemetry.rows(0)
    assert [row["cpu"] for row in rows] == [0, 2]
    assert [row["usr"] for row in rows] == pytest.approx([0, 0.45])
    assert [row["steal"] for row in rows] == pytest.approx([0, 0.05])
    assert telemetry.steal_share() == pytest.approx(0.025)


def test_shares_are_of_the_cpus_that_are_online_whatever_python_is_told_of_them(monkeypatch):
    """PYTHON_CPU_COUNT, from Python 3.13 on, is what os.cpu_count returns."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1000)
    use = foreign_load.CpuUse(0, 0, 0, 0, 0, 0)
    before = foreign_load.HostSample(0, use, None, {})
    after = foreign_load.HostSample(1, replace(use, others_s=0.5), None, {})
    assert foreign_load.compare(before, after)["foreign_cpu"] == 0.5 / len(perf_events.online_cpus())


def test_a_clock_that_nobody_moves_keeps_its_offset():
    offsets_ns = [foreign_load.clock_offset_ns() for _ in range(100)]
    assert max(offsets_ns) - min(offsets_ns) < 10**7
