"""One of each kind that can be added, from a package and a folder outside the checkout, through the whole path:
a driver, a workload, an experiment, an analysis with its figure, and a claim. docs/how-to has a page for each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from pairlab import load_runs
from tests.conftest import need

PLUGINS = '''
"""A hub: a bridge that floods, and a workload that sends with Python's sockets."""

import json
import sys
from pathlib import Path

from pairlab.testbed.contracts import Measured, NetworkDriver, Workload

CLAIMS = Path(__file__).with_name("claims.yaml")

SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listening:
    connection, _ = listening.accept()
    while connection.recv(1 << 20):
        pass
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

    def server(self, pair, spec, site):
        return [sys.executable, "-c", SERVER, pair.server.address, str(pair.port)]

    def client(self, pair, spec, site):
        return [sys.executable, "-c", CLIENT, pair.target, str(pair.port), str(spec.total_s)]

    def parse(self, stdout, served=""):
        return [Measured(json.loads(stdout))]
'''

ENTRY_POINTS = """
[pairlab.drivers]
hub = hubs:Hub
[pairlab.workloads]
sockets = hubs:Sockets
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
from pairlab.analysis import selection, throughput_cells
from pairlab.analysis.figures import estimates, files
from pairlab.analysis.output.provenance import conditions, origin_of
from pairlab.analysis.questions import throughput

files.use_style()
found, gap = selection.select(runs, experiment="hubs", sweep=sweep)
cells = throughput.cells(throughput_cells.throughput_by_repetition(found.flows))
figure = estimates.by_system(
    cells["total_bps"], estimates.by_number, measure=throughput.TOTAL, conditions=conditions(found)
)
note = figure.get_supxlabel()
assert note.startswith("hub; ") and "TCP" in note, note
files.save(figure, "hubs", origin_of(found, runs, sweep))
"""


def notebook(path, question, parameters, code):
    cells = [
        nbformat.v4.new_markdown_cell(question),
        nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(code),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


@pytest.fixture
def package(tmp_path):
    """The package, installed as far as Python can tell, and beside it the notebooks."""
    (tmp_path / "hubs").mkdir()
    (tmp_path / "hubs" / "__init__.py").write_text(PLUGINS)
    (tmp_path / "hubs" / "claims.yaml").write_text(CLAIMS)
    installed = tmp_path / "hubs-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: hubs\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    parameters = 'driver = "hub"  # network\nworkload = "sockets"  # tool\npairs = 1  # pairs\nduration_s = 2.0  # s\n'
    parameters += "repetition = 0  # which\nmax_skew_s = 5.0  # s\nmax_foreign_cpu = 1.0  # share\n"
    notebook(tmp_path / "hubs.ipynb", "# Hubs", parameters, EXPERIMENT)
    (tmp_path / "two-hubs.yaml").write_text(SWEEP)
    notebook(tmp_path / "hub-totals.ipynb", "# Hubs", 'runs = ""  # folder\nsweep = ""  # name', ANALYSIS)
    return tmp_path


@pytest.mark.ci
def test_a_driver_workload_experiment_figure_and_claim_are_added_without_touching_another_file(package, clean_host):
    need("netns")
    python_path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": python_path, "PAIRLAB_RUNS": str(package / "runs"), "MPLBACKEND": "agg"}
    env.pop("PAIRLAB_OUT", None)

    def pairlab(*arguments):
        command = [Path(sys.executable).with_name("pairlab"), *map(str, arguments)]
        done = subprocess.run(command, cwd=package, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    assert "hub" in pairlab("doctor")
    assert "4 done, 0 skipped, 0 not done" in pairlab("sweep", "two-hubs.yaml")
    runs = load_runs(package / "runs")
    assert [(run.spec.experiment, run.status, run.failed_flows) for run in runs] == [("hubs", "ok", 0)] * 4
    clients_bps = {(run.spec.pairs, run.spec.repetition): run.total_throughput_bps / run.spec.pairs for run in runs}
    pairlab("report", "./hub-totals.ipynb", "--runs", package / "runs")
    assert list(package.glob("figures/*/hubs.svg"))
    verdicts = json.loads(pairlab("claims", "--runs", package / "runs", "--json"))["verdicts"]
    (verdict,) = [each for each in verdicts if each["id"] == "hub-shares-a-level"]
    ratios = [clients_bps[2, repetition] / clients_bps[1, repetition] for repetition in (0, 1)]
    assert verdict["system"] == "netns-sockets"
    assert verdict["value"] == pytest.approx(100 * ((ratios[0] * ratios[1]) ** 0.5 - 1))
    script = (
        "from pairlab.analysis.claims import listing, verdicts\n"
        "from pairlab.store.dataset import load_runs\n"
        f"print(*listing.lines(verdicts.evaluate(load_runs({str(package / 'runs')!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert r"\claimtopic{hubs}" in done.stdout
