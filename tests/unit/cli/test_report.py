"""`pairlab report`, with no notebook executed and no paper built."""

import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pairlab import store
from pairlab.batch import report
from pairlab.errors import NoRuns, PairlabError, Unavailable
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from tests.support.runs import block_of
from tests.support.screen import on_a_terminal
from tests.unit.cli.helpers import made_up


@pytest.fixture
def analysed(monkeypatch):
    """What the report was asked to analyse; no notebook is executed and no paper built."""
    given = []
    monkeypatch.setattr(report, "execute", lambda notebook, executed, parameters: given.append(parameters))
    return given


@pytest.fixture
def no_paper(monkeypatch, tmp_path):
    def build(label, *, runs):
        raise Unavailable("the paper needs latexmk, which LaTeX here lacks")

    monkeypatch.setattr(report.paper, "build", build)
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path / "out"))


#: The analyses that throughput runs alone make possible, with those of whatever runs there are.
OF_THROUGHPUT = ["throughput", "fairness", "cpu", "beyond", "testbed", "claims", "advice"]


def test_a_report_without_a_paper_still_shows_its_results(pairlab, analysed, no_paper):
    made_up(workload="flowgen")
    status, out, err = pairlab("report")
    assert (status, err) == (0, "")
    assert "1 runs read, 1 count, 0 left out" in out
    assert "netns-flowgen: total throughput in Gbit/s" in out
    assert out.splitlines()[-1].endswith("none: the paper needs latexmk, which LaTeX here lacks")
    status, _, err = pairlab("report", "--need-paper")
    assert (status, err) == (3, "pairlab: the paper needs latexmk, which LaTeX here lacks\n")


def test_a_paper_that_latex_stops_over_is_a_failure_once_all_else_is_shown(pairlab, analysed, no_paper, monkeypatch):
    def build(label, *, runs):
        raise PairlabError("the paper was not built: ! Undefined control sequence.")

    monkeypatch.setattr(report.paper, "build", build)
    made_up(workload="flowgen")
    status, out, err = pairlab("report")
    assert (status, "netns-flowgen: total throughput in Gbit/s" in out) == (1, True)
    assert "the paper: the paper was not built: ! Undefined control sequence." in err
    assert pairlab("report", "--json")[0] == 1


def test_a_report_is_of_the_folder_that_pairlab_runs_names_unless_told_another(
    pairlab, analysed, no_paper, runs_dir, tmp_path
):
    made_up(workload="flowgen")
    assert pairlab("report")[0] == 0
    assert pairlab("report", "--runs", str(runs_dir))[0] == 0
    assert analysed == 2 * len(OF_THROUGHPUT) * [{"runs": str(runs_dir), "sweep": ""}]
    status, _, err = pairlab("report", "--runs", str(tmp_path / "empty"))
    assert (status, err.startswith(f"pairlab: no runs in {tmp_path / 'empty'}")) == (1, True)


def test_a_report_of_a_sweep_is_of_all_backends_or_of_one(pairlab, analysed, no_paper):
    for backend in ("netns", "docker"):
        store.remember_sweep("small", [made_up(workload="flowgen", backend=backend).spec])
    assert "2 runs read" in pairlab("report", "--sweep", "small")[1]
    _, out, _ = pairlab("report", "--sweep", "small", "--backend", "docker")
    assert "1 runs read" in out
    assert "docker-flowgen: total" in out
    assert "netns-flowgen" not in out
    every = len(OF_THROUGHPUT)
    assert [parameters["sweep"] for parameters in analysed] == every * ["small"] + every * ["small/docker"]
    assert "small-docker" in out  # the label


def test_a_backend_without_a_sweep_is_refused(refused):
    assert refused("report", "--backend", "docker") == (
        2,
        "--backend selects runs of a sweep: name the sweep with --sweep",
    )


def test_programs_are_told_of_each_step_and_of_what_was_made_a_json_object_a_line(
    pairlab, analysed, no_paper, tmp_path
):
    made_up(workload="flowgen")
    status, out, err = pairlab("report", "--json")
    assert (status, err) == (0, "")
    *steps, made = map(json.loads, out.splitlines())
    total = len(OF_THROUGHPUT) + 1
    assert [(step["event"], step["done"], step["total"]) for step in steps] == [
        ("step", n, total) for n in range(total)
    ]
    analyses = [f"analysing: {name}" for name in OF_THROUGHPUT]
    assert [step["step"] for step in steps] == [*analyses, "building the paper"]
    assert [skipped.partition(":")[0] for skipped in made["skipped"]] == [
        name for name in report.analyses() if name not in OF_THROUGHPUT
    ]
    assert made["event"] == "report"
    assert made["paper"] is None
    assert made["no_paper"] == "the paper needs latexmk, which LaTeX here lacks"
    assert made["figures"].startswith(str(tmp_path / "out" / "figures"))
    assert "1 runs read, 1 count" in made["account"]


def test_analyses_without_data_are_not_run_and_the_paper_says_why(pairlab, analysed, no_paper, tmp_path):
    made_up(workload="flowgen")
    _, out, _ = pairlab("report")
    (line,) = [line for line in out.splitlines() if line.startswith("not analysed")]
    told, _, names = line.partition(": ")
    assert told == "not analysed, as there are no runs for it"
    assert names.split(", ") == [name for name in report.analyses() if name not in OF_THROUGHPUT]
    values = tmp_path / "out" / "paper" / "values" / "runs" / "06-pinning.tex"
    assert r"\defineresult{pinning/missing}{there are no runs of 'pinning'}" in values.read_text()
    assert not values.with_name("01-throughput.tex").exists()


def test_runs_that_answer_one_question_and_decide_no_claim_have_figures_and_no_paper(
    pairlab, monkeypatch, no_paper, tmp_path
):
    """As runs that all ask for large packets: the papers had none."""

    def execute(notebook, executed, parameters):
        if notebook.stem == "30-claims":
            raise NoRuns("none of the 1 runs decides a claim: they ask for what the papers did not (mtu_bytes)")

    monkeypatch.setattr(report, "execute", execute)
    made_up(workload="flowgen", mtu_bytes=9000)
    status, out, err = pairlab("report")
    assert (status, err) == (0, "")
    assert "netns-flowgen: total throughput in Gbit/s" in out
    assert "paper                           none: it tells of the papers' claims, and none of the 1 runs decides" in out
    values = tmp_path / "out" / "paper" / "values" / "runs" / "30-claims.tex"
    assert r"\defineresult{claims/missing}{none of the 1 runs decides a claim: " in values.read_text()
    assert pairlab("report", "--need-paper")[0] == 1


def test_a_report_says_first_what_the_runs_show(pairlab, analysed, no_paper):
    for repetition, noise in enumerate((0.99, 1.0, 1.01, 1.02)):
        for driver, bps in (("bridge", 4e9), ("macvlan", 4e9 * noise**2), ("ovs", 2e9)):
            flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": bps * noise}])
            spec = Spec(driver=driver, pairs=5, workload="flowgen", repetition=repetition)
            facts = {"host": {"fingerprint": "a machine"}, "block": block_of(repetition)}
            store.write(Run(spec, "ok", (), datetime(2024, 5, 1, 12, tzinfo=UTC), facts=facts, flows=flows))
    out = pairlab("report")[1]
    assert out.index("throughput (netns, flowgen): ") < out.index("analysing: throughput")
    assert "macvlan and bridge cannot be told apart at 5 pairs" in out
    assert "total throughput of ovs is 50 % lower (95 % interval 50 to 50 %) than of bridge at 5 pairs" in out


def test_an_analysis_from_anywhere_is_run_alone_and_its_figures_go_beside_it(pairlab, monkeypatch, tmp_path):
    seen = []

    def execute(notebook, executed, parameters):
        seen.append((notebook, executed, os.environ["PAIRLAB_OUT"], parameters["sweep"]))

    monkeypatch.setattr(report, "execute", execute)
    monkeypatch.delenv("PAIRLAB_OUT", raising=False)
    made_up(workload="flowgen")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "shape.ipynb").write_text('{"cells": []}')
    monkeypatch.chdir(mine)
    status, out, _ = pairlab("report", "shape.ipynb")
    assert status == 0
    assert seen == [(Path("shape.ipynb"), mine / "figures" / "runs" / "shape.ipynb", str(mine), "")]
    assert f"figures and executed notebooks  {mine}/figures/runs/" in out
    assert str(report.paths.PAPER) not in out
    assert "tables and numbers" not in out  # it made none
    (mine / "paper" / "tables" / "runs").mkdir(parents=True)
    _, out, _ = pairlab("report", "shape.ipynb")
    assert f"tables and numbers for LaTeX    {mine}/paper/tables/runs/ {mine}/paper/values/runs/" in out
    assert "PAIRLAB_OUT" not in os.environ
    status, _, err = pairlab("report", "nowhere.ipynb")
    assert (status, err.startswith(f"pairlab: no notebook {mine}/nowhere.ipynb: give the path")) == (2, True)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "is a notebook in R: write it in Python"),
        ('{"cells": []}', "is not a notebook: it has no metadata"),
        ("x = 1", "is not a notebook"),
    ],
)
def test_what_is_no_notebook_in_python_is_refused_in_words(content, why, pairlab, tmp_path):
    made_up(workload="flowgen")
    (tmp_path / "bare.ipynb").write_text(content)
    status, _, err = pairlab("report", str(tmp_path / "bare.ipynb"))
    assert (status, err.startswith(f"pairlab: {tmp_path}/bare.ipynb {why}")) == (2, True)


#: The command line with notebooks that take a while and do nothing, and no paper.
SLOW = """
import sys, time
from pairlab import cli
from pairlab.batch import report
from pairlab.errors import Unavailable
def build(label, runs):
    raise Unavailable("no paper")
report.execute = lambda *given: time.sleep(0.3)
report.paper.build = build
cli.main(sys.argv[1:], prog_name="pairlab")
"""


@pytest.mark.whole
def test_on_a_terminal_a_bar_shows_the_step_at_work_and_the_time_left(runs_dir, tmp_path, monkeypatch):
    made_up(workload="flowgen")
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path / "out"))
    shown = on_a_terminal([sys.executable, "-c", SLOW, "report"])
    assert shown.status == 0
    total = len(OF_THROUGHPUT) + 1
    assert any(re.search(rf"━ \d+ s left +[1-9] of {total} steps", line) for line in shown.drawn)
    assert any("analysing: fairness" in line for line in shown.drawn)
    assert not any("analysing" in line for line in shown.left)
    assert shown.left[0].startswith("1 runs read, 1 count")
