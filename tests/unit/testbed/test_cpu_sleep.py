"""CPUs that sleep: how often they did, and what keeps them awake."""

import os

import pytest

from pairlab.errors import TestbedError
from pairlab.testbed import cpu_sleep


@pytest.fixture
def cpus(tmp_path, monkeypatch):
    """A folder like /sys/devices/system/cpu, of two CPUs that can poll, and sleep in two ways."""
    for cpu in (0, 1):
        for state, (name, usage) in enumerate((("POLL", 7), ("C1", 100), ("C6", 20 + cpu))):
            folder = tmp_path / f"cpu{cpu}" / "cpuidle" / f"state{state}"
            folder.mkdir(parents=True)
            (folder / "name").write_text(f"{name}\n")
            (folder / "usage").write_text(f"{usage}\n")
    (tmp_path / "cpuidle").mkdir()
    monkeypatch.setattr(cpu_sleep, "CPUS", tmp_path)


@pytest.mark.usefixtures("cpus")
def test_a_cpu_that_polls_does_not_sleep():
    assert cpu_sleep.sleeps() == {"cpu_sleeps": 100 + 20 + 100 + 21}


def test_a_kernel_that_does_not_count_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_sleep, "CPUS", tmp_path)
    assert cpu_sleep.sleeps() == {}


def test_the_kernel_is_asked_for_no_delay_while_the_block_runs_and_only_if_that_is_wanted(tmp_path, monkeypatch):
    request = tmp_path / "cpu_dma_latency"
    request.write_bytes(b"")
    monkeypatch.setattr(cpu_sleep, "REQUEST", request)
    files = len(os.listdir("/proc/self/fd"))
    with cpu_sleep.prevented(False):
        assert request.read_bytes() == b""
    with cpu_sleep.prevented():
        assert request.read_bytes() == bytes(4)
        assert len(os.listdir("/proc/self/fd")) == files + 1
    assert len(os.listdir("/proc/self/fd")) == files


def test_what_keeps_a_host_from_it_is_told_with_what_helps(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_sleep, "DRIVER", tmp_path / "driver")
    assert [str(each) for each in cpu_sleep.missing()] == [
        "this kernel has no driver of idle states to tell (cpuidle): leave out cpus_awake"
    ]
    (tmp_path / "driver").write_text("none\n")
    assert len(cpu_sleep.missing()) == 1
    (tmp_path / "driver").write_text("haltpoll\n")
    monkeypatch.setattr(cpu_sleep, "REQUEST", tmp_path / "missing")
    (lack,) = cpu_sleep.missing()
    assert lack.remedy == "run as root"
    with pytest.raises(TestbedError, match=r"CPUs cannot be kept awake: .*No such file"), cpu_sleep.prevented():
        pass
