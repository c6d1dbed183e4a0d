"""Messages between two ranks of MPI, timed as osu_latency and osu_bw do it, but for a given time.

`python point_to_point.py PATTERN MESSAGE_BYTES WARMUP_S DURATION_S`, as one rank of two (join.py): rank 0 sends, and
prints how often, and how long it took. It needs mpi4py and MPICH.
"""

import json
import sys
import time
from collections import Counter
from typing import Any

from pairlab_mpi.rounds import leave, middle_ns

#: Tags of messages: one that is sent for its time, and the last.
MESSAGE, LAST = 1, 2


class PingPong:
    """A message and an answer of its size, one after the other."""

    messages = 1

    def __init__(self, world: Any, message_bytes: int):
        self._world, self._status = world, new_status()
        self._sent, self._received = bytearray(message_bytes), bytearray(message_bytes)

    def send(self, tag: int) -> None:
        self._world.Send(self._sent, 1, tag)
        self._world.Recv(self._received, 1)

    def answer(self) -> int:
        """Returns the tag of what it answered."""
        self._world.Recv(self._received, 0, status=self._status)
        self._world.Send(self._sent, 0)
        return self._status.Get_tag()


class Windows:
    """Messages that are under way at once, with one answer to all of them."""

    messages = 64

    def __init__(self, world: Any, message_bytes: int):
        self._world, self._statuses = world, [new_status() for _ in range(self.messages)]
        self._message, self._answer = bytearray(message_bytes), bytearray(4)

    def send(self, tag: int) -> None:
        wait_for([self._world.Isend(self._message, 1, tag) for _ in range(self.messages)])
        self._world.Recv(self._answer, 1)

    def answer(self) -> int:
        """Returns the tag of what it answered."""
        wait_for([self._world.Irecv(self._message, 0) for _ in range(self.messages)], self._statuses)
        self._world.Send(self._answer, 0)
        return self._statuses[0].Get_tag()


PATTERNS: dict[str, type[PingPong] | type[Windows]] = {"ping-pong": PingPong, "windows": Windows}


def new_status() -> Any:
    from mpi4py import MPI

    return MPI.Status()


def wait_for(requests: list, statuses: list | None = None) -> None:
    from mpi4py import MPI

    MPI.Request.Waitall(requests, statuses)


def run(pattern: str, message_bytes: int, warmup_s: float, duration_s: float) -> list[dict]:
    """Sends, or answers, until the time is over. Returns the lines to print: none at the rank that answers."""
    from mpi4py import MPI

    world, now_ns = MPI.COMM_WORLD, time.monotonic_ns
    exchanged = PATTERNS[pattern](world, message_bytes)
    world.Barrier()
    if world.rank:
        while exchanged.answer() != LAST:
            pass
        return []
    connected_ns = counted_ns = end_ns = now_ns()
    begin_ns = connected_ns + int(warmup_s * 1e9)
    until_ns = begin_ns + int(duration_s * 1e9)
    times_ns, tag = [], MESSAGE
    while tag != LAST:
        asked_ns = now_ns()
        tag = LAST if asked_ns >= until_ns else MESSAGE
        exchanged.send(tag)
        end_ns = now_ns()
        if asked_ns < begin_ns:
            counted_ns = end_ns
        else:
            times_ns.append(end_ns - asked_ns)
    total = {
        "event": "sender",
        "message_bytes": message_bytes,
        "count": len(times_ns) * exchanged.messages,
        "mean_s": sum(times_ns) / len(times_ns) / 1e9,
        "connected_ns": connected_ns,
        "duration_s": (end_ns - counted_ns) / 1e9,
        "lasted_s": (end_ns - connected_ns) / 1e9,
    }
    return [{"event": "latencies", "buckets": sorted(Counter(map(middle_ns, times_ns)).items())}, total]


if __name__ == "__main__":
    for line in run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])):
        print(json.dumps(line), flush=True)
    leave()
