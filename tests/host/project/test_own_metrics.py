"""A workload of another package that measures something of its own: refused, failed, or shown wherever runs are."""

import json
import os
import subprocess
import sys

import pytest

from pairlab.store.dataset import load_runs
from tests.conftest import need

PLUGIN = '''
"""Asks for the time over a connection of Python's sockets, and reports what no other workload does."""

import json
import sys

from pairlab.testbed.contracts import Measured, Metric, Workload

SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listening:
    connection, _ = listening.accept()
    while connection.recv(1 << 20):
        connection.send(b"!")
"""
CLIENT = """
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


class Asking(Workload):
    name = "asking"
    summary = "Python's sockets, asking and waiting"
    metrics = (
        Metric("longest_wait_s", "s", "longest wait", less_is_better=True, of_run="max"),
        Metric("answers_per_s", "1/s", "answers per second", of_run="sum"),
        Metric("first_answer_s", "s", "time to the first answer", less_is_better=True, table="transactions"),
    )

    def server(self, pair, spec, site):
        return [sys.executable, "-c", SERVER, pair.server.address, str(pair.port)]

    def client(self, pair, spec, site):
        return [sys.executable, "-c", CLIENT, pair.target, str(pair.port), str(spec.total_s)]

    def parse(self, stdout, served=""):
        told = json.loads(stdout)
        flow = {"flow_bytes": 2 * told["count"], "duration_s": told["took_s"], "transactions": told["count"]}
        flow |= {"transactions_lost": 0, "transactions_failed": 0}
        flow["throughput_bps"] = flow["flow_bytes"] * 8 / flow["duration_s"]
        flow |= {"longest_wait_s": told["longest_s"], "answers_per_s": told["count"] / told["took_s"]}
        row = {"latency_s": told["longest_s"], "count": told["count"], "first_answer_s": told["first_s"]}
        return [Measured(flow | self.more, transactions=[row])]

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

ENTRY_POINTS = "[pairlab.workloads]\n" + "".join(
    f"{kind.lower()} = asking:{kind}\n" for kind in ("Asking", "Undeclared", "NoNumber", "Clashing")
)

#: Measures with each workload, and says what became of it; then what the panel and a figure show of those that count.
MEASURE = """
import json
from pairlab import Spec, load_runs, measure
from pairlab.analysis.figures.runs import pictures
from pairlab.errors import PairlabError
from pairlab.widgets.results import Results, SUMMARY, DIFFERENCE

told = {}
asked = dict(experiment="asking", pairs=2, duration_s=0.5, max_skew_s=5.0, max_foreign_cpu=1.0)
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


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    place = tmp_path_factory.mktemp("asking")
    (place / "asking.py").write_text(PLUGIN)
    installed = place / "asking-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: asking\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    return place


@pytest.fixture(scope="module")
def told(package):
    need("netns", "p2p")
    return json.loads(ran(package, sys.executable, "-c", MEASURE))


def ran(package, *command):
    env = os.environ | {"PYTHONPATH": str(package), "PAIRLAB_RUNS": str(package / "runs"), "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=package, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.ci
def test_what_a_workload_declares_is_shown_by_the_panel_and_a_figure(told):
    for name in ("longest wait", "answers per second", "time to the first answer"):
        assert name in told["asking bridge"]
        assert name in told["summary"]
        assert name in told["difference"]
        assert name.lower() in [title.lower() for title in told["figure"]]
    assert told["columns"] == ["longest_wait_s", "first_answer_s"]


@pytest.mark.ci
def test_compare_compares_by_what_a_workload_declares_and_knows_whether_less_is_better(told, package):
    pairlab = os.path.join(os.path.dirname(sys.executable), "pairlab")
    rows = json.loads(ran(package, pairlab, "compare", "workload=asking", "--base", "p2p", "--json"))["comparisons"]
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
    (only,) = ran(package, pairlab, "compare", "workload=asking", "--measure", "answers_per_s").splitlines()
    assert "answers per second" in only


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
