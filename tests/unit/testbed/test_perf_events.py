"""Counts of the processor, where it counts and where it does not: on events that are stood in for."""

import errno
import os
import struct

import pytest

from pairlab.testbed.host import perf_events
from pairlab.testbed.host.kernel_counters import HostCounters
from pairlab.testbed.host.perf_events import COUNTED, HARDWARE, ProcessorCounts, missing_counter, online_cpus


@pytest.fixture
def processor(monkeypatch):
    """processor(values): two CPUs whose counters, by name, give (count, enabled, running); an errno: it is refused."""
    opened = []

    def of(values):
        names = {config: name for name, config in COUNTED.items()}

        def open_event(kind, config, cpu, period_ns=0):
            assert (kind, period_ns) == (HARDWARE, 0)
            value = values[names[config]]
            if isinstance(value, int):
                raise OSError(value, os.strerror(value))
            reader, writer = os.pipe()
            os.write(writer, struct.pack("=QQQ", *value))
            os.close(writer)
            opened.append(reader)
            return reader

        monkeypatch.setattr(perf_events, "online_cpus", lambda: [0, 1])
        monkeypatch.setattr(perf_events, "open_event", open_event)
        monkeypatch.setattr(perf_events.fcntl, "ioctl", lambda *_: 0)
        return ProcessorCounts()

    yield of
    for each in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)


def test_counts_of_all_cpus_add_up_and_a_shared_counter_is_scaled(processor):
    whole, half = (1000, 80, 80), (1000, 80, 40)
    counts = processor({"cycles": whole, "instructions": whole, "cache_references": whole, "cache_misses": half})
    counts.start()
    found = counts.stop()
    assert found == {"cycles": 2000, "instructions": 2000, "cache_references": 2000, "cache_misses": 4000}
    assert counts.lacks == []


def test_what_the_processor_does_not_count_is_told_once_with_its_names(processor):
    counts = processor({**dict.fromkeys(COUNTED, errno.ENOENT), "cycles": (5, 8, 8), "cache_misses": (5, 8, 0)})
    counts.start()
    assert counts.stop() == {"cycles": 10}
    machine, busy = counts.lacks
    assert machine.startswith("this machine has no counter of instructions, cache references: ")
    assert busy == "cache misses had no free counter of the processor"


def test_where_nothing_is_allowed_the_lack_is_in_the_facts(processor, monkeypatch):
    refused = processor(dict.fromkeys(COUNTED, errno.EACCES))
    monkeypatch.setattr("pairlab.testbed.host.kernel_counters.ProcessorCounts", lambda: refused)
    with HostCounters() as host:
        pass
    assert not set(COUNTED) & set(host.counted)
    (lack,) = host.counted["lacks"]
    assert "may not be read here (perf_event_paranoid is " in lack
    assert "run pairlab as root, or sudo sysctl -w kernel.perf_event_paranoid=-1" in lack
    assert host.counted["over_s"] >= 0


def test_a_kernel_without_perf_events_is_told_apart():
    assert "CONFIG_PERF_EVENTS" in missing_counter(OSError(errno.ENOSYS, "Function not implemented"), "cycles").remedy


def test_a_refusal_names_the_setting_that_refuses_or_says_that_it_is_unknown(tmp_path, monkeypatch):
    level, refused = tmp_path / "perf_event_paranoid", OSError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(perf_events, "PARANOID", level)
    assert "(perf_event_paranoid is unknown)" in missing_counter(refused, "cycles").what
    level.write_text("3\n")
    assert "(perf_event_paranoid is 3)" in missing_counter(refused, "cycles").what


def test_cpus_are_listed_as_the_kernel_writes_them(tmp_path):
    file = tmp_path / "online"
    for text, cpus in (("0\n", [0]), ("0-3\n", [0, 1, 2, 3]), ("0-1,4,6-7\n", [0, 1, 4, 6, 7])):
        file.write_text(text)
        assert online_cpus(file) == cpus
