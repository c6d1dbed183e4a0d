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


def cpuinfo(*lines, cpus=2, tail=""):
    """As Linux writes /proc/cpuinfo: a block of lines for each CPU, and one of the machine."""
    blocks = ["\n".join([f"processor\t: {number}", *lines]) for number in range(cpus)]
    return "\n\n".join([*blocks, *filter(None, [tail])]) + "\n\n"


def arm(part, variant, *, implementer="0x41", revision="1", first=(), tail=""):
    fields = {"CPU implementer": implementer, "CPU architecture": "8", "CPU variant": variant, "CPU part": part}
    lines = (*first, "BogoMIPS\t: 243.75", "Features\t: fp asimd evtstrm aes crc32 cpuid")
    return cpuinfo(
        *lines, *(f"{name}\t: {value}" for name, value in fields.items()), f"CPU revision\t: {revision}", tail=tail
    )


PI = "Revision\t: c03114\nSerial\t\t: 1000000012345678\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4"
POWER9 = ("cpu\t\t: POWER9 (architected), altivec supported", "clock\t\t: 2200.000000MHz")
POWER9 += ("revision\t: 2.2 (pvr 004e 1202)",)
PSERIES = "timebase\t: 512000000\nplatform\t: pSeries\nmodel\t\t: IBM pSeries\nmachine\t\t: CHRP IBM pSeries"


def s390x(machine):
    head = "vendor_id       : IBM/S390\n# processors    : 2\nbogomips per cpu: 3033.00\nfeatures\t: esan3 zarch stfle\n"
    lines = (f"processor {cpu}: version = FF,  identification = 0{cpu}2345,  machine = {machine}\n" for cpu in range(2))
    return head + "".join(lines) + "\ncpu number      : 0\ncpu MHz dynamic : 5208\n\n"


def riscv(uarch):
    return cpuinfo("hart\t\t: 1", "isa\t\t: rv64imafdc", "mmu\t\t: sv39", f"uarch\t\t: {uarch}", "mvendorid\t: 0x489")


def x86(*more):
    intel = ("vendor_id\t: GenuineIntel", "cpu family\t: 6", "model\t\t: 207", "model name\t: Intel(R) Xeon(R) 8581C")
    return cpuinfo(*intel, "stepping\t: 2", "cpu MHz\t\t: 2300.0", f"flags\t\t: fpu vme {' '.join(more)}".rstrip())


#: What /proc/cpuinfo has, and the model that is read there.
OTHERS = {
    "Neoverse N1": (arm("0xd0c", "0x3"), "aarch64 implementer 0x41, part 0xd0c, variant 0x3, revision 1"),
    "Neoverse V1": (arm("0xd40", "0x1"), "aarch64 implementer 0x41, part 0xd40, variant 0x1, revision 1"),
    "Raspberry Pi 4": (
        arm("0xd08", "0x0", revision="3", tail=PI),
        "aarch64 implementer 0x41, part 0xd08, variant 0x0, revision 3; Model Raspberry Pi 4 Model B Rev 1.4",
    ),
    "another stepping": (arm("0xd0c", "0x4"), "aarch64 implementer 0x41, part 0xd0c, variant 0x4, revision 1"),
    "two kinds": (
        arm("0xd05", "0x1") + arm("0xd0a", "0x1"),
        "aarch64 implementer 0x41, part 0xd05, variant 0x1, revision 1;"
        " implementer 0x41, part 0xd0a, variant 0x1, revision 1",
    ),
    "32-bit Arm": (
        arm("0xd03", "0x0", first=["model name\t: ARMv7 Processor rev 4 (v7l)"]),
        "ARMv7 Processor rev 4 (v7l) implementer 0x41, part 0xd03, variant 0x0, revision 1",
    ),
    "POWER9": (
        cpuinfo(*POWER9, tail=PSERIES),
        "aarch64 cpu POWER9 (architected), altivec supported, revision 2.2 (pvr 004e 1202); machine CHRP IBM pSeries",
    ),
    "z14": (s390x("3906"), "aarch64 machine 3906"),
    "z16": (s390x("3931"), "aarch64 machine 3931"),
    "U74": (riscv("sifive,u74-mc"), "aarch64 uarch sifive,u74-mc, mvendorid 0x489"),
    "C910": (riscv("thead,c910"), "aarch64 uarch thead,c910, mvendorid 0x489"),
    "Loongson": (cpuinfo("Model Name\t: Loongson-3A5000"), "aarch64 Model Name Loongson-3A5000"),
    "x86": (x86(), "Intel(R) Xeon(R) 8581C"),
    "none": ("", "aarch64"),
}


@pytest.fixture
def on(monkeypatch):
    """Has this host's /proc/cpuinfo be that text; returns its facts, and its name without a machine-id."""

    def on(text):
        monkeypatch.delenv(facts.MACHINE_NAME, raising=False)
        monkeypatch.setattr(facts, "setting", {"/proc/cpuinfo": text.strip()}.get)
        monkeypatch.setattr(facts, "in_container", lambda: False)
        monkeypatch.setattr(facts.platform, "machine", lambda: "aarch64")
        for cached in (facts._cpuinfo, facts._machine_facts):
            cached.cache_clear()
        return facts.host()

    yield on
    monkeypatch.undo()
    for cached in (facts._cpuinfo, facts._machine_facts):
        cached.cache_clear()


def test_cpus_without_a_model_name_are_told_apart_by_what_the_kernel_has_in_its_place(on):
    read = {name: on(text) for name, (text, _) in OTHERS.items()}
    assert {name: each["cpu_model"] for name, each in read.items()} == {
        name: said for name, (_, said) in OTHERS.items()
    }
    assert len({each["fingerprint"] for each in read.values()}) == len(OTHERS)


def test_machines_without_an_id_have_names_of_their_own_though_their_cpus_have_no_model_name(on):
    read = {name: on(text)["machine"] for name, (text, _) in OTHERS.items()}
    assert read.pop("none") == ""
    assert len(set(read.values())) == len(read)
    assert read["x86"] == facts._named_after(b"GenuineIntel; 6; 207; 2; ")  # as before there were others


@pytest.mark.parametrize(
    ("text", "detected", "is_what"),
    [
        (x86("hypervisor"), "none", "virtual machine"),
        (x86(), "none", "none seen"),
        (OTHERS["Neoverse N1"][0], "kvm", "virtual machine"),
        (OTHERS["Neoverse N1"][0], "none", "unknown"),
        (OTHERS["Neoverse N1"][0], None, "unknown"),
        ("", None, "unknown"),
    ],
)
def test_that_a_virtual_machine_was_not_recognised_is_not_that_there_is_none(
    text, detected, is_what, on, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    if detected:
        detect = tmp_path / "systemd-detect-virt"
        detect.write_text(f"#!/bin/sh\necho {detected}\n[ {detected} != none ]\n")
        detect.chmod(0o755)
    assert on(text)["virtualization"] == is_what


def test_a_host_without_control_groups_is_not_said_to_have_version_1(on, monkeypatch):
    monkeypatch.setattr(facts.cgroups, "hierarchy", lambda: None)
    assert on("")["cgroup"] == "unknown"
