"""What the kernel counts, read from text of /proc that was captured."""

import pytest

from pairlab import paths
from pairlab.testbed.host import kernel_counters as counters

CAPTURED = paths.ROOT / "tests" / "support" / "captured"


@pytest.fixture
def proc(tmp_path):
    """A folder like /proc, with what was captured."""
    (tmp_path / "net").mkdir()
    for place, name in (("stat", "stat"), ("softirqs", "softirqs"), ("net/softnet_stat", "softnet-stat")):
        (tmp_path / place).write_text((CAPTURED / f"{name}-linux-6.18.txt").read_text())
    return tmp_path


@pytest.fixture(autouse=True)
def no_cpus(monkeypatch, tmp_path):
    """What this host counts of its CPUs is in test_cpu_sleep."""
    monkeypatch.setattr(counters.cpu_sleep, "CPUS", tmp_path / "none")


def test_counts_are_of_all_cpus_together(proc):
    found = counters.read(proc)
    assert found["softirqs_net_rx"] == 29513363 + 29435718
    assert found["softirqs_timer"] == 229540 + 238129
    assert found["softirqs_irq_poll"] == 0
    assert (found["interrupts"], found["context_switches"]) == (41064844, 17266011)
    assert found["softnet_processed"] == 0x03DD069D + 0x03D91B19
    assert (found["softnet_dropped"], found["softnet_time_squeeze"]) == (0, 0x17 + 0x18)


def test_what_a_host_does_not_show_is_left_out(proc):
    (proc / "net" / "softnet_stat").unlink()
    found = counters.read(proc)
    assert not [name for name in found if name.startswith("softnet_")]
    assert found["interrupts"] == 41064844
    assert counters.read(proc / "net") == {}


def test_growth_is_the_difference_of_what_was_read_both_times():
    before = {"interrupts": 2**40, "softirqs_net_rx": 7, "context_switches": 1}
    after = {"interrupts": 2**40 + 5, "softirqs_net_rx": 10, "softnet_dropped": 3}
    assert counters.growth(before, after) == {"interrupts": 5, "softirqs_net_rx": 3}


def test_a_count_of_32_bits_that_began_anew_has_grown_all_the_same(proc):
    before = counters.read(proc)
    file = proc / "net" / "softnet_stat"
    file.write_text(file.read_text().replace("03dd069d", "fffffff0"))
    before |= counters.read(proc)
    file.write_text(file.read_text().replace("fffffff0", "00000010"))
    assert counters.growth(before, counters.read(proc))["softnet_processed"] == 0x20


def test_a_kernel_with_fewer_columns_is_read_too():
    assert counters.softnet("0000000a 00000001 00000002\n0000000a 00000000 00000001\n") == {
        "softnet_processed": 20,
        "softnet_dropped": 1,
        "softnet_time_squeeze": 3,
    }
    assert counters.softnet("") == {}
