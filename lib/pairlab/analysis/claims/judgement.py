"""The verdict on a claim by its effect, with the p of the deciding test and the repetitions that would decide it.

By the interval a claim holds, is contradicted or undecided. It holds only in direction if the paper's size differs from
the measured one, or if the runs cannot be compared with it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pairlab.analysis.claims import ledger
from pairlab.analysis.claims.effect import AllOf, Found
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.comparison.noise_floor import NoiseFloor
from pairlab.statistics.intervals import LEAST

FloorOf = Callable[[Found], NoiseFloor | None]

#: A published size against the interval of one effect; of several effects, also MIXED.
AGREES, SMALLER, LARGER, NOT_COMPARED, MIXED = "agrees", "smaller", "larger", "not compared", "mixed"
#: Why a claim has no size to compare: its paper states none, or it is of equality.
NONE_PUBLISHED, EQUALITY = "none published", "equality"


def judge(
    claim: Claim, effect: Found | AllOf, confidence: float = 0.95, floor_of: FloorOf = lambda effect: None
) -> dict[str, Any]:
    """Verdict, estimate, size, p, and the repetitions that an undecided claim needs: columns of verdicts.evaluate.

    p is the least 1 - confidence at which the interval decides so: at most the given one if the claim holds or is
    contradicted. floor_of: the noise floor of this host for an effect, if known. A smaller difference decides nothing,
    nor does the lack of one if the margin is smaller.
    """
    if isinstance(effect, AllOf):
        row = _of_each(claim, effect, confidence, floor_of)
    else:
        row = _of_one(claim, effect, confidence, floor_of(effect))
    other_size = row["size"] not in (AGREES, NONE_PUBLISHED, EQUALITY)
    return row | ({"verdict": "holds in direction"} if row["verdict"] == "holds" and other_size else {})


def _of_one(claim: Claim, effect: Found, confidence: float, floor: NoiseFloor | None) -> dict[str, Any]:
    value, low, high, n = effect.found.estimate(confidence)
    verdict = by_interval(claim, low, high)
    p = _p(claim, effect, verdict)
    needed = _needed(claim, effect, 1 - confidence) if verdict == "undecided" else None
    notes, reason = list(effect.notes), _reason(claim, verdict, low, high)
    if floor:
        note = f"noise floor {floor.percent:.1f} % at n = {n}"
        rests_on = _rests_on_effect(claim, effect, low, high)
        if verdict != "undecided" and rests_on < floor.effect:
            verdict, needed = "undecided", floor.repetitions_needed(rests_on)
            note = f"below the noise floor of this host, {floor.percent:.1f} % at n = {n}"
            reason = f"below the noise floor of {floor.percent:.0f} %"
        notes.append(note)
    return {
        "value": value,
        "low": low,
        "high": high,
        "repetitions": n,
        "cells": effect.cells,
        "verdict": verdict,
        "repetitions_needed": needed,
        "missing": f"more repetitions: an interval needs {LEAST}" if n < LEAST else "",
        "size": _size(claim, effect, low, high),
        "p": p,
        "p_holm": np.nan,
        "notes": "; ".join(notes),
        "reason": reason,
        "floor": floor.percent if floor else np.nan,
    }


def _of_each(claim: Claim, each: AllOf, confidence: float, floor_of: FloorOf) -> dict[str, Any]:
    """The row of a claim on several effects: that of the deciding part, with all parts in the notes.

    The claim holds if every part does at `confidence`: a claim that is wrong anywhere then passes no more often than
    one part would. It is contradicted if a part is at the confidence 1 - (1 - confidence) / parts (Bonferroni), as one
    of many may be by chance; p accordingly. The row is of the weakest of the deciding parts.
    Source: Berger 1982, the intersection-union test.
    """
    strict = 1 - (1 - confidence) / len(each.parts)
    rows = {name: _of_one(claim, part, confidence, floor_of(part)) for name, part in each.parts.items()}
    if len(rows) == 1:
        return next(iter(rows.values()))
    strictly = {name: _of_one(claim, part, strict, floor_of(part)) for name, part in each.parts.items()}
    against = [name for name, row in strictly.items() if row["verdict"] == "contradicted"]
    open_ones = [name for name, row in rows.items() if row["verdict"] != "holds"]
    verdict = "contradicted" if against else "undecided" if open_ones else "holds"
    deciding = max(against or open_ones or rows, key=lambda name: _weakness(claim, rows[name]["value"]))
    row = rows[deciding] | {"verdict": verdict, "repetitions_needed": None}
    row["size"] = _size_of_each({each_row["size"] for each_row in rows.values()})
    row["p"] = _p_of_each(claim, each, rows, against, verdict)
    row["reason"] = strictly[deciding]["reason"] if against else row["reason"]
    if verdict == "undecided":
        row["repetitions_needed"] = _needed_of_each(claim, each, open_ones, 1 - strict)
        if row["verdict"] != rows[deciding]["verdict"]:  # contradicted alone, but not once corrected for all parts
            row["reason"] = f"not decided once corrected for {len(rows)} parts"
    parts = [
        f"{name}: {ledger.with_interval(at['value'], at['low'], at['high'], claim.unit)}" for name, at in rows.items()
    ]
    notes = [f"must hold for each of {len(rows)}, and {deciding} decides", *parts, row["notes"]]
    return row | {"notes": "; ".join(filter(None, notes))}


def by_interval(claim: Claim, low: float, high: float) -> str:
    floor, ceiling = claim.than - claim.margin, claim.than + claim.margin
    within = low > floor and high < ceiling
    more, less = low > claim.than, high < claim.than
    if claim.claimed == "equal":
        holds, contradicted = within, low > ceiling or high < floor
    else:
        claimed_side, other_side = (more, less) if claim.claimed == "more" else (less, more)
        holds, contradicted = claimed_side and not within, other_side or within
    return "holds" if holds else "contradicted" if contradicted else "undecided"


def _reason(claim: Claim, verdict: str, low: float, high: float) -> str:
    """The reason for a verdict by its interval, as a clause."""
    than, margin = ledger.shown(claim.than, claim.unit), ledger.shown(claim.margin, claim.unit)
    around = f"{than} ± {margin}"
    if np.isnan(low):
        return "one repetition has no interval"
    if claim.claimed == "equal":
        where = {"holds": "inside", "contradicted": "outside", "undecided": "partly outside"}
        return f"{where[verdict]} {around}"
    if verdict == "undecided":
        return f"includes {than}" if low <= claim.than <= high else f"partly within {around}"
    within = low > claim.than - claim.margin and high < claim.than + claim.margin
    return f"within {around}" if within else f"{'above' if low > claim.than else 'below'} {than}"


def _weakness(claim: Claim, value: float) -> float:
    """The distance of an effect from the claimed side, to rank the parts of one claim."""
    if claim.claimed == "equal":
        return abs(value - claim.than)
    return -value if claim.claimed == "more" else value


def _rests_on_effect(claim: Claim, effect: Found, low: float, high: float) -> float:
    """The size that a verdict rests on, on the effect's scale: the difference, or the margin if the interval lies
    within it."""
    to_scale = effect.found.scale.to_scale
    than, least, most = (float(to_scale(claim.than + by)) for by in (0.0, -claim.margin, claim.margin))
    if low > claim.than - claim.margin and high < claim.than + claim.margin:
        return min(than - least, most - than)
    return abs(effect.found.centre - than)


def _needed(claim: Claim, effect: Found, alpha: float) -> int | None:
    """The repetitions that would decide the claim, if mean and spread stay: the least for any verdict."""
    if not effect.found.known:
        return LEAST if effect.found.n < LEAST else None
    edges = [claim.than - claim.margin, claim.than + claim.margin]
    value = effect.found.estimate().value
    # Equality is decided at the nearer edge of the margin, and so is "no effect" of a value within the margin.
    nearer = min(edges, key=lambda edge: abs(edge - value))
    within = edges[0] < value < edges[1]
    bounds = [nearer] if claim.claimed == "equal" else [claim.than, nearer] if within else [claim.than]
    counts = [effect.repetitions_needed(bound, alpha) for bound in bounds]
    possible = [number for number in counts if number is not None]
    return max(min(possible), effect.found.n + 1) if possible else None  # the present n was not enough


def _needed_of_each(claim: Claim, each: AllOf, open_ones: list[str], alpha: float) -> int | None:
    """The repetitions for all parts that do not hold yet, or for the first to contradict if some lie on that side."""
    values = {name: each.parts[name].found.estimate().value for name in open_ones}
    against = [name for name, value in values.items() if by_interval(claim, value, value) == "contradicted"]
    needed = [_needed(claim, each.parts[name], alpha) for name in against or open_ones]
    possible = [number for number in needed if number is not None]
    if against:
        return min(possible, default=None)
    return max(possible) if len(possible) == len(needed) else None


def _size(claim: Claim, effect: Found, low: float, high: float) -> str:
    """The published size, within its tolerance, against the interval; empty without an interval."""
    if claim.claimed == "equal":
        return EQUALITY
    if claim.published is None:
        return NONE_PUBLISHED
    if np.isnan(low):
        return ""
    if effect.uses_other_pair_count:
        return NOT_COMPARED
    least = claim.published.value - claim.published.tolerance
    most = claim.published.value + claim.published.tolerance
    near, far = (low, high) if claim.published.value >= 0 else (-high, -low)  # a larger drop is larger
    least, most = (least, most) if claim.published.value >= 0 else (-most, -least)
    return SMALLER if far < least else LARGER if near > most else AGREES


def _size_of_each(sizes: set[str]) -> str:
    """The size of a claim on several effects: it agrees if each does, as the paper states it of each."""
    if len(sizes) == 1:
        return next(iter(sizes))
    if "" in sizes:
        return ""
    differing = sizes - {AGREES}
    return next(iter(differing)) if len(differing) == 1 else MIXED


def _ps(claim: Claim, effect: Found) -> tuple[float, float]:
    """p of the tests by which the claim holds, and is contradicted; NaN without an interval.

    Each is two-sided, like the interval: twice the p of one side. To show that the effect lies within the margin takes
    tests at both edges, of which the larger p counts (two one-sided tests); to show that it lies outside, one.
    Source: Schuirmann 1987.
    """
    if not effect.found.known:
        return np.nan, np.nan
    test = effect.found.p
    floor, ceiling = claim.than - claim.margin, claim.than + claim.margin
    inside = max(test(floor, "greater"), test(ceiling, "less"))
    more, less = test(claim.than, "greater"), test(claim.than, "less")
    if claim.claimed == "equal":
        holds, contradicted = inside, min(test(floor, "less"), test(ceiling, "greater"))
    else:
        holds, other_side = (more, less) if claim.claimed == "more" else (less, more)
        contradicted = min(other_side, inside)
    return min(2 * holds, 1.0), min(2 * contradicted, 1.0)


def _p(claim: Claim, effect: Found, by_interval: str) -> float:
    """p of the deciding test; of an undecided claim, of the test nearest to a decision."""
    holds, contradicted = _ps(claim, effect)
    return {"holds": holds, "contradicted": contradicted}.get(by_interval, min(holds, contradicted))


def _p_of_each(claim: Claim, each: AllOf, rows: dict[str, dict[str, Any]], against: list[str], verdict: str) -> float:
    """p over the parts: the largest by which a part holds, or the least that contradicts, times the number of parts."""
    by_part = {name: _ps(claim, part) for name, part in each.parts.items()}
    opposed = {name for name, row in rows.items() if row["verdict"] == "contradicted"}
    holds = float(np.max([1.0 if name in opposed else p for name, (p, _) in by_part.items()]))  # NaN if a part has none
    contradicting = [p for p in (by_part[name][1] for name in against or by_part) if not np.isnan(p)]
    contradicted = min(1.0, len(by_part) * min(contradicting, default=1.0))
    return {"holds": holds, "contradicted": contradicted}.get(verdict, float(np.fmin(holds, contradicted)))
