"""What the workbench's live view costs: the same cell measured from the panel, in a browser on this host, and without
both, in turn; and the CPU time of each process that has to do with looking, while traffic flows.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.telemetry import counted, in_turn, overall
from pairlab import Spec
from pairlab.apps import doctor
from pairlab.statistics.intervals import Estimate
from pairlab.testbed import requirements
from tests.browser.chromium import chromium
from tests.browser.jupyter import Lab
from tests.browser.workbench import Workbench

#: For that part of its duration, from when its clients are there, a measurement is looked at. Not by what the page
#: says: on two cores that 50 pairs keep busy, the page is seconds behind.
LOOKED_AT = 5 / 8


class Cost(NamedTuple):
    """What the panel cost at that many pairs. ratios: total throughput with it over without, each turn; mean: theirs.

    core_shares: of one core, by process (kernel, server, browser), in each turn.
    """

    pairs: int
    ratios: list[float]
    mean: Estimate
    core_shares: dict[str, list[float]]


def costs(turns: int, place: Path, sizes: Iterable[int], seconds: float) -> Iterator[Cost]:
    """Of each number of pairs in sizes, measured for so many seconds. Raises Unavailable where there is no browser."""
    requirements.require({"a browser": doctor.missing_browser()})
    lab = Lab(place)
    try:
        with chromium() as browser:
            workbench = Workbench.with_panel(browser.new_page(viewport={"width": 1280, "height": 800}), lab)
            for pairs in sizes:
                yield _cost(pairs, turns, workbench, place, seconds)
    finally:
        lab.end_kernels()
        lab.end()


def _cost(pairs: int, turns: int, workbench: Workbench, place: Path, seconds: float) -> Cost:
    shares: dict[str, list[float]] = {"kernel": [], "server": [], "browser": []}
    bare = Spec(pairs=pairs, duration_s=seconds, workload="flowgen", max_skew_s=60.0, max_foreign_cpu=1.0)

    def throughput_bps(turn: int, seen: bool) -> float:
        spec = bare.replace(repetition=turn)
        if not seen:
            return counted(spec, place / "bare").total_throughput_bps
        for name, share in _watched(workbench, spec).items():
            shares[name].append(share)
        (run,) = [run for run in workbench.lab.runs() if run.spec == spec]
        return run.total_throughput_bps

    ratios = in_turn(turns, throughput_bps)
    return Cost(pairs, ratios, overall(ratios), shares)


def _watched(workbench: Workbench, spec: Spec) -> dict[str, float]:
    """Measures it from the panel; returns what share of a core each process took meanwhile."""
    asked = ("pairs", "duration_s", "workload", "repetition")
    workbench.choose(**{name: getattr(spec, name) for name in asked})
    workbench.run_button.click()
    _await_clients(workbench)
    begun_s, before = time.monotonic(), _cpu_s()
    workbench.page.wait_for_timeout(1000 * LOOKED_AT * spec.duration_s)
    passed_s, after = time.monotonic() - begun_s, _cpu_s()
    workbench.wait_until_done()
    return {name: (after[name] - before[name]) / passed_s for name in after}


def _await_clients(workbench: Workbench) -> None:
    """Comes back when the first client of the measurement runs, or is held and about to be released."""
    while not any(words[1:2] == ["client"] for words, _ in _processes()):
        workbench.page.wait_for_timeout(50)


def _cpu_s() -> dict[str, float]:
    """CPU time so far of the processes that this one started, by what they are."""
    spent = {"kernel": 0.0, "server": 0.0, "browser": 0.0}
    for words, cpu_s in _processes():
        if kind := _kind(words):
            spent[kind] += cpu_s
    return spent


def _processes() -> Iterator[tuple[list[str], float]]:
    """Command line and CPU time so far, in seconds, of each process that this one started."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            yield process.cmdline(), times.user + times.system


def _kind(words: list[str]) -> str:
    """What a process has to do with looking, by its command line; the one that measures has nothing."""
    if "ipykernel_launcher" in words:
        return "kernel"
    if "lab" in words and "pairlab" in words:
        return "server"
    return "browser" if words and "chrom" in words[0] else ""
