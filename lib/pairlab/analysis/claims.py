"""Which of the papers' findings hold on a set of runs: a verdict for each claim of the ledger, for each system.

holds         the interval lies wholly where the claim says, and not within its margin of no effect
contradicted  it lies wholly on the other side, or within that margin (a claim of equality: wholly outside it)
undecided     it does neither: more repetitions are needed, and a plan says how many
not measured  the runs lack what it takes; `missing` names it

The claims are kept in data/claims.yaml (ledger.py); what decides them is computed by estimators.py from one value per
repetition. Systems (backend and workload) are never pooled.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from pairlab.analysis import contrasts, estimators, ledger, per_run
from pairlab.analysis.estimators import Effect, TooFewFlows
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.ledger import Claim
from pairlab.analysis.origin import Origin
from pairlab.collection import Runs
from pairlab.errors import NoRuns, NotMeasured

VERDICTS = ("holds", "contradicted", "undecided", "not measured")

#: What a reader must know of many verdicts at once.
POLICY = (
    "Every interval has its own confidence and nothing is corrected for their number, so among many claims a few"
    " verdicts may be wrong. p is of the two-sided t test against the value that the claim names (for equality, the"
    " larger p of two one-sided tests), and p_holm is p with Holm's correction over all measured claims of a system."
)

#: The columns of evaluate, in order.
COLUMNS = (
    "id",
    "statement",
    "papers",
    "sources",
    "system",
    "backend",
    "workload",
    "claimed",
    "published",
    "value",
    "low",
    "high",
    "unit",
    "repetitions",
    "cells",
    "verdict",
    "repetitions_needed",
    "missing",
    "size",
    "p",
    "p_holm",
    "notes",
    "confidence",
)


def evaluate(runs: Runs, *, confidence: float = 0.95, claims: Iterable[Claim] | None = None) -> pd.DataFrame:
    """A row per claim and system, with COLUMNS.

    A system is a backend and a workload. A claim has a row for each system that measured it; a backend none of whose
    systems did has one row "not measured", whose system is the backend alone and whose `missing` says why. value, low,
    high and published are in `unit`. size compares the published size with the interval: agrees, smaller or larger
    here, or empty where none is stated or another number of pairs stands in. repetitions_needed: in all, for an
    undecided claim, with 80 % power if mean and spread are as found; missing where that is unknown or above
    contrasts.MOST_REPETITIONS. Raises NoRuns where no plain run counts, AnalysisError where runs do not belong
    together (per_run.reduce).
    """
    claims = ledger.load() if claims is None else tuple(claims)
    frame = per_run.reduce(runs)
    if frame.empty:
        raise NoRuns(
            f"none of the {len(runs)} runs decides a claim: they are not ok, or ask for what the papers did not"
            f" ({', '.join(per_run.BEYOND)})"
        )
    rows = [
        {
            "id": claim.id,
            "statement": claim.statement,
            "papers": ledger.papers(claim),
            "sources": "; ".join(map(str, claim.sources)),
            "claimed": _claimed(claim),
            "published": claim.published.value if claim.published else np.nan,
            "unit": claim.unit,
            "confidence": confidence,
            **decided,
        }
        for claim in claims
        for decided in _by_system(claim, frame, confidence)
    ]
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    found["repetitions_needed"] = found["repetitions_needed"].astype("Int64")
    for _, part in found[found["p"].notna()].groupby(["backend", "workload"]):
        found.loc[part.index, "p_holm"] = multipletests(part["p"], method="holm")[1]
    return found


def counts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many claims got which verdict: a row per system, a column for each of VERDICTS."""
    table = pd.crosstab(verdicts["system"], verdicts["verdict"])
    return table.reindex(columns=list(VERDICTS), fill_value=0).rename_axis(index="System", columns=None)


def judge(claim: Claim, effect: Effect, confidence: float = 0.95) -> dict[str, Any]:
    """What an effect makes of a claim: verdict, estimate, size, p, and the repetitions that an undecided one needs."""
    value, low, high, n = effect.estimate(confidence)
    floor, ceiling = claim.than - claim.margin, claim.than + claim.margin
    within = low > floor and high < ceiling
    more, less = low > claim.than, high < claim.than
    if claim.claimed == "equal":
        yes, no = within, low > ceiling or high < floor
    elif claim.claimed == "more":
        yes, no = more and not within, less or within
    else:
        yes, no = less and not within, more or within
    verdict = "holds" if yes else "contradicted" if no else "undecided"
    return {
        "value": value,
        "low": low,
        "high": high,
        "repetitions": n,
        "cells": effect.cells,
        "verdict": verdict,
        "repetitions_needed": _needed(claim, effect, 1 - confidence) if verdict == "undecided" else None,
        "missing": "a second repetition: one has no interval" if n < 2 else "",
        "size": _size(claim, effect, low, high),
        "p": _p(claim, effect),
        "p_holm": np.nan,
        "notes": "; ".join(effect.notes),
    }


def display(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts as text: a row per claim and system, for a notebook or a terminal."""
    return pd.DataFrame(
        {
            "Claim": verdicts["statement"],
            "Paper": verdicts["papers"],
            "System": verdicts["system"],
            "Verdict": verdicts["verdict"],
            "Claimed": verdicts["claimed"],
            "Published": [_shown(row.published, row.unit) for row in verdicts.itertuples()],
            "Here": [_here(row) for row in verdicts.itertuples()],
            "Size": verdicts["size"],
            "Of": [_rests_on(row) for row in verdicts.itertuples()],
        },
        index=verdicts.index,
    )


#: The tables of the paper: a part of the experiments each, so that each fits on a page.
PARTS = {
    "throughput": ("throughput", "retransmissions"),
    "fct": ("fct", "elephant-mice"),
    "cores": ("core-ratio", "pinning", "message-size"),
}
PART_TITLES = {
    "throughput": "throughput, fairness and retransmissions",
    "fct": "flow completion times",
    "cores": "cores, pinning and message sizes",
}


def tables(verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of the paper, one for each of PARTS, as text: a row per claim and workload, the backends side by side.

    What is not measured keeps its row.
    """
    first = {claim.id: claim.experiments[0] for claim in ledger.load()}
    part_of = verdicts["id"].map(lambda name: next(part for part, its in PARTS.items() if first[name] in its))
    return {part: _table(verdicts[part_of == part]) for part in PARTS if (part_of == part).any()}


def _table(verdicts: pd.DataFrame) -> pd.DataFrame:
    backends = sorted(verdicts["backend"].unique())
    rows = []
    for (_, statement), mine in verdicts.groupby(["id", "statement"], sort=False):
        by = {(row.backend, row.workload): row for row in mine.itertuples()}
        any_row = next(iter(by.values()))
        # A backend without runs of the experiment has no workload, and says so beside those of the other.
        for workload in sorted({name for _, name in by} - {""}) or [""]:
            line = {
                ("", "Claim"): statement,
                ("", "Paper"): any_row.papers,
                ("", "Workload"): workload or MISSING,
                ("", "Published"): _shown(any_row.published, any_row.unit) or MISSING,
            }
            for backend in backends:
                row = by.get((backend, workload))
                measured = row is not None and row.repetitions
                line[backend, "here, with interval"] = _here(row) if measured else MISSING
                line[backend, "n"] = str(row.repetitions) if measured else MISSING
                line[backend, "verdict"] = "not measured" if row is None else _verdict(row)
            rows.append(line)
    table = pd.DataFrame(rows)
    table.columns = pd.MultiIndex.from_tuples(table.columns)
    return table


def values(verdicts: pd.DataFrame, runs: Runs) -> Values:
    r"""The keyed numbers, all below `claims/`.

    - runs, left-out, claims, confidence, policy; systems and tables (lists); <table>/told;
    - all/<verdict> and <system>/count/<verdict>: how many, with "-" for the spaces of a verdict;
    - <id>/<system>/verdict, claimed, published; where measured, estimate, interval, repetitions, cells, size, else
      missing; needed, where undecided and known.
    """
    found = Values("claims")
    found.number("runs", sum(run.status == "ok" for run in runs), 0)
    found.number("left-out", len(runs) + len(runs.unread) - sum(run.status == "ok" for run in runs), 0)
    found.text("confidence", f"{verdicts['confidence'].iloc[0] * 100:g} %")
    found.text("policy", POLICY)
    found.number("claims", verdicts["id"].nunique(), 0)
    found.names("tables", list(tables(verdicts)))
    for name in tables(verdicts):
        found.text(f"{name}/told", PART_TITLES[name])
    by_system = counts(verdicts)
    found.names("systems", list(by_system.index))
    for verdict in VERDICTS:
        found.number(f"all/{verdict.replace(' ', '-')}", by_system[verdict].sum(), 0)
        for system in by_system.index:
            found.number(f"{system}/count/{verdict.replace(' ', '-')}", by_system.loc[system, verdict], 0)
    for row in verdicts.itertuples():
        key = f"{row.id}/{row.system}"
        found.text(f"{key}/verdict", row.verdict)
        found.text(f"{key}/claimed", row.claimed)
        found.text(f"{key}/published", _shown(row.published, row.unit) or "no size stated")
        if row.repetitions:
            found.text(f"{key}/estimate", _shown(row.value, row.unit))
            found.text(f"{key}/interval", _interval(row) or "no interval from one repetition")
            found.number(f"{key}/repetitions", row.repetitions, 0)
            found.text(f"{key}/cells", row.cells)
            found.text(f"{key}/size", row.size or "not compared")
        if row.missing:
            found.text(f"{key}/missing", row.missing)
        if row.verdict == "undecided" and not pd.isna(row.repetitions_needed):
            found.number(f"{key}/needed", row.repetitions_needed, 0)
    return found


def as_json(verdicts: pd.DataFrame, origin: Origin) -> str:
    """For programs: {"format": 1, "origin", "policy", "counts", "verdicts"}; what there is not is null."""
    told = {
        "format": 1,
        "origin": str(origin),
        "policy": POLICY,
        "counts": counts(verdicts).to_dict(orient="index"),
        "verdicts": json.loads(verdicts.to_json(orient="records", double_precision=15)),
    }
    return json.dumps(told, indent=1)


def _by_system(claim: Claim, frame: pd.DataFrame, confidence: float) -> Iterator[dict[str, Any]]:
    mine = frame[frame["experiment"].isin(claim.experiments)]
    for backend in sorted(frame["backend"].unique()):
        decided = [
            {"system": f"{backend}-{workload}", "backend": backend, "workload": workload}
            | _decide(claim, part, confidence)
            for workload, part in mine[mine["backend"] == backend].groupby("workload")
        ]
        if measured := [each for each in decided if each["verdict"] != "not measured"]:
            yield from measured
            continue
        why = "; ".join(f"{each['workload']}: {each['missing']}" for each in decided)
        nothing = decided[0] if decided else _decide(claim, mine.iloc[:0], confidence)
        yield nothing | {"system": backend, "backend": backend, "workload": ""} | ({"missing": why} if why else {})


def _decide(claim: Claim, part: pd.DataFrame, confidence: float) -> dict[str, Any]:
    nothing = {
        "value": np.nan,
        "low": np.nan,
        "high": np.nan,
        "repetitions": 0,
        "cells": "",
        "repetitions_needed": None,
        "size": "",
        "p": np.nan,
        "p_holm": np.nan,
        "notes": "",
    }
    try:
        for experiment in claim.experiments:
            if not (part["experiment"] == experiment).any():
                raise NotMeasured(f"no runs of {experiment}")
        return judge(claim, estimators.get(claim.estimator)(part, claim.parameters), confidence)
    except NotMeasured as error:
        return nothing | {"verdict": "not measured", "missing": str(error)}
    except TooFewFlows as error:
        needed = {"repetitions_needed": error.repetitions_needed}
        return nothing | {"verdict": "undecided", "missing": str(error)} | needed


def _needed(claim: Claim, effect: Effect, alpha: float) -> int | None:
    """How many repetitions would decide it, if mean and spread are as found: the least that any verdict takes."""
    n = len(effect.values)
    if n < 2:
        return None
    edges = [claim.than - claim.margin, claim.than + claim.margin]
    value = effect.estimate().value
    # Equality is shown or refuted at the nearer edge of the margin, and so is "no effect" by one that lies within it.
    nearer = min(edges, key=lambda edge: abs(edge - value))
    within = edges[0] < value < edges[1]
    bounds = [nearer] if claim.claimed == "equal" else [claim.than, nearer] if within else [claim.than]
    found = [
        contrasts.repetitions_needed(effect.values, null=float(effect.scale.kept(bound)), alpha=alpha)
        for bound in bounds
    ]
    known = [number for number in found if number is not None]
    return max(min(known), n + 1) if known else None  # it was not enough this time, whatever its power


def _size(claim: Claim, effect: Effect, low: float, high: float) -> str:
    if claim.published is None or effect.stands_in or np.isnan(low):
        return ""
    least = claim.published.value - claim.published.tolerance
    most = claim.published.value + claim.published.tolerance
    near, far = (low, high) if claim.published.value >= 0 else (-high, -low)  # a larger drop is larger
    least, most = (least, most) if claim.published.value >= 0 else (-most, -least)
    return "smaller" if far < least else "larger" if near > most else "agrees"


def _p(claim: Claim, effect: Effect) -> float:
    values, scale = effect.values, effect.scale
    if len(values) < 2:
        return np.nan
    if claim.claimed == "equal":
        above = _t(values, float(scale.kept(claim.than - claim.margin)), "greater")
        below = _t(values, float(scale.kept(claim.than + claim.margin)), "less")
        return max(above, below)
    return _t(values, float(scale.kept(claim.than)), "two-sided")


def _t(values: np.ndarray, null: float, alternative: str) -> float:
    if np.ptp(values) == 0:  # no spread, where t has no value: certain either way
        beyond = {"greater": values[0] > null, "less": values[0] < null, "two-sided": values[0] != null}
        return 0.0 if beyond[alternative] else 1.0
    return float(stats.ttest_1samp(values, null, alternative=alternative).pvalue)


def _claimed(claim: Claim) -> str:
    bound = _shown(claim.than, claim.unit)
    if claim.claimed == "equal":
        return f"{bound} ± {_shown(claim.margin, claim.unit)}"
    return f"{'>' if claim.claimed == 'more' else '<'} {bound}"


_DIGITS = {"%": 1, "share": 2, "r": 2, "ms": 1}


def _shown(value: float, unit: str) -> str:
    if np.isnan(value):
        return ""
    behind = "" if unit in ("share", "r") else f" {unit}"
    return f"{value:.{_DIGITS[unit]}f}{behind}"


def _interval(row) -> str:
    if np.isnan(row.low):
        return ""
    digits = _DIGITS[row.unit]
    behind = "" if row.unit in ("share", "r") else f" {row.unit}"
    return f"[{row.low:.{digits}f}, {row.high:.{digits}f}]{behind}"


def _here(row) -> str:
    return f"{_shown(row.value, row.unit)} {_interval(row)}".strip() if row.repetitions else ""


def _verdict(row) -> str:
    if row.verdict == "undecided":
        return f"undecided (n: {_plan(row)})"
    return f"{row.verdict}, {row.size}" if row.size else row.verdict


def _plan(row) -> str:
    if pd.isna(row.repetitions_needed):
        return "2" if row.repetitions == 1 else f"> {contrasts.MOST_REPETITIONS}"
    return str(row.repetitions_needed)


def _rests_on(row) -> str:
    told = [row.cells, f"n = {row.repetitions}" if row.repetitions else "", row.missing, row.notes]
    if row.verdict == "undecided":
        told.append(f"to decide: n = {_plan(row)}")
    return "; ".join(filter(None, told))
