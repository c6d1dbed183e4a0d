"""MPI_Alltoall in rounds, timed as osu_alltoall does it: `python rounds.py MESSAGE_BYTES WARMUP_S DURATION_S`.

Prints what flowgen all-to-all prints of a rank: a histogram of how long rounds took, and the total. Rank 0 tells the
others from when on rounds count, and which was the last; that takes the place of the barrier between rounds.
It runs inside endpoints, as one rank of several (join.py), and needs mpi4py and MPICH.
"""

import json
import os
import sys
import time
from collections import Counter

COUNT_FROM_NOW, STOP = 1, 2

#: Of a bucket's place within its power of two, as in flowgen's histogram.h.
BITS = 10


def middle_ns(value_ns: int) -> int:
    """The middle of the histogram's bucket that a time is in: within 0.05 % of it."""
    shift = max(value_ns.bit_length() - BITS - 1, 0)
    return ((value_ns >> shift) << shift) + (1 << shift >> 1)


def run(message_bytes: int, warmup_s: float, duration_s: float) -> dict:
    """Makes the rounds, and returns their number and times."""
    from mpi4py import MPI

    world, now_ns = MPI.COMM_WORLD, time.monotonic_ns
    ranks = world.size
    sent = [bytearray(b"a") * (message_bytes * ranks), message_bytes, MPI.BYTE]
    received = [bytearray(message_bytes * ranks), message_bytes, MPI.BYTE]
    mine, told = bytearray(1), bytearray(1)
    world.Barrier()
    connected_ns = counted_ns = end_ns = now_ns()
    count_ns = connected_ns + int(warmup_s * 1e9)
    until_ns = count_ns + int(duration_s * 1e9)
    counting, times_ns, last = not warmup_s, [], 0
    while not last & STOP:
        begin_ns = now_ns()
        world.Alltoall(sent, received)
        end_ns = now_ns()
        if counting:
            times_ns.append(end_ns - begin_ns)
        mine[0] = 0
        if world.rank == 0 and end_ns >= count_ns and not counting:
            mine[0] = COUNT_FROM_NOW
        elif world.rank == 0 and end_ns >= until_ns:
            mine[0] = STOP
        world.Allreduce([mine, MPI.BYTE], [told, MPI.BYTE], MPI.BOR)
        last = told[0]
        if last & COUNT_FROM_NOW:
            counting, counted_ns = True, now_ns()
    return {
        "rank": world.rank,
        "ranks": ranks,
        "message_bytes": message_bytes,
        "connected_ns": connected_ns,
        "lasted_s": (end_ns - connected_ns) / 1e9,
        "duration_s": (end_ns - counted_ns) / 1e9,
        "times_ns": times_ns,
    }


def leave() -> None:
    """Ends this process when all ranks are about to: in MPI_Finalize, MPICH 5.0.2 has crashed."""
    from mpi4py import MPI

    MPI.COMM_WORLD.Barrier()
    os._exit(0)


def report(found: dict) -> list[dict]:
    """The two lines of a rank."""
    times_ns = found.pop("times_ns")
    buckets = sorted(Counter(map(middle_ns, times_ns)).items())
    mean_s = sum(times_ns) / len(times_ns) / 1e9 if times_ns else None
    return [
        {"event": "latencies", "flow": found["rank"], "buckets": buckets},
        {"event": "rank", **found, "rounds": len(times_ns), "mean_s": mean_s},
    ]


if __name__ == "__main__":
    for line in report(run(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))):
        print(json.dumps(line), flush=True)
    leave()
