"""A bound that a change may not pass: what `pairlab compare --fail-if` decides, for continuous integration.

Each comparison is tested both ways at its bound: whether it is worse by more, and whether it is worse by less. With
several comparisons the p of the former are corrected (Holm 1979), so that a change that is none fails the gate in one
case of twenty at most, however many quantities are looked at. What is smaller than the host's noise fails nothing.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pairlab.analysis.cell_estimates import APART
from pairlab.analysis.comparison.result import ATTEMPTS, Comparison
from pairlab.errors import BadInput
from pairlab.model.summaries import SHORT_NAMES
from pairlab.statistics import power, tests
from pairlab.statistics.intervals import ALPHA, PERCENT

PASSES, FAILS, UNDECIDED = "passes", "fails", "undecided"
#: By verdicts of a comparison that no rule decides, why.
_UNDECIDABLE = {
    APART: "one side was measured after the other, so that drift of the machine may be all of it: measure both in turn,"
    " or the base on three occasions, hours apart",
    ATTEMPTS: "of one side's measurements a larger share did not count, and those that do may be the ones that went"
    " well: find out why, and measure both again",
}
_RULE = re.compile(r"\s*(\S+)\s+worse\s+(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Rule:
    """measures: the one of these that runs have; percent: by how much it may be worse."""

    text: str
    measures: tuple[str, ...]
    percent: float

    @classmethod
    def of(cls, text: str) -> "Rule":
        """Of such as "p99 worse 5 %". Raises BadInput."""
        found = _RULE.fullmatch(text)
        if not found:
            raise BadInput(f"--fail-if {text!r}: say a measure and by how much, such as 'p99 worse 5 %'")
        return cls(text, SHORT_NAMES.get(found[1], (found[1],)), float(found[2]))

    def bound(self, comparison: Comparison) -> float:
        """The change, in percent, beyond which that comparison is worse than allowed."""
        return self.percent if comparison.measured.less_is_better else -self.percent


@dataclass(frozen=True)
class Judged:
    """What a rule makes of a comparison: PASSES, FAILS or UNDECIDED, and why, in words.

    repetitions_needed: in all, of each side; None where that is not known, or none would do.
    """

    comparison: Comparison
    verdict: str
    why: str
    repetitions_needed: int | None = None


def judge(rule: Rule, comparisons: Sequence[Comparison]) -> list[Judged]:
    """The rule on each comparison of its measure; the p of being worse by more is corrected for their number."""
    beyond = tests.holm([_p(rule, each, "beyond") for each in comparisons])
    return [_one(rule, each, p) for each, p in zip(comparisons, beyond, strict=True)]


def _p(rule: Rule, comparison: Comparison, side: Literal["beyond", "within"]) -> float:
    """p of the test that shows that it is worse by more than the bound, or by less; two-sided, as the interval is."""
    rises, found = comparison.measured.less_is_better, comparison.found
    if found is None or not found.known or comparison.verdict in _UNDECIDABLE:
        return math.nan
    return min(1.0, 2 * found.p(rule.bound(comparison), "greater" if rises == (side == "beyond") else "less"))


def _one(rule: Rule, comparison: Comparison, p: float) -> Judged:
    within = _p(rule, comparison, "within")
    bounds = "no interval" if math.isnan(comparison.low) else f"[{comparison.low:+.1f}, {comparison.high:+.1f}]"
    interval = f"{comparison.change:+.1f} % {bounds}"
    if math.isnan(p):
        why = _UNDECIDABLE.get(comparison.verdict, "too few repetitions for an interval")
        return Judged(comparison, UNDECIDED, f"{interval}: {why}", comparison.repetitions_needed)
    noisy = comparison.floor > abs(comparison.change)
    if p <= ALPHA and not noisy:
        return Judged(comparison, FAILS, f"{interval}: worse by more than {rule.percent:g} %, p = {p:.2g} (Holm)")
    if within <= ALPHA:
        return Judged(comparison, PASSES, f"{interval}: not worse by {rule.percent:g} %, p = {within:.2g}")
    why = (
        f"below the noise of this host, {comparison.floor:.1f} %" if noisy else f"{rule.percent:g} % is in the interval"
    )
    found = comparison.found
    assert found  # which has a p
    if noisy:  # which no number of repetitions takes away
        return Judged(comparison, UNDECIDED, f"{interval}: {why}")
    needed = power.repetitions_needed(found.centre - float(PERCENT.to_scale(rule.bound(comparison))), found.spread)
    enough = needed and needed <= min(comparison.n)  # so what widens the interval is others' load, which stays
    return Judged(comparison, UNDECIDED, f"{interval}: {why}", None if enough else needed)
