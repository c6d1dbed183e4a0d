"""All findings and their verdicts, as the paper lists them: a line for each statement, and a cell for each backend.

The list is text in the paper's columns, so that it fills pages without floats. Each line is a macro of
paper/pairlab.sty.
"""

import math
import re
from collections.abc import Iterable, Iterator

import pandas as pd

from pairlab.analysis.claims import ledger, report
from pairlab.analysis.claims.verdicts import DECIDED
from pairlab.analysis.output.formatting import MISSING, p_text
from pairlab.analysis.output.latex import escape

#: Marks of verdicts, as macros.
MARKS = {
    "holds": r"\claimholds",
    "holds in direction": r"\claimdirection",
    "contradicted": r"\claimcontradicted",
    "undecided": r"\claimundecided",
    "not comparable": r"\claimincomparable",
    "not measured": r"\claimnotmeasured",
}
#: The driver that a statement begins with, if any, and the rest of it.
_BY_DRIVER = r"^(?:(?P<named>[a-z][a-z0-9-]*): )?(?P<rest>.+)$"
#: Reasons that are evident from the interval and the claimed value.
_EVIDENT = re.compile(r"(above|below|outside|inside|partly outside|includes) (?!the noise)")


def lines(verdicts: pd.DataFrame) -> list[str]:
    """A heading for each experiment, then its statements that some system judged, then the others by reason.

    A statement about several drivers appears once, with a line for each. Claims that hold by construction come last.
    """
    verdicts = verdicts.join(verdicts["statement"].str.extract(_BY_DRIVER).fillna(""))
    backends = sorted(verdicts["backend"].unique())
    judged = verdicts.groupby("id")["verdict"].agg(report.common_verdict) != "not judged"
    topics = list(report.findings(verdicts).groupby("experiment", sort=False))
    if len(apart := report.by_construction(verdicts)):
        topics.append(("by construction", apart))
    listed = []
    for topic, rows in topics:
        listed.append(_macro("claimtopic", topic) + _cells(backends))
        # If one driver of a statement was judged, all of its drivers are listed.
        unjudged = []
        for _, part in rows.groupby("rest", sort=False):
            if judged[part["id"].unique()].any():
                listed += _entry(part, backends)
            else:
                unjudged.append(part)
        listed += _unjudged(unjudged)
    return listed


def _entry(part: pd.DataFrame, backends: list[str]) -> Iterator[str]:
    names = part["id"].nunique()
    first = part.iloc[0]
    statement = first["rest" if names > 1 else "statement"]
    claimed = f" [{first['claimed']}]" if "±" in first["claimed"] else ""
    why = f": {first['by_construction']}" if first["by_construction"] else ""
    yield _macro("claim", f"{first['papers']}{_published(part)}") + f"{{{escape(statement + claimed + why)}}}"
    for _, rows in part.groupby("id", sort=False):
        workloads = sorted(set(rows["workload"]) - {""})
        for workload in workloads or [""]:
            label = [rows["named"].iloc[0] * (names > 1), workload * (len(workloads) > 1)]
            by_backend = {row.backend: row for row in rows[rows["workload"].isin([workload, ""])].itertuples()}
            yield _macro("claimrow", " ".join(filter(None, label))) + _cells(
                [_verdict(by_backend[name]) if name in by_backend else MARKS["not measured"] for name in backends],
                escaped=True,
            )


def _published(part: pd.DataFrame) -> str:
    """The sizes that the papers state, by driver if there are several."""
    claims = part.drop_duplicates("id").itertuples()
    sizes = {row.named or row.id: ledger.shown(row.published, row.unit) for row in claims}
    stated = {driver: size for driver, size in sizes.items() if size}
    texts = ", ".join(stated.values() if len(sizes) == 1 else (f"{driver} {size}" for driver, size in stated.items()))
    return f": {texts}" if texts else ""


def _verdict(row) -> str:
    """A verdict's mark with the effect, the repetitions (of those that would decide it), and the reason if the interval
    does not show it; or, of a decided finding, p after correction."""
    mark = MARKS[row.verdict]
    if row.verdict == "not comparable":
        return f"{mark}~{escape(row.unmet)}"
    if not row.repetitions:
        return f"{mark}~{escape(row.reason)}" if row.reason else mark
    needed = report.plan(row) if row.verdict == "undecided" else ""
    of = f"/{needed}" if needed.isdigit() else ""
    why = row.reason if row.verdict == "undecided" and not _EVIDENT.match(row.reason) else ""
    text = f"{report.effect(row)} ({row.repetitions}{of})" + (f", {_short(why)}" if why else "")
    corrected = row.verdict in DECIDED and not math.isnan(row.p_holm)
    p = ", $p$~" + escape(p_text(row.p_holm)).replace(" ", "~") if corrected else ""
    return f"{mark}~{escape(text)}{p}"


def _short(reason: str) -> str:
    words = {"below the noise floor": "noise", "corrected": "corrected", "has no interval": "no interval"}
    return next((short for long, short in words.items() if long in reason), reason)


def _unjudged(parts: Iterable[pd.DataFrame]) -> Iterator[str]:
    """A paragraph for each reason: conditions that no system met, or nothing measured."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        conditions = part["unmet"].str.split(", ").explode()
        lacking = sorted(set(conditions[conditions != ""]))
        reason = ("not comparable", f" ({', '.join(lacking)})") if lacking else ("not measured", "")
        drivers = ", ".join(filter(None, part["named"].unique()))
        of = f"{drivers}: " if drivers else ""
        reasons.setdefault(reason, []).append(f"{of}{part['rest'].iloc[0]} ({part['papers'].iloc[0]})")
    for (verdict, lacking), statements in reasons.items():
        yield _macro("claimsunjudged", f"{verdict}{lacking}") + f"{{{escape('; '.join(statements))}}}"


def _macro(name: str, text: str) -> str:
    return rf"\{name}{{{escape(text) if text != MISSING else text}}}"


def _cells(texts: list[str], *, escaped: bool = False) -> str:
    width = 0.76 / max(1, len(texts))
    cells = "".join(rf"\claimcell{{{width:.3f}}}{{{text if escaped else escape(text)}}}" for text in texts)
    return f"{{{cells}}}"
