"""The owner of a testbed, and whether it still runs: to find what a crash left behind."""

import os

import psutil

#: Names the owner in the environment of all that pairlab starts; children inherit it.
MARK = "PAIRLAB_OWNER"


def me() -> str:
    """A unique name of this process: its id, and when it began, as ids are used again."""
    return f"{os.getpid()}@{psutil.Process().create_time():.0f}"


def alive(owner: str) -> bool:
    """Whether the process of that name still runs. What cannot be read counts as alive."""
    try:
        pid, begun = owner.split("@")
        return abs(psutil.Process(int(pid)).create_time() - float(begun)) < 2
    except psutil.NoSuchProcess:
        return False
    except (ValueError, psutil.Error):
        return True
