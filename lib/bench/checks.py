"""`python -m bench.checks [n]`: how often the checks of steadiness find a disturbance, by its length and depth.

On simulated series, as links' counters tell them in a run of 2 s: of one speed, and of two between which the scheduler
moves processes, as on a machine with two CPUs. A disturbance takes a share of the throughput away for a time, from a
random moment on. Prints a Markdown table: the share of n runs that are invalid. Without a disturbance, these are false
alarms.
"""

import sys

import numpy as np

from pairlab.measurement import verdict
from pairlab.measurement.checks import silence, steady_state
from pairlab.model.spec import Spec

STEPS, STEP_S = 20, 0.1
SPEC = Spec(duration_s=STEPS * STEP_S)
LENGTHS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.55, 0.7, 0.9)
DEPTHS = (1.0, 0.5, 0.2)
#: The noise of a step; the lower speed, and how likely a step changes to the other one.
NOISE, LOWER, CHANGES = 0.03, 0.6, 0.1
BYTES = 1e8


def series(random: np.random.Generator, speeds: int, length: float, depth: float) -> np.ndarray:
    """The bytes of each step, disturbed for that share of the time by that share of the throughput."""
    factors = np.exp(random.normal(0, NOISE, STEPS))
    if speeds == 2:
        states = (np.cumsum(random.random(STEPS) < CHANGES) + random.integers(2)) % 2
        factors *= np.where(states, 1.0, LOWER)
    begin = random.uniform(0, 1 - length) * STEPS
    end = begin + length * STEPS
    edges = np.arange(STEPS + 1)
    taken = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0, 1)
    return BYTES * factors * (1 - depth * taken)


def found(values: np.ndarray) -> bool:
    """Whether a run with such a series is invalid."""
    settling = steady_state.settle(values)
    rest = values[settling.warmup :]
    checks = {
        "settled": settling.settled,
        "outliers": steady_state.outliers(rest),
        "shift": steady_state.shift(rest),
        "silent": silence.share_of_steps(list(rest)),
    }
    return bool(verdict.unmet_reasons(SPEC, checks))


def main(n: int = 1000) -> None:
    print(
        "| length | "
        + " | ".join(
            f"{speeds} speed{'s' * (speeds > 1)}, −{100 * depth:.0f} %" for speeds in (1, 2) for depth in DEPTHS
        )
        + " |"
    )
    print("|---" * (1 + 2 * len(DEPTHS)) + "|")
    for length in LENGTHS:
        cells = []
        for speeds in (1, 2):
            for depth in DEPTHS:
                random = np.random.default_rng(1)
                cells.append(np.mean([found(series(random, speeds, length, depth)) for _ in range(n)]))
        print(f"| {100 * length:.0f} % | " + " | ".join(f"{100 * cell:.0f} %" for cell in cells) + " |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
