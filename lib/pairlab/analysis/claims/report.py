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
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.provenance import Origin
from pairlab.statistics.intervals import no_interval
from pairlab.store.dataset import Runs

#: More repetitions than anybody would measure: no number above it is told.
MOST_TOLD = 100
UNDECIDABLE, UNKNOWN = "more than this host can decide", "not known"
#: Of a table that fits on a page beside text.
MOST_ROWS = 30
_NOT_MEASURED = "not measured"
_CHARACTER = 0.006  # its usual width in a footnote's type, as a share of the page's text
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
            "Here": [_here(row) for row in verdicts.itertuples()],
            "Size": verdicts["size"],
            "Of": [_rests_on(row) for row in verdicts.itertuples()],
        },
        index=verdicts.index,
    )


def tables(verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The claims that some system judged, as text: a row per claim and workload, and a column per backend with its
    verdict and what that rests on.

    Whole experiments share a table of at most MOST_ROWS rows, or have one of their own; its name is that of the first.
    A backend that measured nothing of a table has no column there. All other claims are in `unjudged`.
    """
    judged = verdicts[~verdicts["id"].isin(_unjudged_ids(verdicts))]
    parts = {name: _rows(mine) for name, mine in judged.groupby("experiment", sort=False)}
    found: dict[str, list[pd.DataFrame]] = {}
    room = 0
    for name, part in parts.items():
        if not found or len(part) > room:
            found[name], room = [], MOST_ROWS
        next(reversed(found.values())).append(part)
        room -= len(part)
    return {name: _without_empty(pd.concat(parts, ignore_index=True)) for name, parts in found.items()}


def unjudged(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The claims that no system judged, as text: a row per reason, the conditions that its runs lack in some system.

    Those of experiments that nothing was measured of share a row of each paper, which counts them.
    """
    without_runs = verdicts["id"].isin(_ids_without_runs(verdicts))
    mine = verdicts[verdicts["id"].isin(_unjudged_ids(verdicts)) & ~without_runs]
    reasons: dict[str, list[str]] = {}
    for _, rows in mine.groupby("id", sort=False):
        lacking = sorted({name for unmet in rows["unmet"] for name in unmet.split(", ") if name})
        reason = f"not comparable ({', '.join(lacking)})" if lacking else _NOT_MEASURED
        reasons.setdefault(reason, []).append(rows["statement"].iloc[0])
    for paper, rows in verdicts[without_runs].groupby("papers"):
        experiments = ", ".join(rows["experiment"].unique())
        counted = f"{rows['id'].nunique()} of paper {paper} on {experiments}"
        reasons.setdefault("no runs", []).append(counted)
    return pd.DataFrame({"Reason": list(reasons), "Claims": ["; ".join(claims) for claims in reasons.values()]})


def _unjudged_ids(verdicts: pd.DataFrame) -> set[str]:
    by_claim = verdicts.groupby("id")["verdict"].agg(common_verdict)
    return set(by_claim.index[by_claim == "not judged"])


def _ids_without_runs(verdicts: pd.DataFrame) -> set[str]:
    """The claims on an experiment of which no system measured anything that a claim is on."""
    measured = set(verdicts.loc[verdicts["verdict"] != _NOT_MEASURED, "experiment"])
    return set(verdicts.loc[~verdicts["experiment"].isin(measured), "id"])


def _rows(verdicts: pd.DataFrame) -> pd.DataFrame:
    backends = sorted(verdicts["backend"].unique())
    rows = []
    for (_, statement), mine in verdicts.groupby(["id", "statement"], sort=False):
        by = {(row.backend, row.workload): row for row in mine.itertuples()}
        any_row = next(iter(by.values()))
        # A backend without runs of the experiment has no workload, and says so beside those of the other.
        for workload in sorted({name for _, name in by} - {""}):
            line = {
                "Claim": statement,
                "Paper": any_row.papers,
                "Workload": workload,
                "Published": ledger.shown(any_row.published, any_row.unit) or MISSING,
            }
            found = ((backend, by.get((backend, workload))) for backend in backends)
            rows.append(line | {backend: _NOT_MEASURED if row is None else _told(row) for backend, row in found})
    return pd.DataFrame(rows)


def _without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """The table without backends, and without published sizes, that say nothing in any row."""
    return table.loc[:, [not table[name].isin([_NOT_MEASURED, MISSING]).all() for name in table]]


def wrapped(table: pd.DataFrame) -> dict[str, float]:
    """How wide the columns of sentences are of `tables` and `unjudged`, for latex.write_table: for most of their cells
    a line, in small type, as far as the page is wide enough.
    """
    if "Reason" in table:
        return {"Reason": 0.2, "Claims": 0.77}
    long = [name for name in table if name not in ("Paper", "Workload", "Published")]
    asked = {name: _CHARACTER * table[name].str.len().quantile(0.8) for name in long}
    return {name: share * min(1.0, 0.77 / sum(asked.values())) for name, share in asked.items()}


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))


def floor_remark(verdicts: pd.DataFrame, runs: Runs) -> str:
    """What a reader must know of the noise floors behind these verdicts on `runs`: noise_floor.remark."""
    return noise_floor.remark(noise_floor.of_runs(runs), sorted(verdicts["backend"].unique()))


def values(verdicts: pd.DataFrame, runs: Runs) -> Values:
    r"""The keyed numbers, all below `claims/`.

    - runs, left-out, confidence, policy, noise-floor; claims and unjudged: how many there are on experiments of which
      there are runs, and how many of these no system judged; without-runs: how many others, where there are any;
    - systems and tables (lists); <table>/experiments and absent (the backends that measured nothing of it, as a
      clause);
    - all/<verdict> and <system>/count/<verdict>: how many, with "-" for the spaces of a verdict;
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
    found.names("tables", list(tables(verdicts)))
    for name, table in tables(verdicts).items():
        mine = verdicts[verdicts["statement"].isin(table["Claim"])]
        found.text(f"{name}/experiments", ", ".join(mine["experiment"].unique()))
        absent = sorted(set(mine["backend"]) - set(table))
        found.text(f"{name}/absent", f"; not measured in {_joined(absent)}" if absent else "")
    found.number("unjudged", len(_unjudged_ids(verdicts) - without_runs), 0)
    by_system = counts(verdicts)
    found.names("systems", list(by_system.index))
    for verdict in VERDICTS:
        found.number(f"all/{verdict.replace(' ', '-')}", by_system[verdict].sum(), 0)
        for system in by_system.index:
            found.number(f"{system}/count/{verdict.replace(' ', '-')}", by_system.loc[system, verdict], 0)
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
            found.text(f"{key}/effect", _here(row))
            found.number(f"{key}/repetitions", row.repetitions, 0)
            found.text(f"{key}/cells", row.cells)
            found.text(f"{key}/size", row.size or "not compared")
        if not np.isnan(row.floor):
            found.text(f"{key}/floor", ledger.shown(row.floor, "%"))
        if row.missing:
            found.text(f"{key}/missing", row.missing)
        if row.verdict == "undecided" and (plan := _plan(row)) != UNKNOWN:
            found.text(f"{key}/needed", plan)
    return found


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
        "Decided by": f"{claim.estimator}, {verdicts_of.claimed(claim)}",
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


def _here(row) -> str:
    """The effect with its interval, and their unit once."""
    if not row.repetitions:
        return ""
    if np.isnan(row.low):
        return ledger.shown(row.value, row.unit)
    return f"{ledger.number(row.value, row.unit)} {_interval(row)}"


def _told(row) -> str:
    """A verdict with the effect that it rests on, in parentheses how many repetitions do, of how many that would decide
    it, and why, where the interval does not show it by itself; or the condition that is not met.
    """
    if row.verdict == "not comparable":
        return f"not comparable ({row.unmet})"
    needed = "" if row.verdict != "undecided" or (plan := _plan(row)) == UNKNOWN else plan
    most = f"{MOST_TOLD}+" if needed == UNDECIDABLE else needed
    if not row.repetitions:
        return f"{row.verdict}: {row.reason}" + (f", {most} repetitions needed" if most else "")
    verdict = f"{row.verdict}, {row.size}" if row.size else row.verdict
    # Of an interval that includes no effect, the numbers themselves say so.
    evident = row.verdict == "holds" or row.reason in ("includes 0.0 %", "includes 0.00")
    why = "" if evident else f"; {row.reason}"
    return f"{verdict}: {_here(row)} ({row.repetitions}{f' of {most}' if most else ''}){why}"


def _plan(row) -> str:
    if pd.isna(row.repetitions_needed):
        return UNKNOWN if np.isnan(row.low) else UNDECIDABLE
    return str(row.repetitions_needed) if row.repetitions_needed <= MOST_TOLD else UNDECIDABLE


def _rests_on(row) -> str:
    missing = f"not comparable here: {row.missing}" if row.verdict == "not comparable" else row.missing
    parts = [missing, row.cells, f"n = {row.repetitions}" if row.repetitions else "", row.notes]
    if row.verdict == "undecided":
        parts.append(f"to decide: n = {_plan(row)}")
    return "; ".join(filter(None, parts))
