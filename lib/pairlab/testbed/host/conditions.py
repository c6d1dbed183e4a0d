"""The settings of this machine that a measurement may depend on: all of them, but for what changes by itself.

No sysctl is chosen by name: who knows beforehand which matter? Left out are those that count or are drawn anew, what
is written only, secrets, names, and what a network interface has for itself, as interfaces come and go with each
testbed. Other settings, which no folder has together, are listed here.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from pairlab.model.conditions import Conditions, differing
from pairlab.testbed.cpu_sleep import CPUS, REQUEST
from pairlab.testbed.requirements import read_file, setting

SYSCTLS = Path("/proc/sys")
#: Of the sysctls (Documentation/admin-guide/sysctl): these folders, without what matches here.
FOLDERS = ("kernel", "net", "vm")
_LEFT_OUT = re.compile(
    r"net\.ipv4\.(conf|neigh)\.(?!all\.|default\.)|net\.ipv6\.(conf|neigh|route|icmp)\."  # traffic here is IPv4
    r"|net\.mpls\.conf\.|net\.iw_cm|.*_key$|.*stable_secret|.*nf_conntrack_count$|.*rss_key$"
    r"|kernel\.(random|keys|pty|usermodehelper|yama|firmware_config|seccomp)\."
    r"|kernel\.(ns_last_pid|cad_pid|tainted|hostname|domainname|osrelease|version|bootloader_\w+|ostype)$"
    r"|kernel\.(perf_event_max_sample_rate|perf_cpu_time_max_percent|core_pattern|modprobe|hotplug|poweroff_cmd)$"
    r"|vm\.(stat_refresh|drop_caches|compact_memory)$|net\..*\.flush$"
)
#: Other files of one value, by the name of the condition.
FILES = {
    "clocksource": Path("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    "transparent_hugepage": Path("/sys/kernel/mm/transparent_hugepage/enabled"),
    "transparent_hugepage_defrag": Path("/sys/kernel/mm/transparent_hugepage/defrag"),
    "ksm": Path("/sys/kernel/mm/ksm/run"),
    "cpus_online": CPUS / "online",
    "cpus_isolated": CPUS / "isolated",
    "smt": CPUS / "smt" / "control",
    "turbo_off": CPUS / "intel_pstate" / "no_turbo",
    "boost": CPUS / "cpufreq" / "boost",
    "idle_driver": CPUS / "cpuidle" / "current_driver",
    "idle_governor": CPUS / "cpuidle" / "current_governor",
}
#: Files that each CPU has: their values, each once.
OF_EACH_CPU = {
    "governor": "cpufreq/scaling_governor",
    "frequency_min_khz": "cpufreq/scaling_min_freq",
    "frequency_max_khz": "cpufreq/scaling_max_freq",
    "energy_preference": "cpufreq/energy_performance_preference",
    "idle_states_off": "cpuidle/state*/disable",
}
#: Modules whose parameters have to do with traffic or with scheduling.
MODULES = re.compile(
    r"tcp_\w+|bridge|br_netfilter|veth|vxlan|openvswitch|virtio_net|nf_conntrack|workqueue|haltpoll|processor"
)
#: Of the kernel's command line: what says where the system is, and for whom, and not how the kernel works.
_WHERE = re.compile(
    r"(root|init|rdinit|ip|nfsroot|nfsaddrs|BOOT_IMAGE|initrd|resume|console|earlycon|ro|rw|quiet|splash|rd\..*|systemd\..*|luks.*|crypt.*|ds|cloud-init.*)(=.*)?"
)
MOST_BYTES = 4096


def read() -> dict[str, str]:
    """The conditions now, by name: sysctls by theirs (net.core.rmem_max), others as above. In a tenth of a second.

    What this user may not read is left out.
    """
    return dict(sorted((name, value) for name, value in _all() if value is not None))


def changed(before: Conditions, now: Conditions) -> dict[str, list[str]]:
    """The conditions that are others now, with both values; what was not there before is none of them."""
    return {name: list(values) for name, values in differing([before], [now]).items()}


def _all() -> Iterator[tuple[str, str | None]]:
    for folder in FOLDERS:
        yield from _sysctls(SYSCTLS / folder)
    for name, file in FILES.items():
        yield name, setting(file)
    for name, pattern in OF_EACH_CPU.items():
        values = {setting(file) for file in CPUS.glob(f"cpu[0-9]*/{pattern}")} - {None}
        yield name, ", ".join(sorted(map(str, values))) or None
    for file in sorted(CPUS.glob("vulnerabilities/*")):
        yield f"vulnerabilities.{file.name}", setting(file)
    for folder in sorted(Path("/sys/module").glob("*/parameters")):
        if MODULES.fullmatch(folder.parent.name):
            for file in sorted(folder.iterdir()):
                yield f"{folder.parent.name}.{file.name}", setting(file)
    yield "command_line", _command_line()
    yield "wakeup_latency_us", _wakeup_latency_us()


def _sysctls(root: Path) -> Iterator[tuple[str, str | None]]:
    for folder, _, files in os.walk(root):
        for file in files:
            path = Path(folder, file)
            name = ".".join(path.relative_to(SYSCTLS).parts)
            if not _LEFT_OUT.match(name):
                yield name, _value(path)


def _value(path: Path) -> str | None:
    content = read_file(path, MOST_BYTES)
    return None if content is None else " ".join(content.decode(errors="replace").split())


def _command_line() -> str | None:
    """The kernel's parameters (bootparam(7)), without those that say where the system is; after -- come init's."""
    text = setting("/proc/cmdline")
    words = text.partition(" -- ")[0].split() if text is not None else []
    return None if text is None else " ".join(word for word in words if not _WHERE.fullmatch(word))


def _wakeup_latency_us() -> str | None:
    """The longest wake-up that anybody's request allows CPUs now (cpu_sleep.REQUEST): to read it asks for nothing.
    2,000,000,000: nobody asks.
    """
    content = read_file(REQUEST, MOST_BYTES)
    return str(struct.unpack("=i", content)[0]) if content and len(content) == 4 else None
