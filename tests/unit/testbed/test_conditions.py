"""Which of the machine's settings are recorded: all that stay as they are, and none that is nobody's business."""

import os
from pathlib import Path

import pytest

from pairlab.model.conditions import Conditions
from pairlab.testbed.host import conditions


@pytest.fixture
def sysctls(tmp_path, monkeypatch):
    """sysctls(name=value): writes it below a folder that stands for /proc/sys."""
    monkeypatch.setattr(conditions, "SYSCTLS", tmp_path)

    def write(**values):
        for name, value in values.items():
            file = tmp_path.joinpath(*name.split("__"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value)

    return write


def of_sysctls(found: Conditions) -> Conditions:
    return {name: value for name, value in found.items() if name.startswith(("net.", "vm.", "kernel."))}


def test_settings_of_this_machine_stay_as_they_are():
    found = conditions.read()
    assert conditions.read() == found
    assert found["cpus_online"]
    assert found["net.ipv4.tcp_rmem"] == " ".join(Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split())
    assert not [name for name in found if name.endswith(("_secret", "_key", "hostname", "uuid"))]


def test_every_sysctl_is_one_whatever_its_name_and_an_interfaces_own_are_none(sysctls):
    sysctls(net__core__new_in_this_kernel="7\n", vm__max_map_count="60\n", kernel__sched__autogroup="1\t2\n")
    sysctls(net__ipv4__conf__all__rp_filter="0", net__ipv4__conf__veth0__rp_filter="1", fs__nr_open="1")
    sysctls(
        kernel__ns_last_pid="42",
        net__core__netdev_rss_key="00:01",
        net__netfilter__nf_conntrack_count="9",
        kernel__hostname="mine",
    )
    expected = {"net.core.new_in_this_kernel": "7", "vm.max_map_count": "60", "kernel.sched.autogroup": "1 2"}
    assert of_sysctls(conditions.read()) == expected | {"net.ipv4.conf.all.rp_filter": "0"}


def test_what_is_changed_is_named_with_both_values_and_what_came_is_not(sysctls):
    sysctls(net__core__rmem_max="1", vm__swappiness="60")
    before = conditions.read()
    assert conditions.changed(before, conditions.read()) == {}
    sysctls(net__core__rmem_max="2", net__netfilter__of_a_module="1")
    assert conditions.changed(before, conditions.read()) == {"net.core.rmem_max": ["1", "2"]}


def test_of_the_command_line_it_is_said_how_the_kernel_works_and_not_where_the_system_is(monkeypatch):
    line = "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro mitigations=off isolcpus=1 rd.luks.uuid=3 -- --token secret"
    monkeypatch.setattr(conditions, "setting", lambda file: line if file == "/proc/cmdline" else None)
    assert conditions.read()["command_line"] == "mitigations=off isolcpus=1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask the kernel for short wake-ups")
def test_a_request_for_short_wake_ups_is_seen_and_reading_it_asks_for_none():
    before = conditions.read()["wakeup_latency_us"]
    request = os.open(conditions.REQUEST, os.O_WRONLY)
    try:
        os.write(request, (5).to_bytes(4, "little"))
        assert conditions.read()["wakeup_latency_us"] == "5"
    finally:
        os.close(request)
    assert conditions.read()["wakeup_latency_us"] == before
