"""Which processes of a worker of the interference are watched."""

from types import SimpleNamespace

import pytest

from pairlab.measurement import interference

WORKER, MAIN, CHILD = 10, 11, 12


@pytest.fixture
def watched(monkeypatch):
    """The interference of one worker, and the state that its processes are in: parents, and CPU time in s, by pid."""
    parents, used_s = {WORKER: 1, MAIN: WORKER}, {MAIN: 0.05}
    table = {"read_processes": lambda: {pid: SimpleNamespace(pid=pid, parent=above) for pid, above in parents.items()}}
    for name, fake in (table | {"cpu_clock_s": used_s.get}).items():
        monkeypatch.setattr(interference, name, fake)
    watched = interference.Interference(SimpleNamespace(workers=()))
    watched.processes = [SimpleNamespace(pid=WORKER)]
    watched._at_work = [[MAIN]]
    return watched, parents, used_s


def silence_s(watched):
    watched._moments_ns = [at * 10**9 for at in range(len(watched._used_s))]
    return watched._longest_silence_s(0, (0, 60))


def test_a_worker_that_leaves_its_work_to_a_child_after_a_while_has_not_stood_still(watched):
    watched, parents, used_s = watched
    watched._sample()
    parents[CHILD] = MAIN  # stress-ng 0.19 works for 0.1 s before it starts its stressor
    for at in range(5):
        used_s[CHILD] = 0.1 + at / 10
        watched._sample()
    assert silence_s(watched) <= 1


def test_a_worker_that_stands_still_is_seen_to(watched):
    watched, _, _ = watched
    for _ in range(4):
        watched._sample()
    assert silence_s(watched) == 3
