"""The flows of each repetition, and the quantiles of bootstrap draws of whole repetitions.

The flows of one repetition share CPUs and queues, so they are not independent: the bootstrap resamples whole
repetitions. The CDF of a draw is the weighted sum of its repetitions' CDFs, so each repetition is sorted once and no
row is ever copied, however many flows there are.
"""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from pairlab.errors import AnalysisError
from pairlab.model import fct
from pairlab.statistics.changes import in_common

#: Enough for a grid far finer than the interval, few enough that the search costs nothing.
_CANDIDATES = 1024


@dataclass(frozen=True)
class Clusters:
    """The sorted values of each repetition, infinite for a failed flow; labels in the same order. lost: the share of
    their time that others took (others.lost), NaN where that is not known.
    """

    labels: np.ndarray
    parts: tuple[np.ndarray, ...]
    lost: float = math.nan

    @classmethod
    def of(cls, values: Sequence[float], repetition: Sequence) -> "Clusters":
        """values: 1-D, one per flow, infinite for a failed one. repetition: the label of each flow's repetition."""
        values = np.asarray(values, dtype=float)
        if not (values > -np.inf).all():
            raise AnalysisError("a flow has no value: leave it out by name, or give one that failed as infinite")
        codes, labels = pd.factorize(np.asarray(repetition), sort=True)
        if len(codes) != len(values):
            raise AnalysisError(f"{len(values)} values have {len(codes)} labels of repetitions: give one for each")
        order = np.argsort(codes.astype(np.min_scalar_type(len(labels))), kind="stable")
        parts = np.split(values[order], np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1])
        return cls(np.asarray(labels), tuple(np.sort(part) for part in parts) if len(labels) else ())

    def only(self, labels: Collection[Hashable]) -> "Clusters":
        """The repetitions with these labels, in the same order."""
        at = [place for place, label in enumerate(self.labels) if label in labels]
        return Clusters(self.labels[at], tuple(self.parts[place] for place in at), self.lost)

    @cached_property
    def pooled(self) -> np.ndarray:
        """All values, sorted."""
        together = np.concatenate(self.parts) if self.parts else np.empty(0)
        together.sort(kind="stable")  # which merges sorted parts
        return together

    @property
    def failed(self) -> int:
        return len(self.pooled) - int(np.searchsorted(self.pooled, np.inf))

    def quantile(self, q: float) -> float:
        """The median-unbiased quantile, comparable between sets of different sizes; NaN if it depends on failed flows.

        Source: Hyndman and Fan 1996, definition 8.
        """
        last = len(self.pooled) - 1
        below, part = divmod(min(max((last + 4 / 3) * q - 2 / 3, 0), last), 1)
        return fct.quantile(self.pooled[int(below) : int(below) + 2], part)

    def drawn(self, q: float, resamples: int, seed: int = 0) -> np.ndarray:
        """The quantile of each of `resamples` draws of as many repetitions, with replacement.

        Candidates are order statistics of the repetitions. None lies outside the repetitions' own quantiles, as the CDF
        of a mixture lies between those of its parts.
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


def together(sides: Sequence[Clusters]) -> list[Clusters]:
    """The sides reduced to their common blocks (changes.in_common), in one order; without such blocks, as they are."""
    common = in_common(*(dict.fromkeys(side.labels) for side in sides))
    return [*sides] if common is None else [side.only(common) for side in sides]


@lru_cache(maxsize=8)
def _weights(count: int, resamples: int, seed: int) -> np.ndarray:
    """The count of each of `count` repetitions in each draw of as many."""
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    drawn.flags.writeable = False
    return drawn
