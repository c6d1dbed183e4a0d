"""A sampler that stops is told: what it missed must not pass for nothing that was missed."""

import contextlib
import socket
import threading

import pytest

from pairlab.errors import MeasurementFailed
from pairlab.testbed.host import cpu_sampler
from pairlab.testbed.host.cpu_sampler import CpuTelemetry
from pairlab.testbed.host.ticker import Ticker


def failing(after):
    """A function that raises at that call, and an event that is set then."""
    calls, failed = [], threading.Event()

    def sample():
        calls.append(None)
        if len(calls) == after:
            failed.set()
            raise OSError("no such file")

    return sample, failed


def test_what_a_sampler_died_of_is_raised_at_its_end():
    sample, failed = failing(after=3)
    with (
        pytest.raises(MeasurementFailed, match=r"^some-telemetry stopped \(OSError: no such file\)"),
        Ticker(0.01, sample, "some-telemetry"),
    ):
        assert failed.wait(30)


def test_it_does_not_hide_what_went_wrong_before():
    sample, failed = failing(after=3)

    def measuring():
        with Ticker(0.01, sample, "some-telemetry"):
            assert failed.wait(30)
            raise KeyError

    with pytest.raises(KeyError):
        measuring()


@pytest.mark.parametrize("later", [(0,), (0, 2)], ids=["one off", "one off, one on"])
def test_a_cpu_that_was_switched_off_meanwhile_is_told(later, monkeypatch):
    sampled = threading.Event()
    seen = iter([{0: None, 1: None}])

    def online():
        if (cpus := next(seen, None)) is None:
            sampled.set()
        return cpus or dict.fromkeys(later)

    monkeypatch.setattr(cpu_sampler, "times_by_cpu", online)
    with pytest.raises(MeasurementFailed, match="a CPU was switched on or off"), CpuTelemetry(0.01):
        assert sampled.wait(30)


@pytest.mark.parametrize(("subsystem", "told"), [("cpu", True), ("net", False)])
def test_a_cpu_that_was_off_between_two_samples_is_told_by_the_kernels_events(subsystem, told, monkeypatch):
    events, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    events.setblocking(False)
    monkeypatch.setattr(cpu_sampler, "_kernel_events", lambda: events)
    fails = pytest.raises(MeasurementFailed, match="a CPU was switched") if told else contextlib.nullcontext()
    with kernel, fails, CpuTelemetry(30.0):
        for action in ("offline", "online"):
            device = f"/devices/system/{subsystem}/cpu1"
            kernel.send(f"{action}@{device}\0ACTION={action}\0DEVPATH={device}\0SUBSYSTEM={subsystem}\0".encode())
    assert events.fileno() < 0


def test_the_kernel_lets_its_events_be_heard():
    if not (events := cpu_sampler._kernel_events()):
        pytest.skip("this kernel lets nobody listen to its events")
    assert not any(map(cpu_sampler._is_hot_plug, [*cpu_sampler._received(events)]))
    assert events.fileno() < 0
