"""Which of the papers' findings hold on a set of runs: a verdict for each claim of the ledger, for each system.

holds         the interval lies wholly where the claim says, and not within its margin of no effect
contradicted  it lies wholly on the other side, or within that margin (a claim of equality: wholly outside it)
undecided     it does neither, or rests on less than this host can distinguish from its noise (noise_floor.py), where
              that is recorded: more repetitions are needed, and a plan says how many. Or the completion times that it
              takes depend on flows that failed: no plan helps, and `missing` says so
not measured  the runs lack what it takes; `missing` names it

The claims are kept in data/claims.yaml (ledger.py); what decides them is computed by estimators.py from one value per
repetition. Systems (backend and workload) are never pooled.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis.claims import estimators, ledger, run_table
from pairlab.analysis.claims.effect import Effect, FlowsFailed, TooFewFlows
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.comparison.noise_floor import Calibration, NoiseFloor
from pairlab.analysis.selection import BEYOND
from pairlab.errors import NoRuns, NotMeasured
from pairlab.statistics import tests
from pairlab.statistics.intervals import LEAST
from pairlab.store.dataset import Runs

VERDICTS = ("holds", "contradicted", "undecided", "not measured")

#: The columns of evaluate, in order.
COLUMNS = (
    *("id", "statement", "papers", "experiment", "sources", "system", "backend", "workload", "claimed", "published"),
    *("value", "low", "high", "unit", "repetitions", "cells", "verdict", "repetitions_needed", "missing", "size"),
    *("p", "p_holm", "notes", "confidence", "floor"),
)


def evaluate(
    runs: Runs,
    *,
    confidence: float = 0.95,
    claims: Iterable[Claim] | None = None,
    calibrations: Mapping[str, Calibration] | None = None,
) -> pd.DataFrame:
    """A row per claim and system, with COLUMNS.

    A system is a backend and a workload. A claim has a row for each system that measured it; a backend none of whose
    systems did has one row "not measured", whose system is the backend alone and whose `missing` says why. value, low,
    high and published are in `unit`. size compares the published size with the interval: agrees, smaller or larger
    here, or empty where none is stated or another number of pairs stands in. repetitions_needed: in all, for an
    undecided claim, with 80 % power if mean and spread are as found; missing where that is unknown or above
    power.MOST_REPETITIONS. floor, in percent: the smallest effect that this host can distinguish from its noise at so
    many repetitions, missing where none is recorded. calibrations: the records by backend, by default those beside the
    runs (noise_floor.of_runs; floor_remark names them). Raises NoRuns where no plain run counts, AnalysisError where
    runs do not belong together (run_table.reduce).
    """
    claims = ledger.load() if claims is None else tuple(claims)
    frame = run_table.reduce(runs)
    if frame.empty:
        raise NoRuns(
            f"none of the {len(runs)} runs decides a claim: they are not ok, or ask for what the papers did not"
            f" ({', '.join(BEYOND)})"
        )
    calibrations = noise_floor.of_runs(runs) if calibrations is None else calibrations
    rows = [
        {
            "id": claim.id,
            "statement": claim.statement,
            "papers": ledger.papers(claim),
            "experiment": claim.experiments[0],
            "sources": "; ".join(map(str, claim.sources)),
            "claimed": _claimed(claim),
            "published": claim.published.value if claim.published else np.nan,
            "unit": claim.unit,
            "confidence": confidence,
            **decided,
        }
        for claim in claims
        for decided in _by_system(claim, frame, confidence, calibrations)
    ]
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    found["repetitions_needed"] = found["repetitions_needed"].astype("Int64")
    for _, part in found.groupby(["backend", "workload"]):
        found.loc[part.index, "p_holm"] = tests.holm(part["p"])
    return found


def judge(claim: Claim, effect: Effect, confidence: float = 0.95, floor: NoiseFloor | None = None) -> dict[str, Any]:
    """What an effect makes of a claim: verdict, estimate, size, p, and the repetitions that an undecided one needs.

    floor: what this host can distinguish from its noise at so many repetitions, where that is known. A difference that
    is smaller decides nothing, nor does the lack of one where the margin is smaller.
    """
    value, low, high, n = effect.found.estimate(confidence)
    verdict = _by_interval(claim, low, high)
    needed = _needed(claim, effect, 1 - confidence) if verdict == "undecided" else None
    notes = list(effect.notes)
    if floor:
        note = f"noise floor {floor.percent:.1f} % at n = {n}"
        rests_on = _rests_on_effect(claim, effect, low, high)
        if verdict != "undecided" and rests_on < floor.effect:
            verdict, needed = "undecided", floor.repetitions_needed(rests_on)
            note = f"below the noise floor of this host, {floor.percent:.1f} % at n = {n}"
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
        "floor": floor.percent if floor else np.nan,
    }


def _by_interval(claim: Claim, low: float, high: float) -> str:
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


def _rests_on_effect(claim: Claim, effect: Effect, low: float, high: float) -> float:
    """The size that a verdict rests on, as the effect is kept: that of the difference, or the margin where there is
    none within it."""
    than, least, most = (float(effect.found.scale.kept(claim.than + by)) for by in (0.0, -claim.margin, claim.margin))
    if low > claim.than - claim.margin and high < claim.than + claim.margin:
        return min(than - least, most - than)
    return abs(effect.found.centre - than)


def _by_system(
    claim: Claim, frame: pd.DataFrame, confidence: float, calibrations: Mapping[str, Calibration]
) -> Iterator[dict[str, Any]]:
    mine = frame[frame["experiment"].isin(claim.experiments)]
    for backend in sorted(frame["backend"].unique()):
        decided = [
            {"system": f"{backend}-{workload}", "backend": backend, "workload": workload}
            | _decide(claim, part, confidence, workload, calibrations.get(backend))
            for workload, part in mine[mine["backend"] == backend].groupby("workload")
        ]
        if measured := [each for each in decided if each["verdict"] != "not measured"]:
            yield from measured
            continue
        why = "; ".join(f"{each['workload']}: {each['missing']}" for each in decided)
        nothing = decided[0] if decided else _decide(claim, mine.iloc[:0], confidence, "", None)
        yield nothing | {"system": backend, "backend": backend, "workload": ""} | ({"missing": why} if why else {})


def _decide(
    claim: Claim, part: pd.DataFrame, confidence: float, workload: str, calibration: Calibration | None
) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("value", "low", "high", "p", "p_holm", "floor"), np.nan)
    nothing |= {"repetitions": 0, "repetitions_needed": None} | dict.fromkeys(("cells", "size", "notes"), "")
    try:
        for experiment in claim.experiments:
            if not (part["experiment"] == experiment).any():
                raise NotMeasured(f"no runs of {experiment}")
        effect = estimators.get(claim.estimator)(part, claim.parameters)
        floor = calibration.floor(effect.contrast, workload, effect.found.n) if calibration else None
        return judge(claim, effect, confidence, floor)
    except NotMeasured as error:
        return nothing | {"verdict": "not measured", "missing": str(error)}
    except FlowsFailed as error:
        return nothing | {"verdict": "undecided", "missing": str(error)}
    except TooFewFlows as error:
        needed = {"repetitions_needed": error.repetitions_needed}
        return nothing | {"verdict": "undecided", "missing": str(error)} | needed


def _needed(claim: Claim, effect: Effect, alpha: float) -> int | None:
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


def _size(claim: Claim, effect: Effect, low: float, high: float) -> str:
    if claim.published is None or effect.stands_in or np.isnan(low):
        return ""
    least = claim.published.value - claim.published.tolerance
    most = claim.published.value + claim.published.tolerance
    near, far = (low, high) if claim.published.value >= 0 else (-high, -low)  # a larger drop is larger
    least, most = (least, most) if claim.published.value >= 0 else (-most, -least)
    return "smaller" if far < least else "larger" if near > most else "agrees"


def _p(claim: Claim, effect: Effect) -> float:
    if claim.claimed == "equal":
        return max(
            effect.found.p(claim.than - claim.margin, "greater"), effect.found.p(claim.than + claim.margin, "less")
        )
    return effect.found.p(claim.than)


def _claimed(claim: Claim) -> str:
    bound = ledger.shown(claim.than, claim.unit)
    if claim.claimed == "equal":
        return f"{bound} ± {ledger.shown(claim.margin, claim.unit)}"
    return f"{'>' if claim.claimed == 'more' else '<'} {bound}"
