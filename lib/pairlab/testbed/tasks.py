"""What each pair is to send, drawn from the seed: which clients send elephants, and which send UDP.

A pure function of the spec's seed and repetition, so that every driver, backend and workload measures the same draw:
comparisons between them are paired. More pairs of the same seed keep the order in which pairs are chosen.
"""

import random
from dataclasses import dataclass

from pairlab.spec import Spec


@dataclass(frozen=True)
class Task:
    """What one pair is to send, on each of its flows.

    protocol: `tcp` or `udp`. role: `elephant` or `mouse`, empty where the spec has no elephants. flow_bytes: payload
    of each flow, which then ends; 0: it ends by time.
    """

    protocol: str = "tcp"
    role: str = ""
    flow_bytes: int = 0


def draw(spec: Spec) -> tuple[Task, ...]:
    """The task of every pair, by its number. Of n pairs, round(share * n) are elephants, and as many by theirs UDP."""
    elephants = _chosen(spec, "elephants", spec.elephant_share)
    udp = _chosen(spec, "udp", spec.udp_share)
    return tuple(_task(spec, pair in elephants, pair in udp) for pair in range(spec.pairs))


def _task(spec: Spec, elephant: bool, udp: bool) -> Task:
    return Task(
        protocol="udp" if udp else "tcp",
        role=("elephant" if elephant else "mouse") if spec.elephant_share else "",
        flow_bytes=spec.elephant_bytes if elephant else spec.flow_bytes,
    )


def _chosen(spec: Spec, what: str, share: float) -> set[int]:
    # Of Python's generator, only the sequence of random() is the same for ever: hence no sample() nor shuffle().
    generator = random.Random(f"{what} {spec.seed} {spec.repetition}")
    order = sorted((generator.random(), pair) for pair in range(spec.pairs))
    return {pair for _, pair in order[: round(share * spec.pairs)]}
