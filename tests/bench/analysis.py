"""Ten million flows loaded and reduced, beside DuckDB: what `make bench` runs in processes of their own.

`python -m tests.bench.analysis ours|duckdb|figure DIR` prints as JSON what it took: seconds (without imports), and the
largest memory that the process had.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pairlab import store
from pairlab.analysis import by_group
from pairlab.analysis.questions import fct
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs

DRIVERS, PAIRS, REPETITIONS, FLOWS = ("bridge", "macvlan", "ovs"), (10, 50, 100, 150), 10, 10_000_000
GROUP = ["backend", "workload", "driver", "pairs"]
CELLS = len(DRIVERS) * len(PAIRS)


def write_runs(root: Path) -> None:
    """12 cells of 10 repetitions: log-normal completion times, each repetition off a little, one in 10,000 failed."""
    random = np.random.default_rng(3)
    told = [(driver, pairs, repetition) for repetition in range(REPETITIONS) for driver in DRIVERS for pairs in PAIRS]
    for number, (driver, pairs, repetition) in enumerate(told):
        count = FLOWS // len(told) + (number < FLOWS % len(told))
        begun = random.uniform(0, 0.002, count)
        took = 0.002 * pairs * np.exp(random.normal(0, 0.1) + random.normal(0, 0.5, count))
        failed = random.random(count) < 1e-4
        took[failed] = np.nan
        measured = {
            "pair": np.arange(count) % pairs,
            "flow": np.arange(count) // pairs,
            "status": np.where(failed, "failed", "ok"),
            "error": np.where(failed, "connection refused", ""),
            "protocol": "tcp",
            "role": "",
            "congestion_control": "cubic",
            "size_bytes": 5e6,
            "start_s": begun,
            "completed_s": begun + took,
            "fct_s": took,
            "intended_fct_s": begun + took,
            "throughput_bps": 4e7 / took,
        }
        none = table("flows")
        flows = none.reindex(range(count)).assign(**measured).astype(dict(none.dtypes))
        spec = Spec(experiment="fct", driver=driver, pairs=pairs, repetition=repetition, workload="flowgen")
        store.write(Run(spec, "ok", facts={"host": {"fingerprint": "made-up"}}, flows=flows), root)


def apart(what: str, root: Path) -> dict:
    """One of the following in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.analysis", what, str(root)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def ours(root: Path) -> dict:
    """Percentiles with intervals, and the points of the CDFs."""
    begun, cpu = time.perf_counter(), time.process_time()
    flows = load_runs(root).select("flows", [*GROUP, "key", "repetition", "status", "fct_s"])
    groups = by_group.of(flows, GROUP, "fct_s")
    found, lines = groups.percentiles(fct.QS), groups.cdf()
    took = time.perf_counter() - begun
    assert (len(flows), len(found)) == (FLOWS, CELLS * len(fct.QS))
    assert (found["gap"] == "").all()
    assert (found["low"] < found["high"]).all()
    return {"took_s": took, "cpu_s": time.process_time() - cpu, "points": len(lines)}


def duckdb(root: Path) -> dict:
    """The bare scan and quantiles of the same files: no intervals, no CDF, nothing checked."""
    import duckdb

    files = [place / "flows.parquet" for place in store.directories(root)]
    specs = [store.read(file.parent).spec for file in files]
    begun, cpu = time.perf_counter(), time.process_time()
    connection = duckdb.connect()
    connection.execute("CREATE TABLE cells (filename VARCHAR, driver VARCHAR, pairs INTEGER)")
    rows = [(str(file), spec.driver, spec.pairs) for file, spec in zip(files, specs, strict=True)]
    connection.executemany("INSERT INTO cells VALUES (?, ?, ?)", rows)
    found = connection.execute(
        "SELECT driver, pairs, quantile_cont(fct_s, [0.5, 0.9, 0.95, 0.99, 0.999])"
        " FROM read_parquet($files, filename = true) JOIN cells USING (filename) GROUP BY ALL",
        {"files": [str(file) for file in files]},
    ).fetchall()
    took = time.perf_counter() - begun
    assert len(found) == CELLS
    return {"took_s": took, "cpu_s": time.process_time() - cpu}


def figure(root: Path) -> dict:
    """The bytes of a CDF figure of all flows, a line for each cell, by kind of file (PGF only with LaTeX)."""
    import matplotlib

    matplotlib.use("Agg")
    from pairlab.analysis.figures import cdf
    from pairlab.analysis.figures.files import save
    from pairlab.analysis.output.provenance import origin_of

    runs = load_runs(root)
    flows = runs.select("flows", [*GROUP, "key", "repetition", "status", "fct_s"])
    lines = by_group.of(flows, GROUP, "fct_s").cdf()
    drawn = cdf.cdf_panels(lines, label="Flow completion time (ms)", scale=1e3, log=True)
    with tempfile.TemporaryDirectory() as place:
        os.environ["PAIRLAB_OUT"] = place
        files = save(drawn, "bench", origin_of(runs, root))
        return {file.suffix[1:]: file.stat().st_size for file in files}


if __name__ == "__main__":
    told = {"ours": ours, "duckdb": duckdb, "figure": figure}[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(told | {"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
