import re

import pytest

from pairlab.testbed.host import facts

IDS = {"/etc/machine-id": "0123456789abcdef0123456789abcdef"}
CPUS = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "207", "stepping": "2", "cache size": "266240 KB"}


@pytest.fixture
def name(monkeypatch):
    def named(ids=(), cpus=(), container=False, told=""):
        monkeypatch.setenv(facts.MACHINE_NAME, told)
        monkeypatch.setattr(facts, "setting", dict(ids).get)
        monkeypatch.setattr(facts, "_cpuinfo", lambda field: dict(cpus).get(field, ""))
        monkeypatch.setattr(facts, "in_container", lambda: container)
        return facts.machine()

    return named


def test_a_machine_is_named_after_its_id_which_the_name_does_not_give_away(name):
    found = name(IDS, CPUS)
    assert re.fullmatch("[0-9a-f]{12}", found)
    assert found == name(IDS, CPUS | {"stepping": "3"})
    assert found != name({"/etc/machine-id": "1" * 32}, CPUS)
    assert found not in IDS["/etc/machine-id"]


def test_without_an_id_processors_of_another_kind_are_another_machine_though_their_model_has_one_name(name):
    found = name(cpus=CPUS)
    assert re.fullmatch("[0-9a-f]{12}", found)
    assert found == name({"/etc/machine-id": "uninitialized"}, CPUS)
    assert len({found, *(name(cpus=CPUS | {field: "another"}) for field in CPUS)}) == 1 + len(CPUS)


def test_what_has_neither_has_no_name_nor_has_a_container_whose_kernel_does_not_tell_its_start(name):
    assert name() == ""
    assert name(IDS, CPUS, container=True) == ""


def test_a_container_is_on_a_machine_of_its_own_until_the_kernel_starts_again(name):
    starts = [{facts.BOOT: f"{number}ccc84ba-31a6-4c6e-b0c2-0e0f3e6a2a7e"} for number in (1, 2)]
    first, second = (name(IDS | start, CPUS, container=True) for start in starts)
    assert re.fullmatch("[0-9a-f]{12}", first)
    assert first == name({"/etc/machine-id": "1" * 32} | starts[0], container=True)
    assert len({first, second, name(IDS, CPUS)}) == 3


def test_a_container_is_told_its_machine_which_the_name_does_not_give_away(name):
    found = name(IDS, CPUS, container=True, told="node-1")
    assert re.fullmatch("[0-9a-f]{12}", found)
    assert found == name(IDS, CPUS, told="node-1")
    assert found != name(IDS, CPUS, container=True, told="node-2")
