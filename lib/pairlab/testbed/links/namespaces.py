"""Making, entering and leaving network namespaces, by file descriptor. Nothing heavy is imported here."""

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pairlab.errors import TestbedError
from pairlab.testbed.requirements import allow_namespaces

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def new_namespaces(count: int) -> list[int]:
    """File descriptors of that many fresh network namespaces, without IPv6.

    A namespace lives as long as its descriptor. Leaves the calling thread in the namespace it was in.
    Raises TestbedError where this user may have no more.
    """
    with restored():
        descriptors: list[int] = []
        for made in range(count):
            try:
                _checked(_libc.unshare(CLONE_NEWNET), "a network namespace could not be made")
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                for each in descriptors:
                    os.close(each)
                raise TestbedError(
                    f"{made} of {count} network namespaces could be made: user.max_net_namespaces, of this user"
                    f" namespace or an outer one, allows this user no more. {allow_namespaces('net', count)}, end what"
                    " else has namespaces, or take fewer pairs"
                ) from None
            without_ipv6()
            descriptors.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        return descriptors


def without_ipv6() -> None:
    """Turns IPv6 off for new links of the present namespace: neighbour discovery would be extra traffic."""
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")


def turn_on_ipv6(link: str) -> None:
    """Turns IPv6 on for that link of the present namespace, without an address or a packet of the kernel's own."""
    settings = Path("/proc/sys/net/ipv6/conf", link)
    for name, value in (("addr_gen_mode", "1"), ("accept_ra", "0"), ("disable_ipv6", "0")):
        (settings / name).write_text(value)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Returns the calling thread to its present namespace afterwards."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(before, CLONE_NEWNET), "returning to the sandbox's namespace failed")
        os.close(before)


@contextlib.contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Runs the block in that namespace."""
    with restored():
        _checked(_libc.setns(namespace, CLONE_NEWNET), "a network namespace could not be entered")
        yield
