"""How verdicts on claims show: as tables for a reader and for the paper, as keyed numbers, and as JSON for programs."""

import json

import numpy as np
import pandas as pd

from pairlab.analysis import contrasts, floors, ledger
from pairlab.analysis.claims import VERDICTS
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import no_interval
from pairlab.analysis.origin import Origin
from pairlab.collection import Runs

#: What a reader must know of many verdicts at once.
POLICY = (
    "Every interval has its own confidence and nothing is corrected for their number, so among many claims a few"
    " verdicts may be wrong. p is of the two-sided t test against the value that the claim names (for equality, the"
    " larger p of two one-sided tests), and p_holm is p with Holm's correction over all measured claims of a system."
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
                ("", "Published"): ledger.shown(any_row.published, any_row.unit) or MISSING,
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


def floor_remark(verdicts: pd.DataFrame, runs: Runs) -> str:
    """What a reader must know of the noise floors behind these verdicts on `runs`: floors.remark."""
    return floors.remark(floors.of_runs(runs), sorted(verdicts["backend"].unique()))


def values(verdicts: pd.DataFrame, runs: Runs) -> Values:
    r"""The keyed numbers, all below `claims/`.

    - runs, left-out, claims, confidence, policy, noise-floor; systems and tables (lists); <table>/told;
    - all/<verdict> and <system>/count/<verdict>: how many, with "-" for the spaces of a verdict;
    - <id>/<system>/verdict, claimed, published; where measured, estimate, interval, repetitions, cells, size, else
      missing; floor, where one is recorded; needed, where undecided and known.
    """
    found = Values("claims")
    found.number("runs", sum(run.status == "ok" for run in runs), 0)
    found.number("left-out", len(runs) + len(runs.unread) - sum(run.status == "ok" for run in runs), 0)
    found.text("confidence", f"{verdicts['confidence'].iloc[0] * 100:g} %")
    found.text("policy", POLICY)
    found.text("noise-floor", floor_remark(verdicts, runs))
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
        found.text(f"{key}/published", ledger.shown(row.published, row.unit) or "no size stated")
        if row.repetitions:
            found.text(f"{key}/estimate", ledger.shown(row.value, row.unit))
            found.text(f"{key}/interval", _interval(row) or no_interval(row.repetitions))
            found.number(f"{key}/repetitions", row.repetitions, 0)
            found.text(f"{key}/cells", row.cells)
            found.text(f"{key}/size", row.size or "not compared")
        if not np.isnan(row.floor):
            found.text(f"{key}/floor", ledger.shown(row.floor, "%"))
        if row.missing:
            found.text(f"{key}/missing", row.missing)
        if row.verdict == "undecided" and not pd.isna(row.repetitions_needed):
            found.number(f"{key}/needed", row.repetitions_needed, 0)
    return found


def as_json(verdicts: pd.DataFrame, origin: Origin, noise_floor: str) -> str:
    """For programs: {"format": 1, "origin", "policy", "noise_floor", "counts", "verdicts"}; what there is not is null.

    noise_floor: floor_remark.
    """
    told = {
        "format": 1,
        "origin": str(origin),
        "policy": POLICY,
        "noise_floor": noise_floor,
        "counts": counts(verdicts).to_dict(orient="index"),
        "verdicts": json.loads(verdicts.to_json(orient="records", double_precision=15)),
    }
    return json.dumps(told, indent=1)


def _interval(row) -> str:
    if np.isnan(row.low):
        return ""
    digits = ledger.DIGITS[row.unit]
    behind = "" if row.unit in ("share", "r") else f" {row.unit}"
    return f"[{row.low:.{digits}f}, {row.high:.{digits}f}]{behind}"


def _here(row) -> str:
    return f"{ledger.shown(row.value, row.unit)} {_interval(row)}".strip() if row.repetitions else ""


def _verdict(row) -> str:
    if row.verdict == "undecided":
        return f"undecided (n: {_plan(row)})"
    return f"{row.verdict}, {row.size}" if row.size else row.verdict


def _plan(row) -> str:
    if pd.isna(row.repetitions_needed):
        without = "not known" if np.isnan(row.low) else f"> {contrasts.MOST_REPETITIONS}"
        return "2" if row.repetitions == 1 else without
    return str(row.repetitions_needed)


def _rests_on(row) -> str:
    told = [row.cells, f"n = {row.repetitions}" if row.repetitions else "", row.missing, row.notes]
    if row.verdict == "undecided":
        told.append(f"to decide: n = {_plan(row)}")
    return "; ".join(filter(None, told))
