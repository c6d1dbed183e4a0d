"""Facts for the record: the machine, its kernel and its tools.

It is imported on machines over ssh, which have Python's own library only.
"""

import contextlib
import functools
import hashlib
import hmac
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pairlab.base.environment import BOOT
from pairlab.testbed import cpu_sleep
from pairlab.testbed.endpoints import Endpoint, HostPlan
from pairlab.testbed.host import cgroups, foreign_load
from pairlab.testbed.requirements import setting

#: Fields of /proc/cpuinfo that tell CPUs apart where there is no "model name", or where it is the architecture's, as on
#: 32-bit Arm: of Arm, of POWER and s390x, of RISC-V, of LoongArch and MIPS. x86 has none of them.
CPU_KIND = (
    *("CPU implementer", "CPU part", "CPU variant", "CPU revision", "Model"),
    *("cpu", "revision", "machine"),
    *("uarch", "mvendorid", "marchid", "mimpid"),
    *("Model Name", "cpu model", "system type"),
)
#: The environment variable with the machine's name in a container.
MACHINE_NAME = "PAIRLAB_MACHINE"


def host() -> dict:
    """Machine, kernel, and the resources that this process may use.

    `fingerprint` is equal for hosts of one kind: same CPUs, same kernel. cpu_quota: in CPUs, by this process's control
    groups; 0: no limit. cpu_weights: of its control group and the group's ancestors. cpus_allowed: the number of
    allowed CPUs (sched_setaffinity(2), cpuset). What anybody may change is read anew each time.
    """
    groups, cpus = cgroups.hierarchy(), foreign_load.cpus_online()
    machine_facts = _machine_facts()
    return {
        "fingerprint": f"{machine_facts['cpu_model']}, {cpus} CPUs, Linux {machine_facts['kernel']}",
        "cpus": cpus,
        **machine_facts,
        "cpuidle_driver": cpu_sleep.driver(),
        "cpu_governor": setting("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "default_qdisc": setting("/proc/sys/net/core/default_qdisc"),
        "rmem_max": setting("/proc/sys/net/core/rmem_max"),
        "wmem_max": setting("/proc/sys/net/core/wmem_max"),
        "cpu_quota": cgroups.quota(groups),
        "cpu_weights": cgroups.weights(groups),
        "cpus_allowed": len(os.sched_getaffinity(0)),
    }


def hosts(plans: Sequence[HostPlan], kind: str, machines: Sequence[str] = ()) -> list[dict]:
    """The hosts of a testbed, each with its kind: the `machine` itself, or Backend.host_kind. machines: the names of
    those that hosts are on, where they are others than this one.

    Namespaces share the machine's kernel, CPUs, memory and clock, so `host` and all CPU telemetry cover all of them;
    hosts with kernels of their own share its CPUs and memory. address: of the host's uplink.
    """
    from pairlab.model.tables import MACHINE

    if len(plans) == 1 and kind == "namespace":
        return [{"name": MACHINE, "kind": "machine"}]
    on = machines or [MACHINE] * len(plans)
    return [
        {"name": each.name, "kind": kind, "on": machine, "address": each.address}
        for each, machine in zip(plans, on, strict=True)
    ]


@functools.cache
def _machine_facts() -> dict:
    """What stays while the kernel runs."""
    groups = cgroups.hierarchy()
    return {
        "cpu_model": cpu_model(),
        "machine": machine(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "distribution": _distribution(),
        "virtualization": virtualization(),
        "cgroup": f"v{groups.version}" if groups else "unknown",
        "python": platform.python_version(),
    }


def cpu_model() -> str:
    """The CPUs' kind: /proc/cpuinfo's "model name", and where that tells too little, the architecture and CPU_KIND."""
    name = _cpuinfo("model name")
    return f"{name or platform.machine()} {_cpu_kinds()}".strip()


def virtualization() -> str:
    """`virtual machine`, `none seen`, or `unknown`.

    On x86, hypervisors set a flag of the CPU. Elsewhere systemd-detect-virt(1) knows the marks of most; that it sees
    none, or is not there, proves nothing.
    """
    if flags := _cpuinfo("flags").split():
        return "virtual machine" if "hypervisor" in flags else "none seen"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["systemd-detect-virt", "--vm"], capture_output=True, text=True, timeout=10, check=True)
        return "unknown" if done.stdout.strip() in ("", "none") else "virtual machine"
    return "unknown"


def machine() -> str:
    """12 hex digits that name this machine, stable over reboots except in a container; empty: unknown.

    A keyed hash of machine-id(5), as its page requires, so that a shared run does not disclose the id. A copy of a
    virtual machine has the original's name unless it has a new id. In a container, whose machine-id is the image's or
    the container's, the name is derived from the kernel's boot id (random(4)): after the next boot, the container may
    be on any machine. MACHINE_NAME in the environment, if set, replaces the id. A host without an id, such as some
    virtual machines, is named after its CPUs' properties, besides the model's name, which a hypervisor may hide.
    """
    if named := os.environ.get(MACHINE_NAME):
        return _named_after(named.encode())
    if in_container():
        boot_id = setting(BOOT)
        return _named_after(boot_id.encode()) if boot_id else ""
    machine_id = setting("/etc/machine-id") or setting("/var/lib/dbus/machine-id") or ""
    if re.fullmatch(r"[0-9a-f]{32}", machine_id):
        return _named_after(bytes.fromhex(machine_id))
    properties = [_cpuinfo(field) for field in ("vendor_id", "cpu family", "model", "stepping", "cache size")]
    properties += filter(None, [_cpu_kinds()])
    return _named_after("; ".join(properties).encode()) if any(properties) else ""


def _named_after(key: bytes) -> str:
    return hmac.new(key, b"pairlab", hashlib.sha256).hexdigest()[:12]


def in_container() -> bool:
    """Whether this process runs in a container, by the marks of Docker, Podman and systemd."""
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"))


def version(endpoint: Endpoint, argv: Sequence[str]) -> str:
    """The first line of a tool's version output."""
    completed = endpoint.run(list(argv), unprivileged=True)
    return next(iter((completed.stdout + completed.stderr).strip().splitlines()), "unknown")


@functools.cache
def _cpuinfo(field: str) -> str:
    for line in (setting("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def _cpu_kinds() -> str:
    """CPU_KIND of each kind of CPU, as a machine may have several, and of the machine; empty on x86."""
    # s390x has "processor 0: version = FF,  identification = 012345,  machine = 2964" in place of a field.
    text = re.sub(r"^processor \d+:.*\b(machine) = ", r"\1: ", setting("/proc/cpuinfo") or "", flags=re.MULTILINE)
    kinds: dict[str, None] = {}  # an ordered set
    for block in text.split("\n\n"):
        values = {
            name.strip(): value.strip() for name, _, value in (line.partition(":") for line in block.splitlines())
        }
        kinds[", ".join(f"{name.removeprefix('CPU ')} {values[name]}" for name in CPU_KIND if values.get(name))] = None
    return "; ".join(filter(None, kinds))


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"
