"""Does looking on change what is looked at? The same cell watched live and not, in turn, in one store."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pairlab import Spec
from pairlab.measurement import measure
from pairlab.statistics.intervals import Estimate
from pairlab.testbed.host.live_sampler import Sampler
from tests.bench.telemetry import counted, in_turn, overall


class Cost(NamedTuple):
    """What watching that many pairs cost. ratios: total throughput watched over not, in each turn; mean: theirs.

    core_shares: CPU time that sampling took, of one core, in each turn.
    """

    pairs: int
    ratios: list[float]
    mean: Estimate
    core_shares: list[float]


class _Timed(Sampler):
    """A sampler that knows what CPU time it has taken."""

    cpu_s = 0.0

    def look(self, elapsed_s: float, last: bool = False) -> None:
        begun_s = time.thread_time()
        super().look(elapsed_s, last)
        _Timed.cpu_s += time.thread_time() - begun_s


def costs(turns: int, root: Path, sizes: Iterable[int], seconds: float) -> Iterator[Cost]:
    """Of each number of pairs in sizes, measured for so many seconds.

    What is done with the samples is not counted: here nothing is.
    """
    before, measure.Sampler = measure.Sampler, _Timed
    try:
        for pairs in sizes:
            yield _cost(pairs, turns, root, seconds)
    finally:
        measure.Sampler = before


def _cost(pairs: int, turns: int, root: Path, seconds: float) -> Cost:
    spec = Spec(pairs=pairs, duration_s=seconds, workload="flowgen", max_skew_s=5.0, max_foreign_cpu=1.0)
    core_shares = []

    def throughput_bps(turn: int, watched: bool) -> float:
        _Timed.cpu_s, samples = 0.0, []
        run = counted(spec.replace(repetition=turn), root, watch=samples.append if watched else None)
        if watched:
            core_shares.append(_Timed.cpu_s / samples[-1].elapsed_s)
        return run.total_throughput_bps

    ratios = in_turn(turns, throughput_bps)
    return Cost(pairs, ratios, overall(ratios), core_shares)
