"""How verdicts are counted: findings by verdict, by system and by paper, and what is none apart."""

import pandas as pd
import pytest

from pairlab.analysis.claims import listing, report, verdicts
from pairlab.analysis.claims.ledger import Published, Source
from pairlab.analysis.output.formatting import p_text
from pairlab.store.dataset import Runs
from tests.support.claimed import cells_of, claim_of


def claims(*, of_e=1):
    """Of C and E: three that hold with a size, without one, and in direction; and, of E, so many that are contradicted.

    The last one holds by construction.
    """
    e = (Source(paper="E", where="table I"),)
    yield claim_of("drivers_change", id="sized", published=Published(value=10.5, tolerance=1.0))
    yield claim_of("drivers_change", id="unsized")
    yield claim_of("drivers_change", id="other", published=Published(value=30.0))
    for number in range(of_e):
        yield claim_of("drivers_change", id=f"reverse-{number}", claimed="less", sources=e)
    yield claim_of("drivers_change", id="tautology", by_construction="it is set so", sources=e)


def judged(spread=0.001, **asked):
    runs = Runs(tuple(cells_of("drivers_change", 0.1, spread)))
    return verdicts.evaluate(runs, claims=claims(**asked)), runs


def texts(row):
    """The arguments of a row's macro."""
    return row.removeprefix(r"\claimrow{").removesuffix("}").split("}{")


def test_findings_are_counted_by_verdict_and_by_size_and_what_is_none_apart():
    found, runs = judged()
    told = {"holds": 2, "holds in direction": 1, "contradicted": 1}
    assert report.counts(found).loc["netns-flowgen"].to_dict() == dict.fromkeys(verdicts.VERDICTS, 0) | told
    by_paper = report.counts_by_paper(found)
    assert by_paper.loc["C"].to_dict() == dict.fromkeys(verdicts.VERDICTS, 0) | {
        "holds": 2,
        "holds in direction": 1,
        "decided": 3,
        "after Holm": 3,
    }
    assert by_paper.loc["E", ["contradicted", "decided"]].to_list() == [1, 1]
    text = report.summary(found)
    assert (
        "2 holds (1 with the published size, 1 without a size to compare), 1 holds in direction, 1 contradicted" in text
    )
    assert text.startswith("Of 4 claims in 1 systems")
    assert "counted with none of these: 1 claims (1 holds)" in text
    values = report.values(found, runs)
    asked = ("all/holds", "all/size-agrees", "all/no-size", "all/holds-in-direction", "all/decided", "by-construction")
    assert [int(values[key]) for key in asked] == [2, 1, 1, 1, 4, 1]
    assert [int(values[f"papers/{key}"]) for key in ("c/holds", "c/after-holm", "e/contradicted")] == [2, 3, 1]
    assert int(values["claims"]) == 4
    common = {name: int(values[f"common/{name.replace(' ', '-')}"]) for name in report.COMMON}
    assert common == dict.fromkeys(report.COMMON, 0) | told
    assert values["of/throughput/verdicts"] == "2 hold, 1 holds in direction and 1 is contradicted"


@pytest.mark.parametrize(("of_e", "remain"), [(1, 4), (10, 3)])
def test_what_is_decided_and_remains_so_after_correction_is_counted(of_e, remain):
    """Of one claim of E, p is small enough; of ten it is not, and C's three are as they were."""
    found, runs = judged(spread=0.076, of_e=of_e)
    p = found["p"].iloc[0]
    assert 0.05 / 10 < p < 0.05 / 3
    assert set(found["verdict"]) <= {*verdicts.DECIDED}
    assert len(report.decided(found)) == 3 + of_e
    assert len(report.after_holm(found)) == remain
    assert f"Of {3 + of_e} that are decided, {remain} have p of at most 0.05" in report.summary(found)
    values = report.values(found, runs)
    assert int(values["common/contradicted-after-holm"]) == remain - 3
    for row in report.findings(found[found["papers"] == "E"]).itertuples():
        key = f"{row.id}/{row.system}/undecided-after-holm"
        if remain > 3:
            with pytest.raises(KeyError):
                values[key]
        else:
            assert values[key] == p_text(row.p_holm)


def test_claims_are_listed_by_paper_and_what_holds_by_construction_last():
    found, _ = judged()
    lines = listing.lines(found)
    topics = [line for line in lines if line.startswith(r"\claimtopic")]
    assert topics == [
        rf"\claimtopic{{{topic}}}" for topic in ("Paper C: throughput", "Paper E: throughput", "By construction")
    ]
    at = lines.index(topics[-1])
    assert lines[at + 1].startswith(r"\claimrow{it is so: it is set so}{}{netns-flowgen}{holds}{")
    assert [line for line in lines[:at] if "it is set so" in line] == []
    *_, p, why = texts(lines[at + 1])
    assert (p, why) == ("", "")  # it is in no family of tests
    assert all(texts(line)[5] for line in lines[:at] if line.startswith(r"\claimrow"))
    findings = found[found["by_construction"] == ""]
    assert listing.lines(findings) == lines[:at]
    assert "By construction" not in report.summary(findings)


def test_where_nothing_else_was_asked_for_there_are_no_findings_to_count():
    runs = Runs(tuple(cells_of("drivers_change", 0.1, 0.001)))
    found = verdicts.evaluate(runs, claims=[claim_of("drivers_change", by_construction="it is set so")])
    assert report.counts(found).loc["netns-flowgen"].sum() == 0
    assert report.counts_by_paper(found).empty
    assert "Of 0 claims in 0 systems" in report.summary(found)
    assert isinstance(report.display(found), pd.DataFrame)
