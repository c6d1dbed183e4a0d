"""How verdicts on claims show: as tables for a reader and for the paper, as keyed numbers, and as JSON for programs."""

import json
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from pairlab.analysis.claims import judgement, ledger
from pairlab.analysis.claims import verdicts as verdicts_of
from pairlab.analysis.claims.ledger import Claim
from pairlab.analysis.claims.verdicts import DECIDED, UNJUDGED, VERDICTS
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.comparison.twins import Twins
from pairlab.analysis.output.formatting import p_text
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.provenance import Origin
from pairlab.statistics.intervals import no_interval
from pairlab.store.dataset import Runs

#: More repetitions than anybody would measure: no number above is reported.
MOST_TOLD = 100
UNDECIDABLE, UNKNOWN = "more than this host can decide", "not known"
#: The verdicts of all systems on a claim, as common_verdict.
COMMON = (*VERDICTS[: -len(UNJUDGED)], "mixed", "not judged")
#: Reasons that are evident from the interval and the claimed value.
_EVIDENT = re.compile(r"(above|below|outside|inside|partly outside|includes) (?!the noise)")
#: How to read many verdicts at once.
POLICY = (
    "Every interval has its own confidence, so among many claims a few verdicts may be wrong: p is of the test that"
    " decides (two-sided, against the value that the claim names; within a margin, the larger p of two such tests, one"
    " for each edge), and behind it stands p with Holm's correction over all findings of a paper that runs decide or"
    " leave undecided. A claim on several steps, sizes or settings holds where it does for each, and is contradicted"
    " where one contradicts it at a confidence that is corrected for how many they are (Bonferroni); the one told is"
    " the one that decides. One that holds in direction has another size than the published one, or cannot be compared"
    " with it. What was measured under other conditions than the papers' is not comparable, and decides nothing. What"
    " holds by construction is no finding: it is listed apart, and not counted."
)


def findings(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts that are findings: not by construction."""
    return verdicts[verdicts["by_construction"] == ""]


def by_construction(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The other verdicts: their experiment leaves no other outcome."""
    return verdicts[verdicts["by_construction"] != ""]


def counts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The number of findings by verdict: a row per system, a column for each of VERDICTS."""
    rows = findings(verdicts)
    systems = sorted(verdicts["system"].unique())
    table = pd.crosstab(rows["system"], rows["verdict"]).reindex(systems, columns=list(VERDICTS), fill_value=0)
    return table.rename_axis(index="System", columns=None)


def counts_by_paper(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The same by paper, over all systems; a finding of several papers counts for each.

    Further columns: "decided", the number in DECIDED, and "after Holm", the number of those whose corrected p is still
    at most 1 - confidence.
    """
    listed = findings(verdicts)
    listed = listed.assign(Paper=listed["papers"].str.split(", ")).explode("Paper", ignore_index=True)
    table = pd.crosstab(listed["Paper"], listed["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    for name, rows in (("decided", decided(listed)), ("after Holm", after_holm(listed))):
        table[name] = rows.groupby("Paper").size().reindex(table.index, fill_value=0)
    return table.rename_axis(columns=None)


def decided(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The findings that a test decided."""
    rows = findings(verdicts)
    return rows[rows["verdict"].isin(DECIDED)]


def after_holm(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The decided findings that are still decided after Holm's correction over a paper's findings."""
    rows = decided(verdicts)
    return rows[rows["p_holm"] <= 1 - rows["confidence"] + 1e-12]


def with_published_size(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The findings that hold with the published size; the others that hold have no size to compare."""
    rows = findings(verdicts)
    return rows[(rows["verdict"] == "holds") & (rows["size"] == judgement.AGREES)]


def summary(verdicts: pd.DataFrame) -> str:
    """The counts in sentences: findings by verdict, those left after correction, and claims by construction."""
    counted, apart = findings(verdicts), by_construction(verdicts)
    numbers = counted["verdict"].value_counts()
    sized = len(with_published_size(verdicts))
    claims, systems = counted["id"].nunique(), counted["system"].nunique()
    parts = {name: f"{numbers.get(name, 0)} {name}" for name in VERDICTS}
    parts["holds"] += f" ({sized} with the published size, {numbers.get('holds', 0) - sized} without a size to compare)"
    alpha = 1 - verdicts["confidence"].iloc[0]
    lines = [
        f"Of {claims} claims in {systems} systems, verdicts: {', '.join(parts.values())}.",
        f"Of {len(decided(verdicts))} that are decided, {len(after_holm(verdicts))} have p of at most {alpha:.2g} with"
        " Holm's correction over the findings of a paper.",
    ]
    if len(apart):
        listing = ", ".join(f"{number} {name}" for name, number in apart["verdict"].value_counts(sort=False).items())
        lines.append(f"By construction, and counted with none of these: {apart['id'].nunique()} claims ({listing}).")
    return "\n".join(lines)


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
            "p (Holm)": [p_values(row) for row in verdicts.itertuples()],
            "Of": [_rests_on(row) for row in verdicts.itertuples()],
        },
        index=verdicts.index,
    )


def floor_remark(verdicts: pd.DataFrame, runs: Runs) -> str:
    """The remark on the noise floors behind these verdicts on `runs`: noise_floor.remark."""
    return noise_floor.remark(noise_floor.of_runs(runs), sorted(verdicts["backend"].unique()), Twins(runs).backends)


def values(verdicts: pd.DataFrame, runs: Runs) -> Values:
    r"""The keyed numbers, all below `claims/`.

    - runs, left-out, confidence, policy, noise-floor; claims: the number of findings on experiments with runs;
      common/<verdict>: of these, by the verdict of all systems (COMMON); common/contradicted-after-holm: of these, with
      Holm's correction in some system; common/not-measured and not-comparable: the two parts of common/not-judged;
      without-runs: the number of other findings, if any; by-construction: the number of claims that are no findings, in
      no other number;
    - systems (a list);
    - all/<verdict> and <system>/count/<verdict>: the number, with "-" for the spaces of a verdict; all/size-agrees: of
      all/holds, those with the published size; all/no-size: the others; all/decided and all/after-holm: see
      counts_by_paper; all/with-floor: of all/decided, those with a noise floor; papers/<key>/<verdict>, decided,
      after-holm: the same of a paper;
    - of/<experiment>/verdicts: the numbers for the experiment, over all systems, as a clause;
    - not-comparable/<condition>: the number of verdicts without it, in lower case and with "-" for spaces;
    - <id>/verdict: that of all systems, as common_verdict; by-system: the systems of each verdict, as a predicate;
    - <id>/false-if, requires: what would make the claim false, and its conditions; published: the size, if any;
    - <id>/<system>/verdict, claimed, published; reason, if judged; if measured, estimate, interval, effect (both),
      repetitions, cells, size, p and p-holm if defined; missing, which also says why a claim is not comparable; floor,
      if recorded; needed, if undecided and known; where, if judged: the cells and why it is undecided, where its
      interval does not show it; undecided-after-holm: p with Holm's correction, if that undoes the verdict.
    """
    keyed = Values("claims")
    keyed.number("runs", sum(run.status == "ok" for run in runs), 0)
    keyed.number("left-out", len(runs) + len(runs.unread) - sum(run.status == "ok" for run in runs), 0)
    keyed.text("confidence", f"{verdicts['confidence'].iloc[0] * 100:g} %")
    keyed.text("policy", POLICY)
    keyed.text("noise-floor", floor_remark(verdicts, runs))
    _put_counts(keyed, verdicts, runs)
    lacking = findings(verdicts)["unmet"].str.split(", ").explode()
    for name, number in lacking[lacking != ""].value_counts(sort=False).items():
        keyed.number(f"not-comparable/{_keyed(name)}", number, 0)
    for name, rows in verdicts.groupby("id", sort=False):
        keyed.text(f"{name}/verdict", common_verdict(rows["verdict"]))
        keyed.text(f"{name}/by-system", _by_verdict(rows))
        if size := ledger.shown(rows["published"].iloc[0], rows["unit"].iloc[0]):
            keyed.text(f"{name}/published", size)
    undone = {*decided(verdicts).index} - {*after_holm(verdicts).index}
    for row in verdicts.itertuples():
        if row.Index in undone:
            keyed.text(f"{row.id}/{row.system}/undecided-after-holm", p_text(row.p_holm))
        keyed.text(f"{row.id}/false-if", row.false_if)
        keyed.text(f"{row.id}/requires", row.requires or "no conditions")
        for name, text in _texts(row).items():
            if text:
                keyed.text(f"{row.id}/{row.system}/{name}", text)
    return keyed


def _texts(row) -> dict[str, str]:
    """The texts of a verdict below its id and system; empty: none."""
    value, bounds = ledger.estimate(row.value, row.low, row.high, row.unit)
    measured = {
        "estimate": value,
        "interval": bounds or no_interval(row.repetitions),
        "effect": effect(row),
        "repetitions": str(row.repetitions),
        "cells": row.cells,
        "size": row.size or judgement.NOT_COMPARED,
    }
    return {
        "verdict": row.verdict,
        "claimed": row.claimed,
        "published": ledger.shown(row.published, row.unit) or "no size stated",
        "reason": row.reason,
        **(measured if row.repetitions else {}),
        "p": "" if np.isnan(row.p) else p_text(row.p),
        "p-holm": "" if np.isnan(row.p_holm) else p_text(row.p_holm),
        "floor": ledger.shown(row.floor, "%"),
        "missing": row.missing,
        "needed": plan(row).replace(UNKNOWN, "") if row.verdict == "undecided" else "",
        "where": "" if row.verdict in UNJUDGED else ", ".join(filter(None, [row.cells, why_undecided(row)])),
    }


def _put_counts(keyed: Values, verdicts: pd.DataFrame, runs: Runs) -> None:
    counted = findings(verdicts)
    of_claims = counted.groupby("id").agg({"experiment": "first", "verdict": common_verdict})
    with_runs = of_claims[of_claims["experiment"].isin({run.spec.experiment for run in runs if run.status == "ok"})]
    keyed.number("claims", len(with_runs), 0)
    if others := len(of_claims) - len(with_runs):
        keyed.number("without-runs", others, 0)
    for verdict in COMMON:
        keyed.number(f"common/{_keyed(verdict)}", (with_runs["verdict"] == verdict).sum(), 0)
    some_left = with_runs.index.isin(after_holm(verdicts)["id"])
    keyed.number("common/contradicted-after-holm", (some_left & (with_runs["verdict"] == "contradicted")).sum(), 0)
    measured = with_runs.index.isin(counted.loc[counted["verdict"] != "not measured", "id"])
    keyed.number("common/not-measured", (~measured).sum(), 0)
    keyed.number("common/not-comparable", (measured & (with_runs["verdict"] == "not judged")).sum(), 0)
    keyed.number("by-construction", by_construction(verdicts)["id"].nunique(), 0)
    by_system, sized = counts(verdicts), len(with_published_size(verdicts))
    keyed.names("systems", sorted(verdicts["system"].unique()))
    for verdict in VERDICTS:
        keyed.number(f"all/{_keyed(verdict)}", by_system[verdict].sum(), 0)
        for system in by_system.index:
            keyed.number(f"{system}/count/{_keyed(verdict)}", by_system.loc[system, verdict], 0)
    keyed.number("all/size-agrees", sized, 0)
    keyed.number("all/no-size", by_system["holds"].sum() - sized, 0)
    keyed.number("all/decided", len(decided(verdicts)), 0)
    keyed.number("all/after-holm", len(after_holm(verdicts)), 0)
    keyed.number("all/with-floor", decided(verdicts)["floor"].notna().sum(), 0)
    for paper, numbers in counts_by_paper(verdicts).iterrows():
        for name, number in numbers.items():
            keyed.number(f"papers/{str(paper).lower()}/{_keyed(str(name))}", number, 0)
    for experiment, rows in counted.groupby("experiment", sort=False):
        keyed.text(f"of/{experiment}/verdicts", _counted(rows["verdict"]))


def _keyed(name: str) -> str:
    return name.lower().replace(" ", "-")


def _counted(verdicts: pd.Series) -> str:
    """The number of each verdict, as a clause: "3 hold, 1 is contradicted and 2 are not measured"."""
    numbers = [(int((verdicts == name).sum()), name) for name in VERDICTS]
    parts = [f"{number} {_predicate(name, number)}" for number, name in numbers if number]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _predicate(verdict: str, number: int) -> str:
    """The verdict as the predicate of that many claims: "hold in direction", "is contradicted"."""
    if verdict.startswith("holds"):
        return verdict if number == 1 else verdict.replace("holds", "hold", 1)
    return f"{'is' if number == 1 else 'are'} {verdict}"


def common_verdict(verdicts: Iterable[str]) -> str:
    """The verdict on a claim over systems, for prose that is true only if all judging systems agree.

    "holds in direction" if it holds in all, but in some only in direction; "mixed" if they differ otherwise; "not
    judged" if none could judge: it was not measured, or not under the papers' conditions.
    """
    judged = set(verdicts) & {*DECIDED, "undecided"}
    if judged == {"holds", "holds in direction"}:
        return "holds in direction"
    if len(judged) > 1:
        return "mixed"
    return judged.pop() if judged else "not judged"


def _by_verdict(verdicts: pd.DataFrame) -> str:
    """The verdicts on a claim with the systems that gave each, to follow the claim in a sentence."""
    by_verdict = {name: verdicts["system"][verdicts["verdict"] == name].unique() for name in VERDICTS}
    judged = {name: " and ".join(them) for name, them in by_verdict.items() if len(them) and name not in UNJUDGED}
    return " and ".join(f"{_predicate(verdict, 1)} in {systems}" for verdict, systems in judged.items())


def described(claim: Claim) -> dict[str, str]:
    """A claim as the ledger states it, in words, without any runs."""
    texts = {
        "Claim": claim.statement,
        "False if": claim.false_if,
        "Stated in": "; ".join(map(str, claim.sources)),
        "Runs of": ", ".join(claim.experiments) + (f", else of {claim.instead}" if claim.instead else ""),
        "Required": str(claim.requires) or "no conditions",
        "Decided by": f"{claim.effect}, {verdicts_of.claimed(claim)}",
        "Margin": ledger.shown(claim.margin, claim.unit),
        "Published": ledger.shown(claim.published.value, claim.unit) if claim.published else "",
        "By construction": claim.by_construction,
        "Note": claim.note,
    }
    return {name: text for name, text in texts.items() if text}


def false_if(verdicts: pd.DataFrame) -> pd.DataFrame:
    """What would make each claim false, and the conditions of its statement: a row per claim."""
    claims = verdicts.drop_duplicates("id")
    columns = {"Claim": claims["statement"], "False if": claims["false_if"], "Required": claims["requires"]}
    return pd.DataFrame(columns).reset_index(drop=True)


def as_json(verdicts: pd.DataFrame, origin: Origin, remark: str) -> str:
    """For programs: {"format": 2, "origin", "policy", "noise_floor", "counts", "papers", "verdicts"}; a missing value
    is null.

    counts and papers: of the functions counts and counts_by_paper. remark: floor_remark.
    """
    report = {
        "format": 2,
        "origin": str(origin),
        "policy": POLICY,
        "noise_floor": remark,
        "counts": counts(verdicts).to_dict(orient="index"),
        "papers": counts_by_paper(verdicts).to_dict(orient="index"),
        "verdicts": json.loads(verdicts.to_json(orient="records", double_precision=15)),
    }
    return json.dumps(report, indent=1)


def effect(row) -> str:
    """The effect with its interval, and the unit once."""
    if not row.repetitions:
        return ""
    return ledger.with_interval(row.value, row.low, row.high, row.unit)


def why_undecided(row) -> str:
    """Why a judged claim is undecided, where its effect and interval do not show it."""
    return "" if row.verdict in DECIDED or _EVIDENT.match(row.reason) else row.reason


def p_values(row) -> str:
    """p of the deciding test, and, in parentheses, with Holm's correction over a paper's findings."""
    if np.isnan(row.p):
        return ""
    return p_text(row.p) if np.isnan(row.p_holm) else f"{p_text(row.p)} ({p_text(row.p_holm)})"


def plan(row) -> str:
    """The number of repetitions that would decide an undecided claim, as text."""
    if pd.isna(row.repetitions_needed):
        return UNKNOWN if np.isnan(row.low) else UNDECIDABLE
    return str(row.repetitions_needed) if row.repetitions_needed <= MOST_TOLD else UNDECIDABLE


def _rests_on(row) -> str:
    missing = f"not comparable here: {row.missing}" if row.verdict == "not comparable" else row.missing
    why = f"by construction: {row.by_construction}" if row.by_construction else ""
    parts = [why, missing, row.cells, f"n = {row.repetitions}" if row.repetitions else "", row.notes]
    if row.verdict == "undecided":
        parts.append(f"to decide: n = {plan(row)}")
    return "; ".join(filter(None, parts))
