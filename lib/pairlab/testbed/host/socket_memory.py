"""Memory for socket buffers, used once before the traffic needs it.

A hypervisor gives a virtual machine its memory when it is first used, and with free page reporting (virtio's balloon)
takes it back a few seconds after it is freed. So each page that the kernel takes for a packet may cost a fault in the
hypervisor, which counts as the kernel's CPU time: here 7 µs beside 0.7 µs. That is long for flows of some ms.
"""

import contextlib
import socket
import time

import psutil

#: A socket's option by which root exceeds wmem_max (socket(7)), which Python does not name.
SO_SNDBUFFORCE = 32
#: What one pair's buffers hold at most, by tcp(7)'s tcp_rmem and tcp_wmem: 6 and 4 MiB.
OF_A_PAIR_BYTES = 10 << 20
MOST_BYTES = 256 << 20
_PART_BYTES = 16 << 20
_MOST_SOCKETS = 400


def use_once(pairs: int) -> dict[str, float]:
    """Fills socket buffers as large as these pairs may need, and frees them; not more than an eighth of free memory.

    used_bytes: how much that was, less where sockets may not be so large. s_per_byte: what it took; s_per_byte_again:
    what a part of it took then. A first use that takes several times as long is the hypervisor's.
    """
    size_bytes = min(pairs * OF_A_PAIR_BYTES, MOST_BYTES, psutil.virtual_memory().available // 8)
    used_bytes, took_s = _fill(size_bytes)
    again_bytes, again_s = _fill(min(size_bytes, _PART_BYTES))
    return {
        "used_bytes": used_bytes,
        "s_per_byte": took_s / max(used_bytes, 1),
        "s_per_byte_again": again_s / max(again_bytes, 1),
    }


def _fill(size_bytes: int) -> tuple[int, float]:
    """The bytes that came into buffers, and the seconds that it took."""
    part, filled = bytes(1 << 20), 0
    begun = time.perf_counter()
    with contextlib.ExitStack() as stack:
        for _ in range(_MOST_SOCKETS):
            try:
                sender, receiver = socket.socketpair()
            except OSError:  # as many files are open as may be
                break
            stack.enter_context(receiver)
            stack.enter_context(sender).setblocking(False)
            try:
                sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 2 * _PART_BYTES)
            except OSError:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _PART_BYTES)  # at most wmem_max
            with contextlib.suppress(BlockingIOError):
                while filled < size_bytes:
                    filled += sender.send(part)
            if filled >= size_bytes:
                break
        took_s = time.perf_counter() - begun
    return filled, took_s
