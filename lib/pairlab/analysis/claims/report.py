"""How verdicts on claims show: as tables for a reader and for the paper, as keyed numbers, and as JSON for programs."""

import json
from collections.abc import Iterable

import numpy as np
import pandas as pd

from pairlab.analysis.claims import ledger
from pairlab.analysis.claims import verdicts as verdicts_of
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.claims.verdicts import VERDICTS
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.provenance import Origin
from pairlab.statistics.intervals import no_interval
from pairlab.store.dataset import Runs

#: More repetitions than anybody would measure: no number above it is told.
MOST_TOLD = 100
UNDECIDABLE, UNKNOWN = "more than this host can decide", "not known"
_NOT_MEASURED = "not measured"
#: What a reader must know of many verdicts at once.
POLICY = (
    "Every interval has its own confidence and nothing is corrected for their number, so among many claims a few"
    " verdicts may be wrong. A claim on several steps, sizes or settings holds where it does for each, and is"
    " contradicted where one contradicts it at a confidence that is corrected for how many they are (Bonferroni); the"
    " one told is the one that decides. What was measured under other conditions than the papers' is not comparable,"
    " and decides nothing. p is of the two-sided t test against the value that the claim names (for equality, the"
    " larger p of two one-sided tests), and p_holm is p with Holm's correction over all claims of a system that runs"
    " decide or leave undecided."
)


def counts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many claims got which verdict: a row per system, a column for each of VERDICTS."""
    table = pd.crosstab(verdicts["system"], verdicts["verdict"])
    return table.reindex(columns=list(VERDICTS), fill_value=0).rename_axis(index="System", columns=None)


def display(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts as text: a row per claim and system, for a notebook or a terminal."""
    return pd.DataFrame(
        {
            "Claim": verdicts["statement"],
            "Paper": verdicts["papers"],
            "System": verdicts["system"],
            "Verdict": verdicts["verdict"],
            "Claimed": verdicts["claimed"],
            "Published": [ledger.shown(row.published, row.unit) for row in verdicts.itertuples()],
            "Here": [effect(row) for row in verdicts.itertuples()],
            "Size": verdicts["size"],
            "Of": [_rests_on(row) for row in verdicts.itertuples()],
        },
        index=verdicts.index,
    )


def _unjudged_ids(verdicts: pd.DataFrame) -> set[str]:
    by_claim = verdicts.groupby("id")["verdict"].agg(common_verdict)
    return set(by_claim.index[by_claim == "not judged"])


def _ids_without_runs(verdicts: pd.DataFrame) -> set[str]:
    """The claims on an experiment of which no system measured anything that a claim is on."""
    measured = set(verdicts.loc[verdicts["verdict"] != _NOT_MEASURED, "experiment"])
    return set(verdicts.loc[~verdicts["experiment"].isin(measured), "id"])


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))


def floor_remark(verdicts: pd.DataFrame, runs: Runs) -> str:
    """What a reader must know of the noise floors behind these verdicts on `runs`: noise_floor.remark."""
    return noise_floor.remark(noise_floor.of_runs(runs), sorted(verdicts["backend"].unique()))


def values(verdicts: pd.DataFrame, runs: Runs) -> Values:
    r"""The keyed numbers, all below `claims/`.

    - runs, left-out, confidence, policy, noise-floor; claims and unjudged: how many there are on experiments of which
      there are runs, and how many of these no system judged; without-runs: how many others, where there are any;
    - systems (a list);
    - all/<verdict> and <system>/count/<verdict>: how many, with "-" for the spaces of a verdict;
    - of/<experiment>/verdicts: how many on the experiment, over all systems, as a clause;
    - not-comparable/<condition>: how many verdicts lack it, with "-" for spaces;
    - <id>/verdict: that of all systems, as common_verdict; by-system: where it is which, as a predicate;
    - <id>/false-if, requires: what would make it false, and the conditions under which it is stated;
    - <id>/<system>/verdict, claimed, published; reason, where judged; where measured, estimate, interval, effect
      (both), repetitions, cells, size; missing, which also says why one is not comparable; floor, where one is
      recorded; needed, where undecided and known.
    """
    found = Values("claims")
    found.number("runs", sum(run.status == "ok" for run in runs), 0)
    found.number("left-out", len(runs) + len(runs.unread) - sum(run.status == "ok" for run in runs), 0)
    found.text("confidence", f"{verdicts['confidence'].iloc[0] * 100:g} %")
    found.text("policy", POLICY)
    found.text("noise-floor", floor_remark(verdicts, runs))
    without_runs = _ids_without_runs(verdicts)
    found.number("claims", verdicts["id"].nunique() - len(without_runs), 0)
    if without_runs:
        found.number("without-runs", len(without_runs), 0)
    found.number("unjudged", len(_unjudged_ids(verdicts) - without_runs), 0)
    by_system = counts(verdicts)
    found.names("systems", list(by_system.index))
    for verdict in VERDICTS:
        found.number(f"all/{verdict.replace(' ', '-')}", by_system[verdict].sum(), 0)
        for system in by_system.index:
            found.number(f"{system}/count/{verdict.replace(' ', '-')}", by_system.loc[system, verdict], 0)
    for experiment, mine in verdicts.groupby("experiment", sort=False):
        found.text(f"of/{experiment}/verdicts", _counted(mine["verdict"]))
    lacking = verdicts["unmet"].str.split(", ").explode()
    for name, number in lacking[lacking != ""].value_counts(sort=False).items():
        found.number(f"not-comparable/{name.replace(' ', '-')}", number, 0)
    for name, mine in verdicts.groupby("id", sort=False):
        found.text(f"{name}/verdict", common_verdict(mine["verdict"]))
        found.text(f"{name}/by-system", _by_verdict(mine))
    for row in verdicts.itertuples():
        key = f"{row.id}/{row.system}"
        found.text(f"{key}/verdict", row.verdict)
        found.text(f"{key}/claimed", row.claimed)
        found.text(f"{key}/published", ledger.shown(row.published, row.unit) or "no size stated")
        if row.reason:
            found.text(f"{key}/reason", row.reason)
        found.text(f"{row.id}/false-if", row.false_if)
        found.text(f"{row.id}/requires", row.requires or "no conditions")
        if row.repetitions:
            found.text(f"{key}/estimate", ledger.shown(row.value, row.unit))
            found.text(f"{key}/interval", _interval(row) or no_interval(row.repetitions))
            found.text(f"{key}/effect", effect(row))
            found.number(f"{key}/repetitions", row.repetitions, 0)
            found.text(f"{key}/cells", row.cells)
            found.text(f"{key}/size", row.size or "not compared")
        if not np.isnan(row.floor):
            found.text(f"{key}/floor", ledger.shown(row.floor, "%"))
        if row.missing:
            found.text(f"{key}/missing", row.missing)
        if row.verdict == "undecided" and (needed := plan(row)) != UNKNOWN:
            found.text(f"{key}/needed", needed)
    return found


def _counted(verdicts: pd.Series) -> str:
    """How many are what, as a clause: "3 hold, 1 is contradicted and 2 are not measured"."""
    numbers = [(int((verdicts == name).sum()), name) for name in VERDICTS]
    told = [
        f"{number} {'hold' + 's' * (number == 1) if name == 'holds' else ('is ' if number == 1 else 'are ') + name}"
        for number, name in numbers
        if number
    ]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]


def common_verdict(verdicts: Iterable[str]) -> str:
    """The verdict on a claim over systems, for words that are to stand only where all that could judge it agree.

    "mixed" where they differ; "not judged" where none could: it was not measured, or not under the papers' conditions.
    """
    judged = set(verdicts) & {"holds", "contradicted", "undecided"}
    if len(judged) > 1:
        return "mixed"
    return judged.pop() if judged else "not judged"


def _by_verdict(verdicts: pd.DataFrame) -> str:
    """In which systems that judged it a claim has which verdict, to be put behind the claim."""
    words = {"holds": "holds", "contradicted": "is contradicted", "undecided": "is undecided"}
    systems = {verdict: verdicts["system"][verdicts["verdict"] == verdict] for verdict in words}
    return " and ".join(f"{words[verdict]} in {_joined(mine)}" for verdict, mine in systems.items() if len(mine))


def described(claim: Claim) -> dict[str, str]:
    """A claim as it stands in the ledger, in words, without any runs: what it says, and what would make it false."""
    told = {
        "Claim": claim.statement,
        "False if": claim.false_if,
        "Stated in": "; ".join(map(str, claim.sources)),
        "Runs of": ", ".join(claim.experiments) + (f", else of {claim.instead}" if claim.instead else ""),
        "Required": str(claim.requires) or "no conditions",
        "Decided by": f"{claim.effect}, {verdicts_of.claimed(claim)}",
        "Margin": ledger.shown(claim.margin, claim.unit),
        "Published": ledger.shown(claim.published.value, claim.unit) if claim.published else "",
        "Note": claim.note,
    }
    return {name: text for name, text in told.items() if text}


def false_if(verdicts: pd.DataFrame) -> pd.DataFrame:
    """What would make each claim false, and the conditions under which it was stated: a row per claim."""
    once = verdicts.drop_duplicates("id")
    columns = {"Claim": once["statement"], "False if": once["false_if"], "Required": once["requires"]}
    return pd.DataFrame(columns).reset_index(drop=True)


def as_json(verdicts: pd.DataFrame, origin: Origin, remark: str) -> str:
    """For programs: {"format": 1, "origin", "policy", "noise_floor", "counts", "verdicts"}; what there is not is null.

    remark: floor_remark.
    """
    found = {
        "format": 1,
        "origin": str(origin),
        "policy": POLICY,
        "noise_floor": remark,
        "counts": counts(verdicts).to_dict(orient="index"),
        "verdicts": json.loads(verdicts.to_json(orient="records", double_precision=15)),
    }
    return json.dumps(found, indent=1)


def _interval(row) -> str:
    if np.isnan(row.low):
        return ""
    return f"[{ledger.number(row.low, row.unit)}, {ledger.number(row.high, row.unit)}]{ledger.behind(row.unit)}"


def effect(row) -> str:
    """The effect with its interval, and their unit once."""
    if not row.repetitions:
        return ""
    if np.isnan(row.low):
        return ledger.shown(row.value, row.unit)
    return f"{ledger.number(row.value, row.unit)} {_interval(row)}"


def plan(row) -> str:
    """How many repetitions would decide an undecided claim, as text."""
    if pd.isna(row.repetitions_needed):
        return UNKNOWN if np.isnan(row.low) else UNDECIDABLE
    return str(row.repetitions_needed) if row.repetitions_needed <= MOST_TOLD else UNDECIDABLE


def _rests_on(row) -> str:
    missing = f"not comparable here: {row.missing}" if row.verdict == "not comparable" else row.missing
    parts = [missing, row.cells, f"n = {row.repetitions}" if row.repetitions else "", row.notes]
    if row.verdict == "undecided":
        parts.append(f"to decide: n = {plan(row)}")
    return "; ".join(filter(None, parts))
