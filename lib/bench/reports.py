"""How long figures take: the whole paper, and ten million flows."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench import analysis as bench_analysis
from bench.table import leave_out, note, out
from pairlab import paths, store
from pairlab.analysis.output import texlive
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed.host import facts


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
                _copy(name, Path(place, "runs"))
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


def _copy(experiment: str, root: Path) -> None:
    """The reference runs of that experiment, as directories."""
    for place, entry in store.stored(paths.REFERENCE).items():
        if entry.experiment == experiment:
            run = store.read(place)
            store.import_run(store.export_run(run), run.spec, root)


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


def many_flows(n=3, count=100_000_000, reported=True, **less):
    """The same of a hundred million, which do not fit into memory at once; and a whole report of them."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        _over_duckdb(root, count, n, most=3, most_gb=4, figure="many_flows", **less)
        if not reported:
            return
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
    note(what, ratios, at_most=most, figure=names[0])
    note("the same: CPU time over DuckDB's", cpu_ratios, at_most=most)
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
            note(what, took[1:], at_most=most_s, unit=" s")


#: Prints how long the runs below a folder take to be loaded, in seconds, in a process of its own.
_LOADING = """
import sys, time
import pyarrow.parquet
from pairlab import load_runs
begun = time.perf_counter()
load_runs(sys.argv[1], environment="all")
print(time.perf_counter() - begun)
"""


def packs(n=7, only=()):
    """Loading the reference runs from packs, beside loading them from directories. only: those of these experiments."""
    with tempfile.TemporaryDirectory() as place:
        folders, packed = Path(place, "runs"), Path(place, "packs")
        for name in only or sorted({entry.experiment for entry in store.stored(paths.REFERENCE).values()}):
            _copy(name, folders)
            store.pack(name, folders, packed)
        count = len(store.stored(packed))
        took = {folders: [], packed: []}
        for _ in range(n):
            for root, its in took.items():
                command = [sys.executable, "-c", _LOADING, root]
                its.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        ratios = [of_packs / of_folders for of_folders, of_packs in zip(*took.values(), strict=True)]
        note(f"loading {count:,} runs from directories", took[folders], "-", True, " s", "load_folders_s")
        met = statistics.median(took[packed]) <= 1
        note(f"loading {count:,} runs from packs", took[packed], "≤ 1 s", met, " s", "load_packs_s")
        met = statistics.median(ratios) <= 0.6
        note("the same, over directories", ratios, "≤ 0.6", met, "", "load_packs_over_folders")
        sizes = [sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) for root in took]
        note("packs' size over directories'", [sizes[1] / sizes[0]], "≤ 0.4", sizes[1] <= 0.4 * sizes[0])
