"""User-mode Linux as this machine has it: a kernel that is a process, from the machine's own files, without root.

user-mode-linux is Debian's package. A host is one such process with one CPU; its root is this machine's, read only.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pairlab import paths
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_programs, missing_tun
from pairlab.testbed.uml import VECTOR

KERNEL, MODPROBE = Program("linux.uml", "user-mode-linux"), Program("modprobe", "kmod")
MODULES = Path("/usr/lib/uml/modules")
MEMORY = "512M"
PRELOADED = "uml-xstate.so"  # lib/flowgen/uml/xstate.c says what for
#: Of the kernel's process, which runs in paths.native(). TMPDIR: where the file is that is the host's memory.
ENVIRONMENT = {"TMPDIR": "/dev/shm", "LD_PRELOAD": f"./{PRELOADED}"}


def release() -> str:
    """The kernel's release, such as 6.1.0; empty without its modules."""
    return max((each.name for each in MODULES.glob("*")), default="")


def missing() -> list[MissingRequirement]:
    """What is missing for hosts with such a kernel."""
    found = missing_programs((KERNEL, MODPROBE))
    if not found and not (MODULES / release() / "modules.dep.bin").exists():
        remedy = f"sudo apt-get install --reinstall {KERNEL.package}"
        return lacking(f"{MODULES} has no index of modules", remedy)
    if not (paths.native() / PRELOADED).exists():
        found += lacking(f"{PRELOADED} is not built", "make setup")
    return found


def wire() -> str:
    """How a host's uplink is connected: by `tap`, which hands over many segments at once, or by `raw` sockets."""
    return "raw" if missing_tun("") else "tap"


def command(name: str, init: Path, lines: Sequence[int], console: int, uplink: str = "") -> list[str]:
    """The command of a host's kernel. init: what runs in it. lines: descriptors of its serial lines, the first being
    ttyS0. console: where it writes what it has to say. uplink: the link here that its own, vec0, is one with.
    """
    serial = [f"ssl{number}=fd:{line},fd:{line}" for number, line in enumerate(lines)]
    # depth: of its queues, in packets. Both ends have segmentation offloads, as two machines' links have.
    vector = [f"{VECTOR}:transport={wire()},ifname={uplink},depth=128,gro=1"] if uplink else []
    return [
        KERNEL.command,
        "rootfstype=hostfs",
        "ro",
        f"mem={MEMORY}",
        f"umid={name}",
        f"uml_dir={init.parent}/",
        "con=null",
        f"con0=null,fd:{console}",
        "loglevel=4",
        *serial,
        *vector,
        f"init={init}",
    ]


def init_script(directory: Path, argv: Sequence[str]) -> Path:
    """A script that runs that command as the first process of a host, with this process's environment."""
    (directory / "lib" / "modules").mkdir(parents=True)  # where modprobe(8) looks, with its option -d
    (directory / "lib" / "modules" / release()).symlink_to(MODULES / release())
    script = directory / "init"
    words = shlex.join(["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in os.environ.items()), *argv])
    script.write_text(f"#!/bin/sh\nexec {words}\n")
    script.chmod(0o700)
    modprobe = directory / "modprobe"
    modprobe.write_text(f'#!/bin/sh\nexec {MODPROBE.command} -d {directory} "$@"\n')
    modprobe.chmod(0o700)
    return script
