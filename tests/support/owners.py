"""Names of owners (pairlab.testbed.cleanup.ownership) of processes other than this one."""

import subprocess
from pathlib import Path

import psutil

from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.ownership import Owner


def changed(**fields) -> str:
    """This process's name, with other values of these fields."""
    return str(Owner.parse(ownership.me())._replace(**fields))


def owner_of(pid: int) -> str:
    """The name of another process in our namespaces."""
    return changed(pid=pid, start_ticks=ownership.read_stat(Path(f"/proc/{pid}"))[2])


def ended() -> str:
    """The name of a process that has ended."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        return owner_of(process.pid)


def guards_of(pid: int) -> list[int]:
    """The watchdogs that clean up after that process."""
    shells = [each for each in psutil.Process(pid).children() if each.name() == "sh"]
    assert shells
    return [each.pid for each in shells]
