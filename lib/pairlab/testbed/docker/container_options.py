"""What containers may do: run their workload, and nothing else. Docker's default seccomp filter stays on."""

from collections.abc import Mapping
from typing import Any

#: Debian's nobody. It owns nothing, neither in the image nor on the host, and has no capability.
USER = "65534:65534"

#: Processes and threads. iperf has a thread for each of up to 1000 flows: only a runaway process gets there.
MOST_PIDS = 16384

#: Of the host's memory, for one container: no workload comes near it, and none can bring the host down.
MOST_MEMORY = 0.5

#: iperf3 keeps a buffer for each of its flows in a file there: 128 of 1 MiB at most.
TMP_BYTES = 256 << 20


def confinement(host_memory_bytes: int) -> Mapping[str, Any]:
    """Arguments of docker-py's create_host_config. The daemon ignores limits it has no controller for."""
    return {
        "cap_drop": ["ALL"],
        # SELinux, if it is on, would keep our mounts from the container.
        "security_opt": ["no-new-privileges:true", "label=disable"],
        "read_only": True,
        "tmpfs": {"/tmp": f"size={TMP_BYTES},mode=1777,noexec,nosuid,nodev"},
        "ipc_mode": "none",  # nor is there a /dev/shm to write to
        "pids_limit": MOST_PIDS,
        "mem_limit": int(host_memory_bytes * MOST_MEMORY),
    }
