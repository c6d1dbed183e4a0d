"""Verdicts on the papers' findings by a set of runs: one for each claim of the ledger and each system.

holds         the interval lies wholly on the claimed side, and not within the margin of no effect; if the papers state
              a size, the interval includes it
holds in direction  the same, but the published size differs, or cannot be compared (`size` says which)
contradicted  the interval lies wholly on the other side, or within that margin (a claim of equality: wholly outside)
undecided     the interval does neither, or the effect is below this host's noise floor (noise_floor.py), if recorded:
              more repetitions are needed, and a plan says how many. Or completion times depend on failed flows: no plan
              helps, and `missing` says so
not comparable  the runs do not meet a condition under which the papers state the claim, or are not known to
              (conditions.py); `missing` names it in words. The estimate is given all the same
not measured  the runs lack a cell; `missing` names it

A claim that holds by construction of the experiment is no finding (`by_construction`), and is not counted.

The claims are in data/claims.yaml (ledger.py); contrasts.py estimates their effects (effect.py) from one value per
repetition (run_table.py). Systems (backend and workload) are never pooled.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis import repetitions, selection
from pairlab.analysis.claims import conditions, contrasts, judgement, ledger, run_table
from pairlab.analysis.claims.cells import rows
from pairlab.analysis.claims.effect import Found, Undecidable, percentile_of
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.comparison.noise_floor import Calibration, NoiseFloor
from pairlab.analysis.comparison.twins import Conditions, Noise
from pairlab.analysis.selection import NOT_IN_PAPERS
from pairlab.errors import NoRuns, NotMeasured
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.statistics import tests
from pairlab.store.dataset import Runs

VERDICTS = ("holds", "holds in direction", "contradicted", "undecided", "not comparable", "not measured")
#: The verdicts that a test decides: p is at most 1 - confidence.
DECIDED = ("holds", "holds in direction", "contradicted")
#: The verdicts that judge nothing.
UNJUDGED = ("not comparable", "not measured")

#: The columns of evaluate, in order.
COLUMNS = (
    *("id", "statement", "papers", "experiment", "sources", "system", "backend", "workload", "claimed", "published"),
    *("value", "low", "high", "unit", "repetitions", "cells", "verdict", "repetitions_needed", "missing", "size"),
    *("p", "p_holm", "notes", "confidence", "floor", "requires", "unmet", "false_if", "by_construction", "reason"),
)
#: The columns that are attributes of a claim.
_OF_CLAIMS = ("id", "statement", "unit", "false_if", "by_construction")


def evaluate(
    runs: Runs,
    *,
    confidence: float = 0.95,
    claims: Iterable[Claim] | None = None,
    calibrations: Mapping[str, Calibration] | None = None,
) -> pd.DataFrame:
    """A row per claim and system, with COLUMNS.

    A system is a backend and a workload. A claim has a row for each system that measured it; a backend without such a
    system has one row "not measured", whose system is the backend alone and whose `missing` says why. value, low, high
    and published are in `unit`. size compares the published size with the interval: agrees, smaller or larger here,
    mixed if the parts of a claim differ in this, not compared if another number of pairs stands in; none published;
    equality, which has none; empty if nothing is judged. p: of the deciding test (judgement.judge); p_holm: with Holm's
    correction over a paper's findings judged here, in all systems, and of several papers the largest; missing if
    by_construction says why the claim is no finding. repetitions_needed: in all, for an undecided claim, with 80 %
    power if mean and spread stay; missing if unknown or above power.MOST_REPETITIONS. floor, in percent: the smallest
    effect that this host can distinguish from its noise at so many repetitions, missing without a record. requires: the
    conditions of the claim in words; unmet: the short names of unmet conditions; false_if: what would make the claim
    false; reason: the reason for the verdict, as a clause on the interval. calibrations: the records by backend, by
    default those beside the runs (noise_floor.of_runs; floor_remark names them). Raises NoRuns if no run counts,
    AnalysisError if runs do not belong together (run_table.reduce).
    """
    claims = ledger.load() if claims is None else tuple(claims)
    named, wanted = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for claim in claims:
        for experiment in claim.experiments:
            named[experiment] |= claim.effect.fields_beyond
        for experiment in filter(None, [*claim.experiments, claim.instead]):
            wanted[experiment].update(claim.effect.columns)
    frame = run_table.reduce(runs, wanted, named)
    if frame.empty:
        raise NoRuns(f"none of the {len(runs)} runs decides a claim: {_why_none(runs)}")
    noise = Noise(runs, calibrations)
    systems = [System(names, part, named, confidence, noise) for names, part in frame.groupby(list(selection.SYSTEM))]
    rows = [
        {
            **{name: getattr(claim, name) for name in _OF_CLAIMS},
            "papers": ledger.papers(claim),
            "experiment": claim.experiments[0],
            "sources": "; ".join(map(str, claim.sources)),
            "claimed": claimed(claim),
            "published": claim.published.value if claim.published else np.nan,
            "confidence": confidence,
            "requires": str(claim.requires),
            **decided,
        }
        for claim in claims
        for decided in _by_system(claim, systems)
    ]
    verdicts = pd.DataFrame(rows, columns=list(COLUMNS))
    verdicts["repetitions_needed"] = verdicts["repetitions_needed"].astype("Int64")
    verdicts["p_holm"] = _corrected(verdicts)
    return verdicts


def _corrected(verdicts: pd.DataFrame) -> pd.Series:
    """p after Holm's correction over the findings of each paper; of several papers, the largest."""
    findings = verdicts[verdicts["by_construction"] == ""]
    by_paper = findings["papers"].str.split(", ").explode()
    corrected = pd.Series(np.nan, index=verdicts.index)
    for stated in by_paper.groupby(by_paper).groups.values():
        holm = pd.Series(tests.holm(findings.loc[stated, "p"]), index=stated)
        corrected[stated] = np.fmax(corrected[stated], holm)
    return corrected


def _why_none(runs: Runs) -> str:
    counted = [run.spec for run in runs if run.status == "ok"]
    if not counted:
        return "none is ok"
    changed = {name for spec in counted for name in spec.model_dump(exclude_defaults=True)}
    return f"they ask for what the papers did not ({', '.join(name for name in NOT_IN_PAPERS if name in changed)})"


def _value_of(quantity: str, run: Run) -> float:
    """A quantity of one run; a percentile is of the run's own flows."""
    times, q = percentile_of(quantity) or (quantity, 0.0)
    values = repetitions.values(run, [times])[times]
    return float(np.quantile(values, q)) if q and len(values) else values if not q else 0.0


class System:
    """The runs of one backend and workload (names), and their verdicts.

    named: by experiment, the fields that claims name (run_table.reduce). Claims on the same runs share one selection.
    """

    def __init__(
        self,
        names: tuple[str, str],
        frame: pd.DataFrame,
        named: Mapping[str, Collection[str]],
        confidence: float,
        noise: Noise,
    ):
        self.backend, self.workload = names
        self._named, self._confidence, self._noise = named, confidence, noise
        self._by_experiment = dict(list(frame.groupby("experiment")))
        self._nothing = frame.iloc[:0]
        self._read: dict[tuple, pd.DataFrame] = {}

    def decided(self, claim: Claim) -> Iterator[dict[str, Any]]:
        """The row of a claim; none without runs of its experiments.

        The runs are of the claim's experiments; if these cannot decide, of claim.instead. Runs cannot decide if they do
        not meet the conditions, or have too few flows for a percentile. Failed flows are no such reason: to read other
        runs would flatter.
        """
        if self._by_experiment.keys().isdisjoint([*claim.experiments, claim.instead]):
            return
        row = self._decide(claim)
        if claim.instead and not _decides(row):
            of = {**claim.effect.of, "experiment": claim.instead}
            other = claim.model_copy(update={"effect": claim.effect.model_copy(update={"of": of})})
            by_instead = self._decide(other)
            if _decides(by_instead):
                notes = filter(None, [f"of runs of {claim.instead}", by_instead["notes"]])
                row = by_instead | {"notes": "; ".join(notes)}
        names = {"system": f"{self.backend}-{self.workload}", "backend": self.backend, "workload": self.workload}
        yield names | row

    def _decide(self, claim: Claim) -> dict[str, Any]:
        runs = self._runs(claim)
        measured = set(runs["experiment"])
        for experiment in claim.experiments:
            if experiment not in measured:
                return _NOTHING | _not_measured(claim, experiment)
        try:
            row, points = self._found(claim, runs)
        except NotMeasured as error:
            return _NOTHING | {"verdict": "not measured", "missing": str(error)}
        unmet = conditions.unmet(claim.requires, runs, claim.effect.drivers, points, claim.effect.quantities)
        if not unmet:
            return _NOTHING | row
        why = {"unmet": ", ".join(each.name for each in unmet), "missing": "; ".join(each.why for each in unmet)}
        incomparable = {"verdict": "not comparable", "repetitions_needed": None, "size": "", "p": np.nan, "reason": ""}
        return _NOTHING | row | incomparable | why

    def _found(self, claim: Claim, runs: pd.DataFrame) -> tuple[dict[str, Any], int | None]:
        """The row whatever the conditions, and the number of points behind it, None if unknown."""
        try:
            effect = contrasts.find(claim.effect, runs)
        except Undecidable as error:
            why = {"missing": str(error), "reason": error.reason, "repetitions_needed": error.repetitions_needed}
            return {"verdict": "undecided", **why}, None
        return judgement.judge(claim, effect, self._confidence, partial(self._floor, claim, runs)), effect.points

    def _floor(self, claim: Claim, runs: pd.DataFrame, effect: Found) -> NoiseFloor | None:
        """The noise floor of an effect: no verdict may rest on less."""
        if (contrast := effect.contrast) is None:
            return None
        control = "".join(runs["congestion_control"].unique()[:1])  # one (conditions.under), unless a claim names it
        parameters = {"congestion_control": control} if control else None
        cells = ((name, pairs) for name in claim.experiments for pairs in contrast.pairs)
        under = [(Conditions(name, self.backend, self.workload, pairs), parameters) for name, pairs in cells]
        return self._noise.floor(contrast, under, effect.found.n, partial(_value_of, contrast.quantity))

    def _runs(self, claim: Claim) -> pd.DataFrame:
        """The runs of a claim: unnamed FACTORS_BESIDE_PAPERS, and fields that only other claims name, are default."""
        own = (experiment for experiment in claim.experiments if not selection.is_own(experiment))
        others = {name for experiment in own for name in self._named.get(experiment, ())} - claim.effect.factors
        aside = {**claim.effect.aside, **{name: Spec.model_fields[name].default for name in sorted(others)}}
        names_control = "congestion_control" in claim.effect.factors
        at = (claim.experiments, *aside.items(), claim.requires.congestion_control, names_control)
        if at not in self._read:
            parts = [self._by_experiment[name] for name in claim.experiments if name in self._by_experiment]
            runs = pd.concat(parts).sort_index() if parts else self._nothing
            chosen = runs[rows(runs, aside)]
            self._read[at] = chosen if names_control else conditions.under(chosen, claim.requires)
        return self._read[at]


def _decides(verdict: Mapping[str, Any]) -> bool:
    too_few_flows = verdict["repetitions"] == 0 and bool(verdict["repetitions_needed"])
    return verdict["verdict"] not in UNJUDGED and not too_few_flows


def _by_system(claim: Claim, systems: Sequence[System]) -> Iterator[dict[str, Any]]:
    for backend in sorted({system.backend for system in systems}):
        decided = [row for system in systems if system.backend == backend for row in system.decided(claim)]
        if measured := [each for each in decided if each["verdict"] != "not measured"]:
            yield from measured
            continue
        why = "; ".join(f"{each['workload']}: {each['missing']}" for each in decided)
        nothing = decided[0] if decided else _NOTHING | _not_measured(claim, claim.experiments[0])
        yield nothing | {"system": backend, "backend": backend, "workload": ""} | ({"missing": why} if why else {})


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("value", "low", "high", "p", "p_holm", "floor"), np.nan),
    "repetitions": 0,
    "repetitions_needed": None,
    **dict.fromkeys(("cells", "size", "notes", "unmet", "reason"), ""),
}


def _not_measured(claim: Claim, experiment: str) -> dict[str, Any]:
    named = {name: value for name, value in claim.effect.aside.items() if name in claim.effect.of}
    special = "".join(f" with {name} {value:g}" for name, value in named.items())
    return {"verdict": "not measured", "missing": f"no runs of {experiment}{special}"}


def claimed(claim: Claim) -> str:
    """Where the effect lies by the claim, such as "> 0.0 %"."""
    bound = ledger.shown(claim.than, claim.unit)
    if claim.claimed == "equal":
        return f"{bound} ± {ledger.shown(claim.margin, claim.unit)}"
    return f"{'>' if claim.claimed == 'more' else '<'} {bound}"
