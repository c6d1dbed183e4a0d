"""The host as it is: what a record says of the machine, its kernel and its tools."""

import functools
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import psutil

from pairlab.errors import MeasurementFailed
from pairlab.testbed.contracts import Endpoint


@functools.cache
def host() -> dict:
    """Machine and kernel. `fingerprint` is equal for runs that may be pooled: same CPUs, same kernel."""
    model, cpus, release = _cpu_model(), os.cpu_count(), platform.release()
    return {
        "fingerprint": f"{model}, {cpus} CPUs, Linux {release}",
        "cpu_model": model,
        "cpus": cpus,
        "memory_bytes": psutil.virtual_memory().total,
        "architecture": platform.machine(),
        "kernel": release,
        "distribution": _distribution(),
        "virtualization": "virtual machine" if "hypervisor" in _cpuinfo("flags").split() else "none seen",
        "cpu_governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cgroup": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        "default_qdisc": _read("/proc/sys/net/core/default_qdisc"),
        "rmem_max": _read("/proc/sys/net/core/rmem_max"),
        "wmem_max": _read("/proc/sys/net/core/wmem_max"),
        "python": platform.python_version(),
    }


def network(endpoint: Endpoint, flowgen: str, interface: str) -> dict:
    """The network as an endpoint sees it: TCP's settings, and the offloads of the link it sends through."""
    done = endpoint.run([flowgen, "facts", "--link", interface])
    if done.returncode:
        raise MeasurementFailed(f"the network of {endpoint.name} could not be described: {done.stderr.strip()}")
    told = json.loads(done.stdout)
    return {key: value for key, value in told.items() if key != "event"}


def version(endpoint: Endpoint, argv: Sequence[str]) -> str:
    """The first line a tool prints of its version."""
    done = endpoint.run(list(argv))
    return next(iter((done.stdout + done.stderr).strip().splitlines()), "unknown")


def _read(path: str) -> str | None:
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


def _cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"
