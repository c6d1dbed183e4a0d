"""What an effect makes of a claim: holds, contradicted or undecided; and how many repetitions would decide it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pairlab.analysis.claims import ledger
from pairlab.analysis.claims.effect import Each, Found
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.comparison.noise_floor import NoiseFloor
from pairlab.statistics.intervals import LEAST

FloorOf = Callable[[Found], NoiseFloor | None]


def judge(
    claim: Claim, effect: Found | Each, confidence: float = 0.95, floor_of: FloorOf = lambda effect: None
) -> dict[str, Any]:
    """Verdict, estimate, size, p, and the repetitions that an undecided claim needs: columns of verdicts.evaluate.

    floor_of: what this host can distinguish from its noise at so many repetitions, where that is known. A difference
    that is smaller decides nothing, nor does the lack of one where the margin is smaller.
    """
    if isinstance(effect, Each):
        return _of_each(claim, effect, confidence, floor_of)
    return _of_one(claim, effect, confidence, floor_of(effect))


def _of_one(claim: Claim, effect: Found, confidence: float, floor: NoiseFloor | None) -> dict[str, Any]:
    value, low, high, n = effect.found.estimate(confidence)
    verdict = by_interval(claim, low, high)
    needed = _needed(claim, effect, 1 - confidence) if verdict == "undecided" else None
    notes, reason = list(effect.notes), _reason(claim, verdict, low, high)
    if floor:
        note = f"noise floor {floor.percent:.1f} % at n = {n}"
        rests_on = _rests_on_effect(claim, effect, low, high)
        if verdict != "undecided" and rests_on < floor.effect:
            verdict, needed = "undecided", floor.repetitions_needed(rests_on)
            note = f"below the noise floor of this host, {floor.percent:.1f} % at n = {n}"
            reason = "below the noise floor"
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
        "p": _p(claim, effect),
        "p_holm": np.nan,
        "notes": "; ".join(notes),
        "reason": reason,
        "floor": floor.percent if floor else np.nan,
    }


def _of_each(claim: Claim, each: Each, confidence: float, floor_of: FloorOf) -> dict[str, Any]:
    """Of a claim on each of several effects: the row of the part that decides, with all parts in its notes.

    It holds where every part does, at the confidence asked for: a claim that is wrong anywhere is then found to hold no
    oftener than one part is. It is contradicted where a part is at the confidence 1 - (1 - confidence) / parts
    (Bonferroni), as one of many is easily so by chance. The part told is the weakest of those that decide. Source:
    Berger 1982, the intersection-union test.
    """
    strict = 1 - (1 - confidence) / len(each.parts)
    rows = {name: _of_one(claim, part, confidence, floor_of(part)) for name, part in each.parts.items()}
    if len(rows) == 1:
        return next(iter(rows.values()))
    surely = {name: _of_one(claim, part, strict, floor_of(part)) for name, part in each.parts.items()}
    against = [name for name, row in surely.items() if row["verdict"] == "contradicted"]
    open_ones = [name for name, row in rows.items() if row["verdict"] != "holds"]
    verdict = "contradicted" if against else "undecided" if open_ones else "holds"
    told = max(against or open_ones or rows, key=lambda name: _weakness(claim, rows[name]["value"]))
    row = rows[told] | {"verdict": verdict, "repetitions_needed": None, "size": ""}
    row["reason"] = surely[told]["reason"] if against else row["reason"]
    if verdict == "undecided":
        row["repetitions_needed"] = _needed_of_each(claim, each, open_ones, 1 - strict)
        if row["verdict"] != rows[told]["verdict"]:  # against it alone, but not once corrected for their number
            row["reason"] = f"not decided once corrected for {len(rows)} parts"
    parts = [f"{name}: {_in_words(claim, each_row)}" for name, each_row in rows.items()]
    notes = [f"must hold for each of {len(rows)}, and {told} decides", *parts, row["notes"]]
    return row | {"notes": "; ".join(filter(None, notes))}


def by_interval(claim: Claim, low: float, high: float) -> str:
    floor, ceiling = claim.than - claim.margin, claim.than + claim.margin
    within = low > floor and high < ceiling
    more, less = low > claim.than, high < claim.than
    if claim.claimed == "equal":
        yes, no = within, low > ceiling or high < floor
    elif claim.claimed == "more":
        yes, no = more and not within, less or within
    else:
        yes, no = less and not within, more or within
    return "holds" if yes else "contradicted" if no else "undecided"


def _reason(claim: Claim, verdict: str, low: float, high: float) -> str:
    """Why an interval makes that verdict, as a clause."""
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
    """How far an effect lies from what is claimed, to compare those of one claim."""
    if claim.claimed == "equal":
        return abs(value - claim.than)
    return -value if claim.claimed == "more" else value


def _in_words(claim: Claim, row: dict[str, Any]) -> str:
    value, unit = ledger.shown(row["value"], claim.unit), claim.unit
    if np.isnan(row["low"]):
        return value
    return f"{value} [{ledger.number(row['low'], unit)}, {ledger.number(row['high'], unit)}]"


def _rests_on_effect(claim: Claim, effect: Found, low: float, high: float) -> float:
    """The size that a verdict rests on, as the effect is kept: that of the difference, or the margin where there is
    none within it."""
    than, least, most = (float(effect.found.scale.kept(claim.than + by)) for by in (0.0, -claim.margin, claim.margin))
    if low > claim.than - claim.margin and high < claim.than + claim.margin:
        return min(than - least, most - than)
    return abs(effect.found.centre - than)


def _needed(claim: Claim, effect: Found, alpha: float) -> int | None:
    """How many repetitions would decide it, if mean and spread are as found: the least that any verdict takes."""
    if not effect.found.known:
        return LEAST if effect.found.n < LEAST else None
    edges = [claim.than - claim.margin, claim.than + claim.margin]
    value = effect.found.estimate().value
    # Equality is shown or refuted at the nearer edge of the margin, and so is "no effect" by one that lies within it.
    nearer = min(edges, key=lambda edge: abs(edge - value))
    within = edges[0] < value < edges[1]
    bounds = [nearer] if claim.claimed == "equal" else [claim.than, nearer] if within else [claim.than]
    found = [effect.repetitions_needed(bound, alpha) for bound in bounds]
    known = [number for number in found if number is not None]
    return max(min(known), effect.found.n + 1) if known else None  # it was not enough this time, whatever its power


def _needed_of_each(claim: Claim, each: Each, open_ones: list[str], alpha: float) -> int | None:
    """Of all parts that do not hold yet, or of the first that would contradict it, where one lies on the other side."""
    values = {name: each.parts[name].found.estimate().value for name in open_ones}
    against = [name for name, value in values.items() if by_interval(claim, value, value) == "contradicted"]
    needed = [_needed(claim, each.parts[name], alpha) for name in against or open_ones]
    known = [number for number in needed if number is not None]
    if against:
        return min(known, default=None)
    return max(known) if len(known) == len(needed) else None


def _size(claim: Claim, effect: Found, low: float, high: float) -> str:
    if claim.published is None or effect.uses_other_pair_count or np.isnan(low):
        return ""
    least = claim.published.value - claim.published.tolerance
    most = claim.published.value + claim.published.tolerance
    near, far = (low, high) if claim.published.value >= 0 else (-high, -low)  # a larger drop is larger
    least, most = (least, most) if claim.published.value >= 0 else (-most, -least)
    return "smaller" if far < least else "larger" if near > most else "agrees"


def _p(claim: Claim, effect: Found) -> float:
    if claim.claimed == "equal":
        return max(
            effect.found.p(claim.than - claim.margin, "greater"), effect.found.p(claim.than + claim.margin, "less")
        )
    return effect.found.p(claim.than)
