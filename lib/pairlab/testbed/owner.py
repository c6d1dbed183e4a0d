"""Whose testbed something is, and whether that process still lives: for what an accident may have left behind."""

import os

import psutil

#: In the environment of what pairlab starts, and of what that starts, however its parent ended: whose it is.
MARK = "PAIRLAB_OWNER"


def me() -> str:
    """Names this process for all time: its id, and when it began, as ids come round again."""
    return f"{os.getpid()}@{psutil.Process().create_time():.0f}"


def alive(owner: str) -> bool:
    """Whether the process that called itself that still runs. What cannot be read counts as alive."""
    try:
        pid, begun = owner.split("@")
        return abs(psutil.Process(int(pid)).create_time() - float(begun)) < 2
    except psutil.NoSuchProcess:
        return False
    except (ValueError, psutil.Error):
        return True
