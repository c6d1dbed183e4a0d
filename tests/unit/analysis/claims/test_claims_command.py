"""The whole ledger judged on a campaign: its tables and values, and `pairlab claims`."""

import json
import re

import pandas as pd
import pytest
from click.testing import CliRunner

from pairlab import store
from pairlab.analysis.claims import ledger, listing, report
from pairlab.analysis.claims import verdicts as claims
from pairlab.cli import main
from pairlab.store.dataset import load_runs
from tests.support.synthetic import run


@pytest.fixture(scope="module")
def verdicts(campaign):
    return claims.evaluate(load_runs(campaign))


@pytest.fixture(scope="module")
def told(campaign):
    """What the command tells programs of the whole ledger."""
    told = CliRunner().invoke(main, ["claims", "--runs", str(campaign), "--json"])
    assert told.exit_code == 0
    return json.loads(told.output)


@pytest.mark.whole
def test_the_whole_ledger_is_judged_on_a_campaign(verdicts):
    netns = verdicts[verdicts["system"] == "netns-flowgen"].set_index("id")["verdict"]
    assert netns["total-rises-bridge"] == "holds"
    assert netns["total-rises-ovs"] == "not comparable"  # its runs did not record the datapath
    absent = verdicts[verdicts["system"] == "netns"].set_index("id")["missing"]
    assert absent["total-stays-level-ovs"] == "flowgen: no 11 to 100 pairs of ovs beside 10"
    assert absent["pinning-apart-helps-ovs"] == "no runs of pinning"
    counts = report.counts(verdicts)
    assert list(counts.columns) == list(claims.VERDICTS)
    findings = [claim for claim in ledger.load() if not claim.by_construction]
    assert counts.loc[["netns", "netns-flowgen"]].to_numpy().sum() == len(findings) < len(ledger.load())


@pytest.mark.whole
def test_the_list_has_every_claim_and_every_verdict_that_a_system_gave(verdicts):
    lines = listing.lines(verdicts)
    topics = [line for line in lines if line.startswith(r"\claimtopic")]
    assert (topics[0], topics[-1]) == (r"\claimtopic{Paper C: throughput}", r"\claimtopic{By construction}")
    rows = [line.removeprefix(r"\claimrow{").removesuffix("}").split("}{") for line in lines if line not in topics]
    assert {len(row) for row in rows} == {7}
    for verdict in ("holds", "holds in direction", "contradicted", "undecided"):
        of = [row for row in rows if row[3] == verdict]
        assert len(of) == (verdicts["verdict"] == verdict).sum()
        assert all(re.search(r"\(\d+( of \d+)?\)$", row[4]) for row in of)
    assert len([row for row in rows if row[0]]) == verdicts["id"].nunique()
    unmeasured = {row[0]: row[6] for row in rows if row[3] == "not measured"}
    assert unmeasured["ovs: ends of a pair on different cores raise the total"] == "no runs of pinning"


def test_a_claim_that_nobody_judged_has_one_row_with_all_reasons():
    row = {"id": "x", "statement": "two hosts: overlay carries less", "papers": "M", "experiment": "placement"}
    row |= {"by_construction": "", "claimed": "< 0.0 %", "published": float("nan"), "unit": "%"}
    rows = [
        row
        | {
            "system": "netns",
            "verdict": "not comparable",
            "unmet": "hosts, pairs",
            "missing": "the hosts share one kernel",
        },
        row
        | {"system": "netns-iperf3", "verdict": "not comparable", "unmet": "hosts", "missing": "the hosts share one"},
        row | {"system": "docker", "verdict": "not measured", "unmet": "", "missing": "no runs of placement"},
    ]
    assert listing.lines(pd.DataFrame(rows)) == [
        r"\claimtopic{Paper M: placement}",
        r"\claimrow{two hosts: overlay carries less}{}{}{not comparable}{}{}{hosts, pairs}",
    ]
    assert listing.lines(pd.DataFrame(rows[2:]))[1].endswith("{not measured}{}{}{no runs of placement}")


@pytest.mark.whole
def test_values_cover_every_claim(verdicts, campaign):
    found = report.values(verdicts, load_runs(campaign))
    assert found["total-rises-bridge/netns-flowgen/verdict"] == found["total-rises-bridge/verdict"] == "holds"
    assert found["total-rises-bridge/by-system"] == "holds in docker-flowgen and netns-flowgen"
    assert found["total-rises-ovs/verdict"] == "not judged"
    findings = report.findings(verdicts)
    on_throughput = findings.loc[findings["experiment"] == "throughput", "id"].nunique()
    assert int(found["claims"]) == on_throughput > int(found["common/not-judged"]) > 0
    assert int(found["without-runs"]) == findings["id"].nunique() - on_throughput
    assert int(found["by-construction"]) == verdicts["id"].nunique() - findings["id"].nunique() > 0
    assert found["total-rises-bridge/netns-flowgen/cells"] == "5 → 2 pairs"
    assert found["total-rises-bridge/false-if"].startswith("With 1, 2 or 3 pairs, bridge carries no less")
    assert found["total-rises-ovs/netns-flowgen/missing"] == (
        "the datapath of Open vSwitch was not recorded, and must be kernel"
    )
    assert int(found["not-comparable/datapath"]) >= 1
    assert found["fct-p99-grows-ovs/netns/missing"] == "no runs of fct"
    assert found["fct-p99-grows-ovs/netns/published"] == r"32.0 \%"
    assert found["netns/count/not-measured"] == str(report.counts(verdicts).loc["netns", "not measured"])


@pytest.mark.parametrize(
    ("verdicts", "common"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "not measured", "not comparable"], "holds"),
        (["holds", "holds in direction", "not measured"], "holds in direction"),
        (["holds in direction"], "holds in direction"),
        (["holds in direction", "contradicted"], "mixed"),
        (["holds", "undecided"], "mixed"),
        (["contradicted", "holds"], "mixed"),
        (["contradicted", "not measured"], "contradicted"),
        (["undecided"], "undecided"),
        (["not measured", "not comparable"], "not judged"),
        ([], "not judged"),
    ],
)
def test_a_verdict_over_systems_is_that_of_all_that_could_judge(verdicts, common):
    assert report.common_verdict(verdicts) == common


@pytest.mark.whole
def test_the_command_shows_every_verdict_and_json_is_for_programs(campaign, told):
    shown = CliRunner().invoke(main, ["claims", "--runs", str(campaign)])
    assert shown.exit_code == 0, shown.output
    assert "bridge: total throughput rises up to about 5 pairs" in shown.output
    assert "By construction, and counted with none of these: 22 claims" in " ".join(shown.output.split())
    assert "72 runs" in shown.output or "144 runs" in shown.output
    assert told["format"] == 2
    assert set(told["papers"]) == {"C", "E", "M", "S"}
    first = told["verdicts"][0]
    assert set(first) == set(claims.COLUMNS)
    assert first["published"] is None
    findings = [row for row in told["verdicts"] if not row["by_construction"]]
    assert sum(told["counts"]["netns"].values()) == sum(row["system"] == "netns" for row in findings)


@pytest.mark.whole
def test_a_claim_by_name_tells_what_would_make_it_false_and_what_it_requires(campaign, told):
    shown = CliRunner().invoke(main, ["claims", "total-rises", "--runs", str(campaign)])
    assert shown.exit_code == 0, shown.output
    flat = " ".join(shown.output.split())
    assert "False if: With 1, 2 or 3 pairs, macvlan carries no less in total than with 5 pairs." in flat
    assert "Required: TCP cubic; Open vSwitch, where it is read, with the kernel datapath;" in flat
    assert "total throughput falls somewhat" not in flat
    one = CliRunner().invoke(main, ["claims", "total-rises-ovs", "--runs", str(campaign), "--json"])
    rows = json.loads(one.output)["verdicts"]
    assert {row["id"] for row in rows} == {"total-rises-ovs"}
    assert {row["unmet"] for row in rows} == {"datapath"}
    alone = CliRunner().invoke(main, ["claims", "total-rises-bridge", "--runs", str(campaign), "--json"])
    of_all = [row for row in told["verdicts"] if row["id"] == "total-rises-bridge"]
    assert json.loads(alone.output)["verdicts"] == of_all  # with p as corrected over its paper
    wrong = CliRunner().invoke(main, ["claims", "total-rise-ovs", "--runs", str(campaign)])
    assert wrong.exit_code == 2
    assert "no claim 'total-rise-ovs'; did you mean total-rises-ovs" in " ".join(wrong.output.split())


def test_the_command_says_what_stops_it(tmp_path):
    done = CliRunner().invoke(main, ["claims", "--runs", str(tmp_path)])
    assert done.exit_code == 1
    assert "no runs in" in done.output
    store.write(run([1], cpu_quota=0.5), tmp_path)
    assert "none of the 1 runs decides a claim" in CliRunner().invoke(main, ["claims", "--runs", str(tmp_path)]).output
