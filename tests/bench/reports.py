"""How long figures take: the whole paper, and ten million flows; and how often their intervals hold."""

import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.stats import norm

from pairlab import paths, store
from pairlab.analysis.output import texlive
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.testbed.host import facts
from tests.bench import analysis as bench_analysis
from tests.bench.table import leave_out, note, out


def paper(n=3, only=()):
    """All analysis notebooks over the reference runs, and the paper; one process after the other, as a user has it.

    only: over the runs of these experiments, and without the paper.
    """
    what = "all analysis notebooks and the paper over runs/reference"
    if missing := texlive.missing():
        return leave_out(what, f"no {', '.join(missing)}")
    took = []
    for _ in range(n):
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, "-c", "from pairlab.cli import main; main()", "report", "--runs"]
            command += [f"{place}/runs"] if only else ["runs/reference", "--need-paper"]
            for name in only:
                shutil.copytree(paths.ROOT / "runs/reference" / name, Path(place, "runs", name))
            begun = time.monotonic()
            subprocess.run(
                command,
                env=os.environ | {"PAIRLAB_OUT": place},
                cwd=paths.ROOT,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            took.append(time.monotonic() - begun)
    note(what, took, "< 180 s", max(took) < 180, " s")


def flows(n=7, count=10_000_000, **less):
    """So many flows: percentiles with intervals and CDFs of 12 groups, beside DuckDB's bare quantiles."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        _over_duckdb(root, count, n, most=2, most_gb=2, **less)
        drawn = bench_analysis.apart("figure", root)
        for kind in ("pdf", "pgf"):
            if kind in drawn:
                size = drawn[kind] / 1e3
                note(
                    f"a CDF figure of {count / 1e6:g} million flows, {kind.upper()}",
                    [size],
                    "< 500 kB",
                    size < 500,
                    " kB",
                )


def many_flows(n=3, count=100_000_000, **less):
    """The same of a hundred million, which do not fit into memory at once; and a whole report of them."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        _over_duckdb(root, count, n, most=3, most_gb=4, figure="many_flows", **less)
        made = bench_analysis.apart("report", root)
        peak_gb, what = made["peak_bytes"] / 1e9, f"pairlab report over {count / 1e6:g} million flows"
        figure = "many_flows_report_memory_gb"
        note(f"{what}: largest memory of a process", [peak_gb], "< 4 GB", peak_gb < 4, " GB", figure)
        note(what, [made["took_s"]], "none", True, " s", "many_flows_report_time_s")


def _over_duckdb(root, flows, n, *, most, most_gb, figure="", unmeasured=1, repetitions=bench_analysis.REPETITIONS):
    """Writes so many flows and reduces them, in turn with DuckDB; figure: what the ratio and the memory are kept as."""
    what = f"{flows / 1e6:g} million flows loaded and reduced over DuckDB's bare scan and quantiles"
    bench_analysis.write_runs(root, flows, repetitions)
    ratios, cpu_ratios, peaks = [], [], []
    for turn in range(-unmeasured, n):  # the first warms the disk's cache
        sides = ["ours", "duckdb"] if turn % 2 else ["duckdb", "ours"]
        took = {side: bench_analysis.apart(side, root) for side in sides}
        assert took["ours"]["flows"] == flows
        out.print(f"  ours {took['ours']['took_s']:.2f} s, DuckDB {took['duckdb']['took_s']:.2f} s")
        if turn >= 0:
            ratios.append(took["ours"]["took_s"] / took["duckdb"]["took_s"])
            cpu_ratios.append(took["ours"]["cpu_s"] / took["duckdb"]["cpu_s"])
            peaks.append(took["ours"]["peak_bytes"] / 1e9)
    names = (figure and f"{figure}_over_duckdb", figure and f"{figure}_memory_gb")
    note(what, ratios, f"≤ {most}", statistics.median(ratios) <= most, "", names[0])
    note("the same: CPU time over DuckDB's", cpu_ratios, f"≤ {most}", statistics.median(cpu_ratios) <= most)
    within = max(peaks) < most_gb
    note("the same: largest memory of its process", peaks, f"< {most_gb} GB", within, " GB", names[1])


def starts(n=7, runs=1000):
    """What a user waits for before anything happens: importing pairlab for a Spec, and listing so many runs."""
    for what, command, most_s in (
        (
            "python -c 'from pairlab import Spec; Spec()'",
            [sys.executable, "-c", "from pairlab import Spec; Spec()"],
            0.25,
        ),
        (f"pairlab ls of {runs:,} runs", None, 0.6),
    ):
        with tempfile.TemporaryDirectory() as place:
            if command is None:
                command = [Path(sys.executable).with_name("pairlab"), "ls", "--runs", place]
                for pairs in range(1, runs + 1):
                    run = Run(Spec(pairs=pairs), "ok", measured_at=datetime.now(UTC), facts={"host": facts.host()})
                    store.write(run, Path(place))
            took = []
            for _ in range(n + 1):  # the first compiles, reads and fills what is kept
                begun = time.monotonic()
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                took.append(time.monotonic() - begun)
            note(what, took[1:], f"≤ {most_s:g} s", statistics.median(took[1:]) <= most_s, " s")


def coverage(times=500):
    """How often 95 % intervals hold the quantile of clustered log-normal flows; one value per case."""
    random, held = np.random.default_rng(1), []
    for repetitions, flows, q, between in itertools.product((3, 4, 5, 10), (100, 1000), (0.5, 0.9, 0.99), (0, 0.1)):
        if repetitions * flows * (1 - q) < 5:
            continue
        true = np.exp(norm.ppf(q) * np.hypot(between, 0.4))
        repetition = np.repeat(range(repetitions), flows)
        inside_it = 0
        for _ in range(times):
            drift = np.repeat(random.normal(0, between, repetitions), flows)
            values = np.exp(drift + random.normal(0, 0.4, len(drift)))
            found = quantiles.percentile(Clusters.of(values, repetition), q, resamples=300).estimate()
            inside_it += found.low <= true <= found.high
        held.append(100 * inside_it / times)
    what = "95 % intervals of p50, p90, p99 hold the quantile (3 to 10 repetitions)"
    note(what, held, "90 to 98 %", 90 <= statistics.median(held) <= 98 and min(held) > 85, " %")
