"""Designs: the measured subset of a grid's combinations."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pairlab.errors import BadSpec

#: A search for the generators of more factors would take seconds.
MOST_FACTORS = 9
_ROMAN = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")

Axes = Mapping[str, Sequence[Any]]


def sampled(axes: Axes, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` different combinations. Source: McKay, Beckman and Conover 1979, Latin hypercube sampling.

    Raises BadSpec unless there are more combinations.
    """
    from scipy.stats import qmc

    if count >= math.prod(map(len, axes.values())):
        raise BadSpec(f"sample: {count} is not fewer than the combinations that there are: leave it out")
    varied = {name: axis for name, axis in axes.items() if len(axis) > 1}
    sampler = qmc.LatinHypercube(len(varied), seed=seed)
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < count:  # on short axes, two points can be one combination: then further points are drawn
        for point in sampler.random(count):
            places = tuple(int(share * len(axis)) for share, axis in zip(point, varied.values(), strict=True))
            if places not in drawn and len(drawn) < count:
                drawn.add(places)
                chosen = {name: axis[place] for (name, axis), place in zip(varied.items(), places, strict=True)}
                yield {name: chosen.get(name, axis[0]) for name, axis in axes.items()}


@dataclass(frozen=True)
class Fraction:
    """A regular fraction of a two-level factorial design, 2^(k-p) of its 2^k combinations.

    The first k-p factors take all combinations. Each other factor is at its second level where an even number of the
    factors of its generator are at the first, so that its effect is aliased with their interaction. The generators are
    those of minimum aberration: of the highest resolution, and then with the fewest words of that length.
    An effect, and a word of the defining relation, is a set of factors, bit i for factor i.

    factors: names. generators: for each of the last p factors, the effect that it is aliased with.
    Sources: Box and Hunter 1961, "The 2^(k-p) Fractional Factorial Designs"; Fries and Hunter 1980, "Minimum Aberration
    2^(k-p) Designs".
    """

    factors: tuple[str, ...]
    generators: tuple[int, ...]

    @property
    def cells(self) -> int:
        return 2 ** (len(self.factors) - len(self.generators))

    @functools.cached_property
    def _words(self) -> list[int]:
        return _words(self.generators, len(self.factors) - len(self.generators))

    @property
    def resolution(self) -> int:
        """An effect of i factors is aliased with none of fewer than resolution - i factors."""
        return min(word.bit_count() for word in self._words)

    def combinations(self, axes: Axes) -> Iterator[dict[str, Any]]:
        """The design's combinations of the axes; an axis is a factor, or has one value."""
        base = len(self.factors) - len(self.generators)
        for levels in itertools.product((0, 1), repeat=base):
            first = sum(1 << place for place, level in enumerate(levels) if not level)
            further = ((1 + (generator & first).bit_count()) % 2 for generator in self.generators)
            level_of = dict(zip(self.factors, (*levels, *further), strict=True))
            yield {name: axis[level_of.get(name, 0)] for name, axis in axes.items()}

    def aliases(self) -> list[list[str]]:
        """Groups of effects of one or two factors that are aliased with each other; single effects are left out."""
        factors = range(len(self.factors))
        effects = [*itertools.combinations(factors, 1), *itertools.combinations(factors, 2)]
        groups: dict[int, list[str]] = {}
        for effect in effects:
            own = sum(1 << place for place in effect)
            groups.setdefault(min(own, *(own ^ word for word in self._words)), []).append(self._named(own))
        return [group for group in groups.values() if len(group) > 1]

    def describe(self) -> str:
        """The design in words, with the generators."""
        base = len(self.factors) - len(self.generators)
        generated = zip(self.factors[base:], self.generators, strict=True)
        return (
            f"2^({len(self.factors)}-{len(self.generators)}) design of resolution {_ROMAN[self.resolution]},"
            f" {self.cells} of {2 ** len(self.factors)} combinations;"
            f" generators: {', '.join(f'{name} = {self._named(effect)}' for name, effect in generated)}"
        )

    def _named(self, effect: int) -> str:
        return " × ".join(name for place, name in enumerate(self.factors) if effect >> place & 1)


def fraction(axes: Axes, share: str) -> Fraction:
    """The design that measures this share ("1/4") of the combinations of the axes.

    Raises BadSpec where a factor has more than two levels, and where there are too many factors or too few cells.
    """
    factors = tuple(name for name, axis in axes.items() if len(axis) > 1)
    if longer := [f"{name} has {len(axes[name])}" for name in factors if len(axes[name]) > 2]:
        raise BadSpec(f"fraction: each axis must have two values, and {', '.join(longer)}: shorten it, or use `sample`")
    if len(factors) > MOST_FACTORS:
        raise BadSpec(
            f"fraction: at most {MOST_FACTORS} axes may have two values, not {len(factors)}: give one value to some, or"
            " use `sample`"
        )
    left_out = int(share.removeprefix("1/")).bit_length() - 1
    base = len(factors) - left_out
    if base < 2 or len(factors) >= 2**base:
        raise BadSpec(
            f"fraction: {share} of the combinations of {len(factors)} axes with two values are too few to tell their"
            " effects from each other: take a larger one, or leave it out"
        )
    return Fraction(factors, _generators(base, left_out))


@functools.cache
def _generators(base: int, count: int) -> tuple[int, ...]:
    """Generators of `count` further factors beside `base` factors, by minimum aberration."""
    candidates = sorted((each for each in range(2**base) if each.bit_count() > 1), key=int.bit_count, reverse=True)

    def aberration(generators: tuple[int, ...]) -> list[int]:
        lengths = Counter(word.bit_count() for word in _words(generators, base))
        return [lengths[length] for length in range(1, base + count + 1)]

    return min(itertools.combinations(candidates, count), key=aberration)


def _words(generators: Sequence[int], base: int) -> list[int]:
    """The words of the defining relation: the products of one or more generators with their factors."""
    words = [0]
    for place, generator in enumerate(generators, base):
        words += [word ^ generator ^ 1 << place for word in words]
    return words[1:]
