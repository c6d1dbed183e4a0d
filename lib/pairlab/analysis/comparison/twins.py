"""Twins: what was measured twice in a block. How far these lie apart is what no difference may rest on.

They are cells of a sweep with `twin: true`, and in namespaces on one host the drivers `host` and `process`: both are
the host's own loopback.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pairlab.analysis.claims.effect import Contrast
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.comparison.noise_floor import Calibration, NoiseFloor
from pairlab.model import blocks
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: The drivers that are one network where namespaces share a host.
_LOOPBACK = ("host", "process")


class Conditions(NamedTuple):
    """What noise depends on, beside the machine and its kernel: that of others says nothing of these."""

    experiment: str
    backend: str
    workload: str
    pairs: int

    @classmethod
    def of(cls, spec: Spec) -> "Conditions":
        return cls(*(getattr(spec, name) for name in cls._fields))


class Twins:
    """The twins among runs, by their conditions: two runs each, of one block, in one environment."""

    def __init__(self, runs: Iterable[Run]):
        alike: dict[tuple[Spec, str, Environment], list[Run]] = {}
        for run in runs:
            if run.status == "ok" and run.facts.get("block"):
                alike.setdefault((_same(run.spec), blocks.label_of(run), run.environment), []).append(run)
        self._pairs: dict[Conditions, list[tuple[Run, Run]]] = {}
        for (spec, *_), same in alike.items():
            if len(same) > 1:
                self._pairs.setdefault(Conditions.of(spec), []).extend(combinations(same, 2))

    @property
    def backends(self) -> set[str]:
        return {conditions.backend for conditions in self._pairs}

    def floor(
        self,
        under: Collection[Conditions],
        value_of: Callable[[Run], float],
        repetitions: int,
        gain: float = math.sqrt(2),
        places: Collection[Environment] = (),
    ) -> NoiseFloor | None:
        """The smallest effect that so many blocks distinguish from what twins differ by, under these conditions.

        value_of: the quantity of a run. gain: as of an effect's Contrast, by default that of the ratio of two cells.
        places: the hosts and kernels whose twins tell (Environment.place); none: all. None where twins were measured in
        fewer than two blocks under any of the conditions, or repetitions are fewer.
        """
        variances = []
        for conditions in under:
            pairs = self._pairs.get(conditions, ())
            here = [both for both in pairs if not places or both[0].environment.place() in places]
            values = [[value_of(run) for run in both] for both in here]
            known = np.array([both for both in values if np.greater(both, 0).all()], dtype=float).reshape(-1, 2)
            if len(known) < 2:
                return None
            # Of equals the mean difference is known: it is none. A difference has the noise of two.
            variances.append(float(np.mean(np.diff(np.log(known), axis=1) ** 2)) / 2)
        spread = gain * math.sqrt(np.mean(variances)) if variances else None
        return NoiseFloor.of(spread, repetitions, by_twins=True)


class Noise:
    """How far equals differ where runs were measured: by their twins, else by the records of their hosts, by backend.

    calibrations: these records, by default those beside the runs (noise_floor.of_runs).
    """

    def __init__(self, runs: Runs, calibrations: Mapping[str, Calibration] | None = None):
        self._twins = Twins(runs)
        self.calibrations = noise_floor.of_runs(runs) if calibrations is None else calibrations

    def floor(
        self,
        contrast: Contrast,
        under: Collection[tuple[Conditions, Mapping[str, Any] | None]],
        repetitions: int,
        value_of: Callable[[Run], float],
        places: Collection[Environment] = (),
    ) -> NoiseFloor | None:
        """What no verdict on that effect may rest on, by records the highest; None where nothing is known.

        under: the conditions of its cells, each with what is noise_floor.special. value_of, places: as of Twins.floor.
        """
        recorded = (
            self.calibrations[of.backend].floor(contrast, of.workload, repetitions, parameters)
            for of, parameters in under
            if of.backend in self.calibrations
        )
        by_twins = self._twins.floor({of for of, _ in under}, value_of, repetitions, contrast.gain, places)
        return by_twins or max(filter(None, recorded), key=lambda floor: floor.effect, default=None)

    def between(
        self,
        measure: str,
        specs: Sequence[Spec],
        repetitions: int,
        value_of: Callable[[Run], float],
        places: Collection[Environment] = (),
    ) -> NoiseFloor | None:
        """The same of a difference between two cells like these."""
        contrast = Contrast(measure, math.sqrt(2), tuple(spec.pairs for spec in specs))
        under = [(Conditions.of(spec), noise_floor.special(spec)) for spec in specs]
        return self.floor(contrast, under, repetitions, value_of, places)


def _same(spec: Spec) -> Spec:
    """The spec that twins have in common."""
    loopback = spec.backend == "netns" and spec.hosts == 1 and spec.driver in _LOOPBACK
    return spec.replace(twin=False, **({"driver": _LOOPBACK[0]} if loopback else {}))
