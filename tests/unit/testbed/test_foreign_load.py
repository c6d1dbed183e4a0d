"""What else runs on the host, on a tree of files like /proc."""

import os
import threading

import pytest

from pairlab.testbed.host import foreign_load
from pairlab.testbed.host.cpu_sampler import CpuTelemetry


class Proc:
    """A folder like /proc."""

    def __init__(self, root):
        self.root = root
        self.add(1, "init", 0)

    def add(self, pid, name, parent, ticks=0, of_children=0, flags=0, command=""):
        place = self.root / str(pid)
        place.mkdir(exist_ok=True)
        fields = ["S", parent, 0, 0, 0, 0, flags, 0, 0, 0, 0, ticks, 0, of_children, 0, *[0] * 20]
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


def spent_s(proc, tmp_path, change, marks=()):
    """CPU seconds of others between two looks with a change between them."""
    before = foreign_load.take_sample(marks, proc.root, tmp_path)
    change()
    return foreign_load.take_sample(marks, proc.root, tmp_path).foreign_cpu_s - before.foreign_cpu_s


def test_what_others_spend_counts_and_what_we_and_ours_spend_does_not(proc, tmp_path):
    me = os.getpid()
    proc.add(me, "pairlab", 1)
    proc.add(900, "child of ours", me)
    proc.add(901, "grandchild of ours", 900)
    proc.add(902, "a (b) c", 1)

    def work():
        for pid, name, parent in ((me, "pairlab", 1), (901, "grandchild of ours", 900)):
            proc.add(pid, name, parent, ticks=5000)
        proc.add(902, "a (b) c", 1, ticks=300)

    assert spent_s(proc, tmp_path, work) == pytest.approx(300 / os.sysconf("SC_CLK_TCK"))


def test_one_that_began_and_ended_meanwhile_counts_by_its_parent(proc, tmp_path):
    proc.add(800, "make", 1, ticks=10)
    proc.add(801, "cc", 800, ticks=500)

    def work():
        proc.end(801)
        proc.add(800, "make", 1, ticks=10, of_children=500 + 200)  # it had 500 before, and another took 200

    assert spent_s(proc, tmp_path, work) == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))


def test_a_process_may_have_a_name_of_any_bytes(proc, tmp_path):
    proc.add(800, "odd", 1, ticks=100)
    stat = proc.root / "800" / "stat"
    stat.write_bytes(stat.read_bytes().replace(b"odd", b"\xe9\xff"))
    assert foreign_load.take_sample((), proc.root, tmp_path).foreign_cpu_s == pytest.approx(
        100 / os.sysconf("SC_CLK_TCK")
    )


def test_kernel_threads_are_nobodys(proc, tmp_path):
    proc.add(9, "ksoftirqd/0", 2, flags=foreign_load.KERNEL_THREAD)
    busy = lambda: proc.add(9, "ksoftirqd/0", 2, ticks=900, flags=foreign_load.KERNEL_THREAD)  # noqa: E731
    assert spent_s(proc, tmp_path, busy) == 0


def test_what_a_marked_shim_holds_is_ours(proc, tmp_path):
    proc.add(700, "containerd-shim", 1, command="containerd-shim -namespace moby -id abc123")
    proc.add(710, "containerd-shim", 1, command="containerd-shim -namespace moby -id other")

    def work():
        proc.add(701, "iperf", 700, ticks=4000)
        proc.add(711, "nginx", 710, ticks=50)

    assert spent_s(proc, tmp_path, work, ["abc123"]) == pytest.approx(50 / os.sysconf("SC_CLK_TCK"))


def test_where_others_are_hidden_nothing_is_said_of_them(proc, tmp_path):
    proc.end(1)
    hidden = foreign_load.take_sample((), proc.root, tmp_path)
    assert hidden.foreign_cpu_s is None
    assert foreign_load.compare(foreign_load.take_sample(), hidden)["foreign_cpu"] is None


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


def test_a_clock_that_nobody_moves_keeps_its_offset():
    offsets_ns = [foreign_load.clock_offset_ns() for _ in range(100)]
    assert max(offsets_ns) - min(offsets_ns) < 10**7
