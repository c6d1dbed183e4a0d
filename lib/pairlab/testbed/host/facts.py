"""Facts for the record: the machine, its kernel and its tools."""

import functools
import hashlib
import hmac
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import psutil

from pairlab.base.environment import BOOT
from pairlab.model.tables import MACHINE
from pairlab.testbed import cpu_sleep
from pairlab.testbed.endpoints import Endpoint, HostPlan
from pairlab.testbed.host import cgroup_tree, foreign_load

#: The environment variable by which a container is told which machine it is on.
MACHINE_NAME = "PAIRLAB_MACHINE"


def host() -> dict:
    """Machine, kernel, and which part of it this process may use.

    `fingerprint` is equal for hosts of one kind: same CPUs, same kernel. cpu_quota: CPUs' worth of time that this
    process's control groups leave it; 0: all. cpu_weights: of its control group and those above it, against others.
    cpus_allowed: on how many CPUs it may run (sched_setaffinity(2), cpuset).
    """
    groups = cgroup_tree.hierarchy()
    return {
        **_host(),
        "cpu_quota": cgroup_tree.quota(groups),
        "cpu_weights": cgroup_tree.weights(groups),
        "cpus_allowed": len(os.sched_getaffinity(0)),
    }


def hosts(plans: Sequence[HostPlan]) -> list[dict]:
    """What each host of a testbed is, by `kind`: the `machine` itself, or a `namespace` on it.

    Namespaces share the machine's kernel, CPUs, memory and clock, so `host` and all CPU telemetry are of all of them.
    address: of the uplink by which the others reach it.
    """
    if len(plans) == 1:
        return [{"name": MACHINE, "kind": "machine"}]
    return [{"name": each.name, "kind": "namespace", "on": MACHINE, "address": each.address} for each in plans]


@functools.cache
def _host() -> dict:
    model = _cpuinfo("model name") or platform.processor() or platform.machine()
    cpus, release = foreign_load.cpus_online(), platform.release()
    return {
        "fingerprint": f"{model}, {cpus} CPUs, Linux {release}",
        "cpu_model": model,
        "cpus": cpus,
        "machine": machine(),
        "memory_bytes": psutil.virtual_memory().total,
        "architecture": platform.machine(),
        "kernel": release,
        "distribution": _distribution(),
        "virtualization": "virtual machine" if "hypervisor" in _cpuinfo("flags").split() else "none seen",
        "cpuidle_driver": cpu_sleep.driver(),
        "cpu_governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cgroup": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        "default_qdisc": _read("/proc/sys/net/core/default_qdisc"),
        "rmem_max": _read("/proc/sys/net/core/rmem_max"),
        "wmem_max": _read("/proc/sys/net/core/wmem_max"),
        "python": platform.python_version(),
    }


def machine() -> str:
    """12 hex digits that name this machine, the same after each reboot but in a container; empty where it has no name.

    They are made from machine-id(5) by a keyed hash, as that page asks, so that a shared run does not give the id away.
    A copy of a virtual machine has the name of the original, unless it was given a new id. In a container, whose
    machine-id is its image's, or new with each container, the name is that of this start of the kernel (random(4)):
    after the next one, the container may be on any machine. MACHINE_NAME in the environment stands for the id, wherever
    it is set. A host without an id, as some virtual machines are, is named after what its CPUs say of themselves beside
    their model's name, which a hypervisor may have blurred.
    """
    if named := os.environ.get(MACHINE_NAME):
        return _named_after(named.encode())
    if in_container():
        start = _read(BOOT)
        return _named_after(start.encode()) if start else ""
    machine_id = _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id") or ""
    if re.fullmatch(r"[0-9a-f]{32}", machine_id):
        return _named_after(bytes.fromhex(machine_id))
    known = [_cpuinfo(field) for field in ("vendor_id", "cpu family", "model", "stepping", "cache size")]
    return _named_after("; ".join(known).encode()) if any(known) else ""


def _named_after(key: bytes) -> str:
    return hmac.new(key, b"pairlab", hashlib.sha256).hexdigest()[:12]


def in_container() -> bool:
    """Whether this process runs in a container, by the marks of Docker, Podman and systemd."""
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"))


def version(endpoint: Endpoint, argv: Sequence[str]) -> str:
    """The first line a tool prints of its version."""
    done = endpoint.run(list(argv), unprivileged=True)
    return next(iter((done.stdout + done.stderr).strip().splitlines()), "unknown")


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


@functools.cache
def _cpuinfo(field: str) -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"
