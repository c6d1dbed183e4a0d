"""One of each kind that can be added, from a package and a folder outside the checkout, through the whole path:
a driver, a workload, an experiment, an analysis with its figure, and a claim. docs/how-to has a page for each.

And workloads that measure something of their own: refused, failed, or shown wherever runs are.
"""

import json
import os
import subprocess
import sys

import nbformat
import pytest

from pairlab import load_runs, paths
from tests.conftest import need

PLUGINS = '''
"""A hub: a bridge that floods; a workload that sends with Python's sockets, and one that asks over them and waits."""

import json
import sys
from pathlib import Path

from pairlab.testbed.contracts import FlowReport, Metric, NetworkDriver, Workload

CLAIMS = Path(__file__).with_name("claims.yaml")

SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listening:
    connection, _ = listening.accept()
    while connection.recv(1 << 20):
        connection.send(sys.argv[3].encode())
"""
CLIENT = """
import json, socket, sys, time
payload, sent = bytes(1 << 16), 0
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    begun = time.monotonic()
    while (took_s := time.monotonic() - begun) < float(sys.argv[3]):
        sent += connection.send(payload)
print(json.dumps({"flow_bytes": sent, "duration_s": took_s, "throughput_bps": sent * 8 / took_s}))
"""

ASKING_CLIENT = """
import json, socket, sys, time
asked, waits_s = 0, []
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    begun = time.monotonic()
    while (took_s := time.monotonic() - begun) < float(sys.argv[3]):
        before = time.monotonic()
        connection.send(b"?")
        connection.recv(1)
        waits_s.append(time.monotonic() - before)
print(json.dumps({"count": len(waits_s), "took_s": took_s, "longest_s": max(waits_s), "first_s": waits_s[0]}))
"""


class Hub(NetworkDriver):
    name = "hub"
    summary = "Linux bridge that floods every frame"
    links = ("bridge", "veth")
    floods = True

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge", br_ageing_time=0)

    def attach(self, lan, endpoint):
        lan.add_veth(endpoint, master=self.bridge)


class Sockets(Workload):
    name = "sockets"
    summary = "Python's sockets"
    script, answer = CLIENT, ""

    def server(self, pair, spec, site):
        return [sys.executable, "-c", SERVER, pair.server.address, str(pair.port), self.answer]

    def client(self, pair, spec, site):
        return [sys.executable, "-c", self.script, pair.target, str(pair.port), str(spec.total_s)]

    def parse(self, stdout, served=""):
        return [FlowReport(json.loads(stdout))]


class Asking(Sockets):
    name = "asking"
    summary = "Python's sockets, asking and waiting"
    metrics = (
        Metric("longest_wait_s", "s", "longest wait", less_is_better=True, of_run="max"),
        Metric("answers_per_s", "1/s", "answers per second", of_run="sum"),
        Metric("first_answer_s", "s", "time to the first answer", less_is_better=True, table="transactions"),
    )

    script, answer = ASKING_CLIENT, "!"

    def parse(self, stdout, served=""):
        told = json.loads(stdout)
        flow = {"flow_bytes": 2 * told["count"], "duration_s": told["took_s"], "transactions": told["count"]}
        flow |= {"transactions_lost": 0, "transactions_failed": 0}
        flow["throughput_bps"] = flow["flow_bytes"] * 8 / flow["duration_s"]
        flow |= {"longest_wait_s": told["longest_s"], "answers_per_s": told["count"] / told["took_s"]}
        row = {"latency_s": told["longest_s"], "count": told["count"], "first_answer_s": told["first_s"]}
        return [FlowReport(flow | self.more, transactions=[row])]

    more = {}


class Undeclared(Asking):
    name = "undeclared"
    more = {"mood": 1}


class NoNumber(Asking):
    name = "no-number"
    more = {"longest_wait_s": "long"}


class Clashing(Asking):
    name = "clashing"
    metrics = (Metric("retransmits", "segments", "again"),)
'''

ENTRY_POINTS = """
[pairlab.drivers]
hub = hubs:Hub
[pairlab.workloads]
sockets = hubs:Sockets
asking = hubs:Asking
undeclared = hubs:Undeclared
no-number = hubs:NoNumber
clashing = hubs:Clashing
[pairlab.claims]
hubs = hubs:CLAIMS
"""

CLAIMS = """
- id: hub-shares-a-level
  statement: "a client gets less over a hub where there are two"
  sources: [{paper: C, where: section III}]
  effect: {quantity: client_bps, of: {experiment: hubs, driver: hub, pairs: 2}, over: {pairs: 1}}
  claimed: less
  margin: 5
  false_if: a client gets no less where there are two
"""

EXPERIMENT = """
from pairlab import measure, spec_from

run = measure(spec_from(globals(), experiment="hubs"))
"""

SWEEP = """
name: two-hubs
repetitions: 2
experiments:
  ./hubs.ipynb: {pairs: [1, 2]}
"""

ANALYSIS = """
from pairlab import load_runs
from pairlab.analysis.claims import listing, verdicts
from pairlab.analysis.figures import estimates
from pairlab.analysis.question import Mean, Question, ask
from pairlab.analysis.questions.throughput import TOTAL

hubs = Question(
    topic="hubs",
    experiment="hubs",
    estimates={"total": Mean(TOTAL, "total_bps")},
    figures={"hubs": lambda answer: answer.panels(estimates.by_number, "total")},
)
answer = ask(hubs, runs, sweep)
note = answer.figure("hubs").get_supxlabel()
assert note.startswith("hub; ") and "TCP" in note, note
answer.write("hubs")
assert r"\\claimtopic{Own claims: hubs}" in "\\n".join(listing.lines(verdicts.evaluate(load_runs(runs))))
"""


#: Measures with each workload, and says what became of it; then what the panel and a figure show of those that count.
MEASURE = """
import json
from pairlab import Spec, load_runs, measure
from pairlab.analysis.figures.runs import pictures
from pairlab.errors import PairlabError
from pairlab.widgets.results import Results, SUMMARY, DIFFERENCE
from tests.support.any_machine import count_disturbed_runs

count_disturbed_runs()
told = {}
asked = dict(experiment="asking", pairs=2, duration_s=0.5)
for workload, driver in [
    ("asking", "bridge"), ("asking", "p2p"), ("undeclared", "p2p"), ("no-number", "p2p"), ("clashing", "p2p")
]:
    try:
        told[f"{workload} {driver}"] = str(measure(Spec(workload=workload, driver=driver, **asked)))
    except PairlabError as error:
        told[f"{workload} {driver}"] = f"{type(error).__name__}: {error}"
runs = load_runs().where(workload="asking", status="ok")
results = Results()
results.show(list(runs), tab=SUMMARY)
told["summary"] = results.view.value
results.show(list(runs), tab=DIFFERENCE)
told["difference"] = results.view.value
told["figure"] = [ax.get_title(loc="left") for ax in pictures.measures(runs).axes]
told["columns"] = [name for name in [*runs.flows, *runs.transactions] if name.endswith(("wait_s", "answer_s"))]
print(json.dumps(told))
"""


def notebook(path, question, parameters, code):
    cells = [
        nbformat.v4.new_markdown_cell(question),
        nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(code),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package, installed as far as Python can tell, and beside it the notebooks."""
    place = tmp_path_factory.mktemp("hubs")
    (place / "hubs").mkdir()
    (place / "hubs" / "__init__.py").write_text(PLUGINS)
    (place / "hubs" / "claims.yaml").write_text(CLAIMS)
    installed = place / "hubs-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: hubs\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    parameters = 'driver = "hub"  # network\nworkload = "sockets"  # tool\npairs = 1  # pairs\nduration_s = 1.5  # s\n'
    parameters += "repetition = 0  # which\nlink_rate_bps = 1e8  # bit/s: steady, whatever else this machine does\n"
    parameters += "max_skew_s = 5.0  # s\nmax_foreign_cpu = 1.0  # share\n"
    notebook(place / "hubs.ipynb", "# Hubs", parameters, EXPERIMENT)
    (place / "two-hubs.yaml").write_text(SWEEP)
    notebook(place / "hub-totals.ipynb", "# Hubs", 'runs = ""  # folder\nsweep = ""  # name', ANALYSIS)
    return place


def ran(package, *command):
    python_path = os.pathsep.join([str(package), str(paths.ROOT), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": python_path, "PAIRLAB_RUNS": str(package / "runs"), "MPLBACKEND": "agg"}
    env.pop("PAIRLAB_OUT", None)
    done = subprocess.run(list(map(str, command)), cwd=package, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def pairlab(package):
    """What the command prints."""
    return lambda *arguments: ran(package, sys.executable, "-m", "pairlab", *arguments)


@pytest.mark.whole
def test_a_driver_workload_experiment_figure_and_claim_are_added_without_touching_another_file(
    package, pairlab, clean_host
):
    need("netns")
    assert "4 done, 0 skipped, 0 not done" in pairlab("sweep", "two-hubs.yaml")
    runs = load_runs(package / "runs", experiment="hubs")
    assert [(run.spec.experiment, run.status, run.failed_flows) for run in runs] == [("hubs", "ok", 0)] * 4
    clients_bps = {(run.spec.pairs, run.spec.repetition): run.total_throughput_bps / run.spec.pairs for run in runs}
    pairlab("report", "./hub-totals.ipynb", "--runs", package / "runs")
    assert list(package.glob("figures/*/hubs.svg"))
    verdicts = json.loads(pairlab("claims", "--runs", package / "runs", "--json"))["verdicts"]
    (verdict,) = [each for each in verdicts if each["id"] == "hub-shares-a-level"]
    ratios = [clients_bps[2, repetition] / clients_bps[1, repetition] for repetition in (0, 1)]
    assert verdict["system"] == "netns-sockets"
    assert verdict["value"] == pytest.approx(100 * ((ratios[0] * ratios[1]) ** 0.5 - 1))


# --- metrics of a workload's own


@pytest.fixture(scope="module")
def told(package):
    need("netns", "p2p")
    return json.loads(ran(package, sys.executable, "-c", MEASURE))


@pytest.mark.whole
def test_what_a_workload_declares_is_shown_by_the_panel_and_a_figure(told):
    for name in ("longest wait", "answers per second", "time to the first answer"):
        assert name in told["asking bridge"]
        assert name in told["summary"]
        assert name in told["difference"]
        assert name.lower() in [title.lower() for title in told["figure"]]
    assert told["columns"] == ["longest_wait_s", "first_answer_s"]


@pytest.mark.whole
def test_compare_compares_by_what_a_workload_declares_and_knows_whether_less_is_better(told, package, pairlab):
    rows = json.loads(pairlab("compare", "workload=asking", "--base", "p2p", "--json"))["comparisons"]
    by_measure = {row["measure"]: row for row in rows}
    assert list(by_measure) == ["latency_p50_s", "longest_wait_s", "answers_per_s", "first_answer_s"]
    runs = load_runs(package / "runs").where(workload="asking")
    flows = {run.spec.driver: run.flows for run in runs}
    longest_s = {driver: frame["longest_wait_s"].max() for driver, frame in flows.items()}
    rate = {driver: frame["answers_per_s"].sum() for driver, frame in flows.items()}
    change = by_measure["longest_wait_s"]["change_percent"]
    assert change == pytest.approx(100 * (longest_s["bridge"] / longest_s["p2p"] - 1))
    assert by_measure["answers_per_s"]["change_percent"] == pytest.approx(100 * (rate["bridge"] / rate["p2p"] - 1))
    more = "times as long as" if change >= 100 else "longer than"  # as result.py says a change
    assert (more if change > 0 else "less time than") in by_measure["longest_wait_s"]["words"]
    only, alike = pairlab("compare", "workload=asking", "--measure", "answers_per_s").splitlines()
    assert "answers per second" in only
    assert alike.startswith("All: asking")


def test_a_column_that_is_not_declared_and_a_value_that_is_no_number_fail_the_flows_in_plain_words(told):
    assert (
        "failed (all 2 flows failed, the first: undeclared reported 'mood', and flows has no such column"
        in (told["undeclared p2p"])
    )
    assert (
        "failed (all 2 flows failed, the first: longest_wait_s is 'long', which is no number" in told["no-number p2p"]
    )


def test_a_metric_that_cannot_be_a_column_is_refused_before_anything_is_built(told, package):
    assert told["clashing p2p"].startswith(
        "BadSpec: workload 'clashing' declares a metric that cannot be measured: 'retransmits' is a column of"
    )
    assert not load_runs(package / "runs").where(workload="clashing").runs
