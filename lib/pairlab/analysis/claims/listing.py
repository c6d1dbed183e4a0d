"""All findings and their verdicts, as the paper lists them: a line for each statement, and a cell for each backend.

The paper's columns take it as text, so that it fills pages without floats. Each line is a macro of paper/pairlab.sty.
"""

import re
from collections.abc import Iterable, Iterator

import pandas as pd

from pairlab.analysis.claims import ledger, report
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import escape

#: Marks of verdicts, as macros.
MARKS = {
    "holds": r"\claimholds",
    "contradicted": r"\claimcontradicted",
    "undecided": r"\claimundecided",
    "not comparable": r"\claimincomparable",
    "not measured": r"\claimnotmeasured",
}
_BY_DRIVER = re.compile(r"^([a-z][a-z0-9-]*): (.+)$")
#: Reasons that the interval shows by itself, beside what is claimed.
_EVIDENT = re.compile(r"(above|below|outside|inside|partly outside|includes) (?!the noise)")


def lines(verdicts: pd.DataFrame) -> list[str]:
    """A heading for each experiment, then its statements that some system judged, then the others by their reason.

    A statement that is made of several drivers is there once, with a line for each.
    """
    backends = sorted(verdicts["backend"].unique())
    judged = verdicts.groupby("id")["verdict"].agg(report.common_verdict) != "not judged"
    found = []
    for experiment, mine in verdicts.groupby("experiment", sort=False):
        found.append(_macro("claimtopic", experiment) + _cells(backends))
        # A statement of which one driver was judged stands with all of its drivers.
        parts = [(rest, part) for rest, part in mine.groupby(_undriven(mine["statement"]), sort=False)]
        for _, part in parts:
            if judged[part["id"].unique()].any():
                found += _entry(part, backends)
        others = [part for _, part in parts if not judged[part["id"].unique()].any()]
        found += _unjudged(others)
    return found


def _undriven(statements: pd.Series) -> pd.Series:
    """The statements without the driver that they are made of."""
    return statements.str.replace(_BY_DRIVER, r"\2", regex=True)


def _entry(part: pd.DataFrame, backends: list[str]) -> Iterator[str]:
    names = part["id"].nunique()
    first = part.iloc[0]
    statement = _undriven(part["statement"]).iloc[0] if names > 1 else first["statement"]
    claimed = f" [{first['claimed']}]" if "±" in first["claimed"] else ""
    yield _macro("claim", f"{first['papers']}{_published(part)}") + f"{{{escape(statement + claimed)}}}"
    for _, mine in part.groupby("id", sort=False):
        driver = _BY_DRIVER.fullmatch(mine["statement"].iloc[0])
        workloads = sorted(set(mine["workload"]) - {""})
        for workload in workloads or [""]:
            label = [driver[1]] if driver and names > 1 else []
            label += [workload] if len(workloads) > 1 else []
            rows = mine[mine["workload"].isin([workload, ""])]
            by = {row.backend: row for row in rows.itertuples()}
            yield _macro("claimrow", " ".join(label)) + _cells(
                [_told(by[name]) if name in by else MARKS["not measured"] for name in backends], escaped=True
            )


def _published(part: pd.DataFrame) -> str:
    """The sizes that the papers state, of each driver where there are several."""
    sizes = {}
    for name, mine in part.groupby("id", sort=False):
        driver = _BY_DRIVER.fullmatch(mine["statement"].iloc[0])
        sizes[driver[1] if driver else name] = ledger.shown(mine["published"].iloc[0], mine["unit"].iloc[0])
    known = {driver: size for driver, size in sizes.items() if size}
    told = ", ".join(known.values() if len(sizes) == 1 else (f"{driver} {size}" for driver, size in known.items()))
    return f": {told}" if told else ""


def _told(row) -> str:
    """A verdict's mark with what it rests on: the effect, the repetitions, of how many that would decide it, and why,
    where the interval does not show it."""
    mark = MARKS[row.verdict]
    if row.verdict == "not comparable":
        return f"{mark}~{escape(row.unmet)}"
    if not row.repetitions:
        return f"{mark}~{escape(row.reason)}" if row.reason else mark
    needed = report.plan(row) if row.verdict == "undecided" else ""
    of = f"/{needed}" if needed.isdigit() else ""
    why = row.reason if row.verdict == "undecided" and not _EVIDENT.match(row.reason) else ""
    told = f"{report.effect(row)} ({row.repetitions}{of})" + (f", {_short(why)}" if why else "")
    return f"{mark}~{escape(told)}"


def _short(reason: str) -> str:
    words = {"below the noise floor": "noise", "corrected": "corrected", "has no interval": "no interval"}
    return next((short for told, short in words.items() if told in reason), reason)


def _unjudged(parts: Iterable[pd.DataFrame]) -> Iterator[str]:
    """A paragraph for each reason: the conditions that no system met, or that nothing was measured."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        conditions = part["unmet"].str.split(", ").explode()
        lacking = sorted(set(conditions[conditions != ""]))
        reason = ("not comparable", f" ({', '.join(lacking)})") if lacking else ("not measured", "")
        drivers = [match[1] for text in part["statement"].unique() if (match := _BY_DRIVER.fullmatch(text))]
        of = f"{', '.join(drivers)}: " if drivers else ""
        reasons.setdefault(reason, []).append(f"{of}{_undriven(part['statement']).iloc[0]} ({part['papers'].iloc[0]})")
    for (verdict, lacking), statements in reasons.items():
        yield _macro("claimsunjudged", f"{verdict}{lacking}") + f"{{{escape('; '.join(statements))}}}"


def _macro(name: str, text: str) -> str:
    return rf"\{name}{{{escape(text) if text != MISSING else text}}}"


def _cells(texts: list[str], *, escaped: bool = False) -> str:
    width = 0.76 / max(1, len(texts))
    cells = "".join(rf"\claimcell{{{width:.3f}}}{{{text if escaped else escape(text)}}}" for text in texts)
    return f"{{{cells}}}"
