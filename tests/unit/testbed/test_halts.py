"""Who is taken for halted: stopped, frozen, or late though it had a CPU; on a process of ours, and planted times."""

import os
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest

from pairlab.testbed.host import cgroups, halts
from pairlab.testbed.host.foreign_load import OwnProcesses
from pairlab.testbed.host.halts import HaltSampler, _Sample


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def sampled(child, samples=5):
    """What samples, one after another, found of the time from the first to the last of them."""
    sampler = HaltSampler(OwnProcesses([child.pid]), 0.0)
    for _ in range(samples):
        sampler._take()
    first_s, last_s = sampler._samples[0].at_s, sampler._samples[-1].at_s
    return tuple(sampler.shares(state, first_s, last_s) for state in ("halted", "regrouped"))


def test_one_that_is_stopped_is_halted_and_one_that_sleeps_is_not(child):
    assert sampled(child) == ([], [])
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    ((name, pid, share),), regrouped = sampled(child)
    assert pid == child.pid
    assert name.startswith("python")
    assert share == pytest.approx(1)
    assert regrouped == []


@pytest.mark.parametrize(
    ("text", "frozen"),
    [
        ("populated 1\nfrozen 1\n", True),
        ("populated 1\nfrozen 0\n", False),
        ("FROZEN\n", True),
        ("FREEZING\n", True),
        ("THAWED\n", False),
        ("", False),
    ],
)
def test_a_group_says_whether_it_is_frozen_in_either_version(tmp_path, text, frozen):
    (tmp_path / "state").write_text(text)
    assert cgroups.is_frozen(tmp_path / "state") == frozen
    assert not cgroups.is_frozen(tmp_path / "removed")


def test_a_member_of_a_frozen_group_is_halted_and_one_that_changes_its_group_is_named(child, monkeypatch):
    groups = iter(["0::/one", "0::/one", "0::/two", "0::/one"])
    real = halts._read
    monkeypatch.setattr(halts, "_read", lambda pid, name: next(groups) if name == "cgroup" else real(pid, name))
    monkeypatch.setattr(cgroups, "freezers", lambda text: [text])
    monkeypatch.setattr(cgroups, "is_frozen", lambda file: file == "0::/two")
    ((_, pid, share),), moved = sampled(child, samples=4)
    assert moved == [(mock.ANY, pid, pytest.approx(share))]
    assert pid == child.pid
    assert 0 < share < 1


def test_one_that_has_ended_was_neither_halted_nor_moved(child):
    """The kernel takes it out of its groups before its parent knows."""
    sampler = HaltSampler(OwnProcesses([child.pid]), 0.0)
    begun_s = time.monotonic()
    sampler._take()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    sampler._take()
    assert not any(sampler.shares(state, begun_s, time.monotonic()) for state in ("halted", "regrouped"))


def planted(*samples):
    """A sampler of an interval of 0.1 s that took these: moment, and for how long its thread had waited."""
    sampler = HaltSampler(OwnProcesses(), 0.0)
    sampler._samples = [_Sample(at_s, waited_s, 1, (), ()) for at_s, waited_s in samples]
    return sampler


@pytest.mark.parametrize(
    ("gap_s", "waited_s", "late_s"), [(0.1, 0.0, 0.0), (0.5, 0.0, 0.35), (0.5, 0.4, 0.0), (0.5, 0.1, 0.25)]
)
def test_pairlab_itself_was_halted_where_a_sample_was_late_and_did_not_wait_for_a_cpu(gap_s, waited_s, late_s):
    sampler = planted((0.0, 0.0), (0.1, 0.0), (0.1 + gap_s, waited_s), (1.0, waited_s))
    sampler._samples[3:] = [_Sample(1.0, waited_s, 2, (), ())]  # taken by another thread, as at the end
    found = {name: share for name, _, share in sampler.shares("halted", 0.0, 1.0)}
    assert found.get("pairlab", 0.0) == pytest.approx(late_s)
