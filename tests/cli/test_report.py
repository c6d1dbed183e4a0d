"""`pairlab report`, with no notebook executed and no paper built."""

import json
import re
import sys

import pytest

from pairlab import report, store
from pairlab.errors import PairlabError
from tests.cli.helpers import made_up
from tests.progress.screen import on_a_terminal


@pytest.fixture
def analysed(monkeypatch):
    """What the report was asked to analyse; no notebook is executed and no paper built."""
    given = []
    monkeypatch.setattr(report, "execute", lambda notebook, executed, parameters: given.append(parameters))
    return given


@pytest.fixture
def no_paper(monkeypatch, tmp_path):
    def build(label, *, runs):
        raise PairlabError("the paper was not built: ! Undefined control sequence.")

    monkeypatch.setattr(report.paper, "build", build)
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path / "out"))


def test_a_report_without_a_paper_still_shows_its_results(pairlab, analysed, no_paper):
    made_up(workload="flowgen")
    status, out, err = pairlab("report")
    assert (status, err) == (0, "")
    assert "1 runs read, 1 count, 0 left out" in out
    assert "netns-flowgen: total throughput in Gbit/s" in out
    assert out.splitlines()[-1].endswith("none: the paper was not built: ! Undefined control sequence.")
    status, _, err = pairlab("report", "--need-paper")
    assert (status, err) == (1, "pairlab: the paper was not built: ! Undefined control sequence.\n")


def test_a_report_is_of_the_folder_that_pairlab_runs_names_unless_told_another(
    pairlab, analysed, no_paper, runs_dir, tmp_path
):
    made_up(workload="flowgen")
    assert pairlab("report")[0] == 0
    assert pairlab("report", "--runs", str(runs_dir))[0] == 0
    assert analysed == 2 * len(report.analyses()) * [{"runs": str(runs_dir), "sweep": ""}]
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
    every = len(report.analyses())
    assert [parameters["sweep"] for parameters in analysed] == every * ["small"] + every * ["small/docker"]
    assert "small-docker" in out  # the label


def test_a_backend_without_a_sweep_is_refused(refused):
    assert refused("report", "--backend", "docker") == (2, "--backend picks cells of a sweep: name it with --sweep")


def test_programs_are_told_of_each_step_and_of_what_was_made_a_json_object_a_line(
    pairlab, analysed, no_paper, tmp_path
):
    made_up(workload="flowgen")
    status, out, err = pairlab("report", "--json")
    assert (status, err) == (0, "")
    *steps, made = map(json.loads, out.splitlines())
    total = len(report.analyses()) + 1
    assert [(step["event"], step["done"], step["total"]) for step in steps] == [
        ("step", n, total) for n in range(total)
    ]
    assert steps[0]["step"] == "analysing: throughput"
    assert steps[-1]["step"] == "building the paper"
    assert made["event"] == "report"
    assert made["paper"] is None
    assert made["no_paper"] == "the paper was not built: ! Undefined control sequence."
    assert made["figures"].startswith(str(tmp_path / "out" / "figures"))
    assert "1 runs read, 1 count" in made["account"]


#: The command line with notebooks that take a while and do nothing, and no paper.
SLOW = """
import sys, time
from pairlab import cli, report
from pairlab.errors import PairlabError
def build(label, runs):
    raise PairlabError("no paper")
report.execute = lambda *given: time.sleep(0.3)
report.paper.build = build
cli.main(sys.argv[1:], prog_name="pairlab")
"""


def test_on_a_terminal_a_bar_shows_the_step_at_work_and_the_time_left(runs_dir, tmp_path, monkeypatch):
    made_up(workload="flowgen")
    monkeypatch.setenv("PAIRLAB_OUT", str(tmp_path / "out"))
    shown = on_a_terminal([sys.executable, "-c", SLOW, "report"])
    assert shown.status == 0
    total = len(report.analyses()) + 1
    assert any(re.search(rf"━ \d+ s left +[1-9] of {total} steps", line) for line in shown.drawn)
    assert any("analysing: fairness" in line for line in shown.drawn)
    assert not any("analysing" in line for line in shown.left)
    assert shown.left[0].startswith("1 runs read, 1 count")
