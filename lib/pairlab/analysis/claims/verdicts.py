"""Which of the papers' findings hold on a set of runs: a verdict for each claim of the ledger, for each system.

holds         the interval lies wholly where the claim says, and not within its margin of no effect
contradicted  it lies wholly on the other side, or within that margin (a claim of equality: wholly outside it)
undecided     it does neither, or rests on less than this host can distinguish from its noise (noise_floor.py), where
              that is recorded: more repetitions are needed, and a plan says how many. Or the completion times that it
              takes depend on flows that failed: no plan helps, and `missing` says so
not comparable  the runs do not meet a condition under which the papers state it, or are not known to (conditions.py);
              `missing` names it in words. What was found is told all the same
not measured  the runs lack what it takes; `missing` names it

The claims are kept in data/claims.yaml (ledger.py); what decides them (effect.py) is found by contrasts.py in one value
per repetition (run_table.py). Systems (backend and workload) are never pooled.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis.claims import conditions, contrasts, judgement, ledger, run_table
from pairlab.analysis.claims.cells import rows
from pairlab.analysis.claims.effect import FlowsFailed, Found, TooFewFlows
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.comparison.noise_floor import Calibration, NoiseFloor
from pairlab.analysis.selection import BEYOND
from pairlab.errors import NoRuns, NotMeasured
from pairlab.model.spec import Spec
from pairlab.statistics import tests
from pairlab.store.dataset import Runs

VERDICTS = ("holds", "contradicted", "undecided", "not comparable", "not measured")
#: Those by which nothing is judged.
UNJUDGED = ("not comparable", "not measured")

#: The columns of evaluate, in order.
COLUMNS = (
    *("id", "statement", "papers", "experiment", "sources", "system", "backend", "workload", "claimed", "published"),
    *("value", "low", "high", "unit", "repetitions", "cells", "verdict", "repetitions_needed", "missing", "size"),
    *("p", "p_holm", "notes", "confidence", "floor", "requires", "unmet", "false_if", "reason"),
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
    many repetitions, missing where none is recorded. requires: the conditions of the claim in words; unmet: the short
    names of those that the runs do not meet; false_if: what would make the claim false; reason: why the verdict is what
    it is, as a clause on its interval. calibrations: the records by backend, by default those beside the runs
    (noise_floor.of_runs; floor_remark names them). Raises NoRuns where no run counts, AnalysisError where runs do not
    belong together (run_table.reduce).
    """
    claims = ledger.load() if claims is None else tuple(claims)
    frame = run_table.reduce(runs, _wanted(claims))
    if frame.empty:
        raise NoRuns(f"none of the {len(runs)} runs decides a claim: {_why_none(runs)}")
    calibrations = noise_floor.of_runs(runs) if calibrations is None else calibrations
    systems = {names: System(part) for names, part in frame.groupby(["backend", "workload"])}
    rows = [
        {
            "id": claim.id,
            "statement": claim.statement,
            "papers": ledger.papers(claim),
            "experiment": claim.experiments[0],
            "sources": "; ".join(map(str, claim.sources)),
            "claimed": claimed(claim),
            "published": claim.published.value if claim.published else np.nan,
            "unit": claim.unit,
            "confidence": confidence,
            "requires": str(claim.requires),
            "false_if": claim.false_if,
            **decided,
        }
        for claim in claims
        for decided in _by_system(claim, systems, confidence, calibrations)
    ]
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    found["repetitions_needed"] = found["repetitions_needed"].astype("Int64")
    for _, part in found.groupby(["backend", "workload"]):
        found.loc[part.index, "p_holm"] = tests.holm(part["p"])
    return found


def _why_none(runs: Runs) -> str:
    counted = [run.spec for run in runs if run.status == "ok"]
    if not counted:
        return "none is ok"
    names = [name for name in BEYOND if any(getattr(each, name) != Spec.model_fields[name].default for each in counted)]
    return f"they ask for what the papers did not ({', '.join(names)})"


def _wanted(claims: Iterable[Claim]) -> dict[str, set[str]]:
    """By experiment, the quantities that these claims take."""
    wanted: dict[str, set[str]] = {}
    for claim in claims:
        for experiment in filter(None, [*claim.experiments, claim.instead]):
            wanted.setdefault(experiment, set()).update(claim.effect.columns)
    return wanted


class System:
    """The runs of one backend and workload, and of them those that a claim is on: chosen once for all such claims."""

    def __init__(self, frame: pd.DataFrame):
        self._by_experiment = dict(list(frame.groupby("experiment")))
        self._nothing = frame.iloc[:0]
        self._read: dict[tuple, pd.DataFrame] = {}

    def measured(self, experiments: Iterable[str]) -> bool:
        return any(name in self._by_experiment for name in experiments)

    def runs(self, claim: Claim, experiments: tuple[str, ...]) -> pd.DataFrame:
        """What it does not name of run_table.ASIDE is as the papers had it."""
        aside = claim.effect.aside
        at = (experiments, *aside.items(), claim.requires.congestion_control)
        if at not in self._read:
            parts = [self._by_experiment[name] for name in experiments if name in self._by_experiment]
            runs = pd.concat(parts).sort_index() if parts else self._nothing
            self._read[at] = conditions.under(runs[rows(runs, aside)], claim.requires)
        return self._read[at]


def _by_system(
    claim: Claim,
    systems: Mapping[tuple[str, str], System],
    confidence: float,
    calibrations: Mapping[str, Calibration],
) -> Iterator[dict[str, Any]]:
    for backend in sorted({backend for backend, _ in systems}):
        decided = [
            {"system": f"{backend}-{workload}", "backend": backend, "workload": workload}
            | _decide_by_either(claim, system, confidence, workload, calibrations.get(backend))
            for (owner, workload), system in systems.items()
            if owner == backend and system.measured([*claim.experiments, claim.instead])
        ]
        if measured := [each for each in decided if each["verdict"] != "not measured"]:
            yield from measured
            continue
        why = "; ".join(f"{each['workload']}: {each['missing']}" for each in decided)
        nothing = decided[0] if decided else _NOTHING | _not_measured(claim, claim.experiments[0])
        yield nothing | {"system": backend, "backend": backend, "workload": ""} | ({"missing": why} if why else {})


def _decide_by_either(
    claim: Claim, system: System, confidence: float, workload: str, calibration: Calibration | None
) -> dict[str, Any]:
    """By the runs of the claim's experiments; where these cannot decide it, by those of claim.instead.

    They cannot where they do not meet the conditions, or have too few flows for a percentile. Flows that failed are no
    such reason: to read others would flatter.
    """

    def decides(verdict: Mapping[str, Any]) -> bool:
        too_few_flows = verdict["repetitions"] == 0 and bool(verdict["repetitions_needed"])
        return verdict["verdict"] not in UNJUDGED and not too_few_flows

    found = _decide(claim, system, confidence, workload, calibration)
    if not claim.instead or decides(found):
        return found
    of = {**claim.effect.of, "experiment": claim.instead}
    other = claim.model_copy(update={"effect": claim.effect.model_copy(update={"of": of})})
    by_others = _decide(other, system, confidence, workload, calibration)
    if not decides(by_others):
        return found
    notes = f"of runs of {claim.instead}"
    return by_others | {"notes": "; ".join(filter(None, [notes, by_others["notes"]]))}


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("value", "low", "high", "p", "p_holm", "floor"), np.nan),
    "repetitions": 0,
    "repetitions_needed": None,
    **dict.fromkeys(("cells", "size", "notes", "unmet", "reason"), ""),
}


def _not_measured(claim: Claim, experiment: str) -> dict[str, Any]:
    return {"verdict": "not measured", "missing": f"no runs of {experiment}{_special(claim)}"}


def _decide(
    claim: Claim, system: System, confidence: float, workload: str, calibration: Calibration | None
) -> dict[str, Any]:
    runs = system.runs(claim, claim.experiments)
    there = set(runs["experiment"])
    for experiment in claim.experiments:
        if experiment not in there:
            return _NOTHING | _not_measured(claim, experiment)
    try:
        found, points = _found(claim, runs, confidence, workload, calibration)
    except NotMeasured as error:
        return _NOTHING | {"verdict": "not measured", "missing": str(error)}
    unmet = conditions.unmet(claim.requires, runs, claim.effect.drivers, points)
    if not unmet:
        return _NOTHING | found
    why = {"unmet": ", ".join(each.name for each in unmet), "missing": "; ".join(each.why for each in unmet)}
    incomparable = {"verdict": "not comparable", "repetitions_needed": None, "size": "", "p": np.nan, "reason": ""}
    return _NOTHING | found | incomparable | why


def _found(
    claim: Claim, runs: pd.DataFrame, confidence: float, workload: str, calibration: Calibration | None
) -> tuple[dict[str, Any], int | None]:
    """What is found, whatever the conditions; and how many points it rests on, None where that is not known."""

    asked = "".join(runs["congestion_control"].unique()[:1])  # they have one (conditions.under)
    parameters = {"congestion_control": asked} if asked else None

    def floor_of(found: Found) -> NoiseFloor | None:
        return calibration.floor(found.contrast, workload, found.found.n, parameters) if calibration else None

    try:
        effect = contrasts.find(claim.effect, runs)
    except FlowsFailed as error:
        return {"verdict": "undecided", "missing": str(error), "reason": "flows failed"}, None
    except TooFewFlows as error:
        needed = {"repetitions_needed": error.repetitions_needed}
        return {"verdict": "undecided", "missing": str(error), "reason": "too few flows"} | needed, None
    return judgement.judge(claim, effect, confidence, floor_of), effect.points


def _special(claim: Claim) -> str:
    named = {name: value for name, value in claim.effect.aside.items() if name in claim.effect.of}
    return "".join(f" with {name} {value:g}" for name, value in named.items())


def claimed(claim: Claim) -> str:
    """Where the effect lies by the claim, such as "> 0.0 %"."""
    bound = ledger.shown(claim.than, claim.unit)
    if claim.claimed == "equal":
        return f"{bound} ± {ledger.shown(claim.margin, claim.unit)}"
    return f"{'>' if claim.claimed == 'more' else '<'} {bound}"
