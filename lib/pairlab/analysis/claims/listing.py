"""All findings and their verdicts, as the report lists them: by paper and experiment, a row for each statement and
system that judged it.

Each row is a macro of paper/pairlab.sty.
"""

from collections.abc import Iterator

import pandas as pd

from pairlab.analysis import published
from pairlab.analysis.claims import ledger, report
from pairlab.analysis.claims.verdicts import UNJUDGED
from pairlab.analysis.output.formatting import p_text
from pairlab.analysis.output.latex import escape

_TITLES = {published.OWN: "Own claims"}


def lines(verdicts: pd.DataFrame) -> list[str]:
    r"""\claimtopic{paper and experiment}, each with its rows
    \claimrow{statement}{published}{system}{verdict}{effect (repetitions)}{p}{why, if not decided}.

    A statement of several papers stands under the first. One that no system judged has a single row, with all reasons.
    Claims that hold by construction come last.
    """
    listed = report.findings(verdicts)
    papers = listed["papers"].str.partition(", ")[0]
    order = pd.DataFrame({"own": papers == published.OWN, "paper": papers}).sort_values(["own", "paper"], kind="stable")
    listed = listed.loc[order.index].assign(
        topic=papers.map(_TITLES).fillna("Paper " + papers) + ": " + listed["experiment"]
    )
    topics = [*listed.groupby("topic", sort=False), ("By construction", report.by_construction(verdicts))]
    found = []
    for topic, rows in topics:
        found += [_macro("claimtopic", topic)] if len(rows) else []
        found += [line for _, claim in rows.groupby("id", sort=False) for line in _rows(claim)]
    return found


def _rows(claim: pd.DataFrame) -> Iterator[str]:
    judged = claim[~claim["verdict"].isin(UNJUDGED)]
    first = claim.iloc[0]
    also = "".join(f" (also {paper})" for paper in first["papers"].split(", ")[1:])
    margin = f" [{first['claimed']}]" if "±" in first["claimed"] else ""
    set_so = f": {first['by_construction']}" if first["by_construction"] else ""
    statement = [f"{first['statement']}{margin}{set_so}{also}", ledger.shown(first["published"], first["unit"])]
    if judged.empty:
        verdict = max(claim["verdict"], key=UNJUDGED[::-1].index)
        reasons = claim.loc[claim["verdict"] == verdict, "unmet" if verdict == UNJUDGED[0] else "missing"]
        yield _macro(
            "claimrow", *statement, "", verdict, "", "", ", ".join(dict.fromkeys(", ".join(reasons).split(", ")))
        )
        return
    for row in judged.itertuples():
        needed = report.plan(row) if row.verdict == "undecided" else ""
        of = f" of {needed}" if needed.isdigit() else ""
        effect = f"{report.effect(row)} ({row.repetitions}{of})" if row.repetitions else ""
        p = "" if pd.isna(row.p_holm) else p_text(row.p_holm)
        yield _macro("claimrow", *statement, row.system, row.verdict, effect, p, report.why_undecided(row))
        statement = ["", ""]


def _macro(name: str, *texts: str) -> str:
    return rf"\{name}" + "".join(f"{{{escape(text)}}}" for text in texts)
