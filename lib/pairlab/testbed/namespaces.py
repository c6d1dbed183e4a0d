"""Network namespaces by file descriptor: made, entered, left. Nothing heavy is imported here."""

import contextlib
import ctypes
import os
from collections.abc import Collection, Iterator
from pathlib import Path

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def new_namespaces(count: int) -> list[int]:
    """File descriptors of that many fresh network namespaces, without IPv6 and its chatter.

    A namespace lives as long as its descriptor. Leaves the calling thread in the namespace it was in.
    """
    with at_home_again():
        found = []
        for _ in range(count):
            _checked(_libc.unshare(CLONE_NEWNET), "a network namespace could not be made")
            without_ipv6()
            found.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        return found


def without_ipv6() -> None:
    """Links made here from now on have no IPv6: its discovery is traffic that nobody asked for."""
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")


@contextlib.contextmanager
def at_home_again() -> Iterator[None]:
    """The calling thread is back in its present namespace afterwards."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(home, CLONE_NEWNET), "the way back to the sandbox's namespace failed")
        os.close(home)


@contextlib.contextmanager
def inside(namespace: int) -> Iterator[None]:
    """The calling thread is in that namespace meanwhile."""
    with at_home_again():
        _checked(_libc.setns(namespace, CLONE_NEWNET), "a network namespace could not be entered")
        yield


def sent_by(links: Collection[str]) -> tuple[int, int]:
    """Bytes and packets that these links of the present namespace have sent, together (proc_pid_net(5))."""
    sent = sent_in(Path("/proc/thread-self/net/dev").read_text())
    found = [sent[link] for link in set(links) if link in sent]
    return sum(each for each, _ in found), sum(each for _, each in found)


def sent_in(table: str) -> dict[str, tuple[int, int]]:
    """Bytes and packets that each link has sent, by its name, as a namespace's net/dev tells (proc_pid_net(5))."""
    found = {}
    for line in table.splitlines()[2:]:
        name, _, counts = line.partition(":")
        sent_bytes, packets = counts.split()[8:10]
        found[name.strip()] = int(sent_bytes), int(packets)
    return found
