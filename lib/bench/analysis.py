"""Many flows loaded and reduced, beside DuckDB: what `make bench` runs in processes of their own.

`python -m bench.analysis ours|duckdb|figure|report DIR` prints as JSON what it took: seconds (without imports),
and the largest memory that the process had.
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

from pairlab import paths, store
from pairlab.analysis import by_group
from pairlab.analysis.questions import fct
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs

DRIVERS, PAIRS, REPETITIONS = ("bridge", "macvlan", "ovs"), (10, 50, 100, 150), 10
GROUP = ["backend", "workload", "driver", "pairs"]
CELLS = len(DRIVERS) * len(PAIRS)


def write_runs(root: Path, flows: int, repetitions: int = REPETITIONS) -> None:
    """So many flows in 12 cells of so many repetitions: log-normal completion times, each repetition off a little.

    One in 10,000 failed.
    """
    random = np.random.default_rng(3)
    told = [(driver, pairs, repetition) for repetition in range(repetitions) for driver in DRIVERS for pairs in PAIRS]
    for number, (driver, pairs, repetition) in enumerate(told):
        count = flows // len(told) + (number < flows % len(told))
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
        frame = none.reindex(range(count)).assign(**measured).astype(dict(none.dtypes))
        cell = {"driver": driver, "pairs": pairs, "repetition": repetition, "workload": "flowgen"}
        spec = Spec(experiment="fct", **cell, flow_bytes=5_000_000)
        store.write(Run(spec, "ok", facts={"host": {"fingerprint": "made-up"}}, flows=frame), root)


def apart(what: str, root: Path) -> dict:
    """One of the following in a fresh process."""
    command = [sys.executable, "-m", "bench.analysis", what, str(root)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def ours(root: Path) -> dict:
    """Percentiles with intervals, and the points of the CDFs, as 03-fct makes them; and how many flows there are."""
    begun, cpu = time.perf_counter(), time.process_time()
    runs = load_runs(root)
    found, lines = fct.percentiles_and_cdfs(runs, points=2000)
    took = time.perf_counter() - begun
    assert len(found) == CELLS * len(fct.QS)
    assert (found["gap"] == "").all()
    assert (found["low"] < found["high"]).all()
    flows = int(found["flows"].sum()) // len(fct.QS)
    return {"took_s": took, "cpu_s": time.process_time() - cpu, "points": len(lines), "flows": flows}


def report(root: Path) -> dict:
    """`pairlab report`, all that it shows; the memory is that of the largest of its processes."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-c", "from pairlab.cli import main; main()", "report", "--runs", str(root)]
        subprocess.run(
            command, env=os.environ | {"PAIRLAB_OUT": place}, cwd=paths.ROOT, stdout=subprocess.DEVNULL, check=True
        )
    return {"took_s": time.perf_counter() - begun, "of_children": True}


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
    parts = {"ours": ours, "duckdb": duckdb, "figure": figure, "report": report}
    told = parts[sys.argv[1]](Path(sys.argv[2]))
    whose = resource.RUSAGE_CHILDREN if told.get("of_children") else resource.RUSAGE_SELF
    print(json.dumps(told | {"peak_bytes": 1024 * resource.getrusage(whose).ru_maxrss}))
