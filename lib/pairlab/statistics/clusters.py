"""The flows of each repetition, and the quantiles of draws of whole repetitions: what a bootstrap draws anew.

The flows of one repetition share its CPUs and queues, so they are not independent: what is drawn again in the
bootstrap is whole repetitions. A drawn set of repetitions has as its CDF the weighted sum of theirs, so each
repetition is sorted once and no row is ever copied, however many flows there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from pairlab.errors import AnalysisError
from pairlab.model import fct

#: Enough for a grid far finer than the interval, few enough that the search costs nothing.
_CANDIDATES = 1024


@dataclass(frozen=True)
class Clusters:
    """The values of each repetition, sorted, infinite where a flow failed; labels in their order."""

    labels: np.ndarray
    parts: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, values: Sequence[float], repetition: Sequence) -> "Clusters":
        """values: 1-D, one per flow, infinite where it failed. repetition: the label of each one's repetition."""
        values = np.asarray(values, dtype=float)
        if not (values > -np.inf).all():
            raise AnalysisError("a flow has no value: leave it out by name, or give one that failed as infinite")
        codes, labels = pd.factorize(np.asarray(repetition), sort=True)
        if len(codes) != len(values):
            raise AnalysisError(f"{len(values)} values have {len(codes)} labels of repetitions: give one for each")
        order = np.argsort(codes.astype(np.min_scalar_type(len(labels))), kind="stable")
        parts = np.split(values[order], np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1])
        return cls(np.asarray(labels), tuple(np.sort(part) for part in parts) if len(labels) else ())

    @cached_property
    def pooled(self) -> np.ndarray:
        """All values, sorted."""
        together = np.concatenate(self.parts) if self.parts else np.empty(0)
        together.sort(kind="stable")  # which merges what is sorted already
        return together

    @property
    def failed(self) -> int:
        return len(self.pooled) - int(np.searchsorted(self.pooled, np.inf))

    def quantile(self, q: float) -> float:
        """The median-unbiased quantile, as sets of other sizes are compared; NaN where it depends on failed flows.

        Source: Hyndman and Fan 1996, definition 8.
        """
        last = len(self.pooled) - 1
        below, part = divmod(min(max((last + 4 / 3) * q - 2 / 3, 0), last), 1)
        return fct.quantile(self.pooled[int(below) : int(below) + 2], part)

    def drawn(self, q: float, resamples: int, seed: int) -> np.ndarray:
        """The quantile of each of `resamples` draws of as many repetitions, with replacement.

        It is searched for among candidates: order statistics of the repetitions. None lies outside their own
        quantiles, as the CDF of a mixture lies between those that it mixes.
        """
        sizes = np.array([len(part) for part in self.parts])
        own = [part[max(math.ceil(q * len(part) - 1e-9), 1) - 1] for part in self.parts]
        spans = [np.searchsorted(part, [min(own), np.nextafter(max(own), np.inf)]) for part in self.parts]
        step = max(1, int(np.diff(spans).sum()) // _CANDIDATES)
        near = [part[begin:end:step] for part, (begin, end) in zip(self.parts, spans, strict=True)]
        candidates = np.unique(np.concatenate([*near, own]))
        below = np.stack([np.searchsorted(part, candidates, "right") for part in self.parts])
        weights = _weights(len(self.parts), resamples, seed)
        wanted = q * (weights @ sizes) - 1e-9 * sizes.sum()
        # The first candidate that enough lie below: a search by halves, in all draws at once.
        low, high = np.zeros(resamples, dtype=int), np.full(resamples, len(candidates) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            enough = np.einsum("br,rb->b", weights, below[:, middle]) >= wanted
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return candidates[low]


@lru_cache(maxsize=8)
def _weights(count: int, resamples: int, seed: int) -> np.ndarray:
    """How often each of `count` repetitions is in each draw of as many."""
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    drawn.flags.writeable = False
    return drawn
