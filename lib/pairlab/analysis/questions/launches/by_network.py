"""How long launches take over each network, in which phases, beside idle pairs and many at once (paper S, table VI).

A run's launches follow each other on one testbed, so that they are no repetitions of each other: what is averaged, and
what intervals are of, are the runs' means, as paper S shows means of ten launches.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, published, selection
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, tabulate, texts
from pairlab.model import launches
from pairlab.model.records import Run
from pairlab.store.dataset import Runs

#: What one estimate is made for.
BY = (*selection.CELL, "hosts", "idle_pairs")
LAUNCH = Measure("Launch time (ms)", "launch", 1, 1e3, "ms", short=True, less_is_better=True)
#: Paper S's names of the drivers that are networks of ours by another name.
KNOWN_AS = {"process": "host", "flannel-vxlan": "flannel", "flannel-udp": "flannel"}
#: Paper S holds each network against this one.
REFERENCE = "none"
_NAMES = {"system": "System", "hosts": "Hosts", "driver": "Driver", "pairs": "At once", "idle_pairs": "Idle pairs"}


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: BY, repetition, flows and failed_flows (its launches, and those that failed), what
    launches.summaries has, and the mean of each phase in s (launches.PHASES); NaN where a run does not have it.

    Raises AnalysisError where two runs claim one repetition of a cell.
    """
    rows = [_row(run) for run in runs if run.status == "ok" and len(run.launches)]
    columns = [*BY, "key", "repetition", "flows", "failed_flows", *launches.MEASURES, *launches.PHASES.values()]
    found = pd.DataFrame(rows, columns=columns)
    selection.check_distinct(found, BY)
    return found.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def _row(run: Run) -> dict[str, Any]:
    table = run.launches
    return {
        **{name: getattr(run.spec, name) for name in (*BY, "repetition")},
        "key": run.key,
        "flows": len(table),
        "failed_flows": int((table["status"] != "ok").sum()),
        **launches.summaries(table),
        **launches.phases(table),
    }


def cells(repetitions: pd.DataFrame, confidence: float, what: str = "launch_mean_s") -> pd.DataFrame:
    """The mean launch time by network, pairs at once and idle pairs, as cell_estimates.means."""
    return cell_estimates.means(repetitions, BY, what, confidence)


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of one launch at a time, beside no idle pairs: as in paper S."""
    return frame[(frame["pairs"] == 1) & (frame["idle_pairs"] == 0)]


def every(runs: Iterable[Run]) -> pd.DataFrame:
    """Each launch that counts, of runs with one at a time beside no idle pairs: backend, workload, hosts, driver,
    repetition, status and ready_s, infinite where it failed.
    """
    parts = [
        pd.DataFrame({"ready_s": launches.ready_s(run.launches)}).assign(
            status=run.launches["status"],
            **{name: getattr(run.spec, name) for name in (*selection.SYSTEM, "hosts", "driver", "repetition")},
        )
        for run in runs
        if run.status == "ok" and run.spec.pairs == 1 and not run.spec.idle_pairs
    ]
    columns = [*selection.SYSTEM, "hosts", "driver", "repetition", "status", "ready_s"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Table VI: the mean launch time of each network, how many times that of `none`, and both as paper S has them.

    found: cells of one launch at a time. Where `none` was measured on one host only, it is what all are held against.
    """
    names = {name: head for name, head in _NAMES.items() if name in ("system", "hosts", "driver")}
    stated = _published()
    base = {
        system: part["value"].iloc[0]
        for system, part in found[(found["driver"] == REFERENCE) & (found["hosts"] == 1)].groupby(
            [*selection.SYSTEM], sort=True
        )
    }

    def times(row) -> str:
        own = base.get((row.backend, row.workload), np.nan)
        return f"{row.value / own:.2f}" if row.value / own == row.value / own else MISSING

    def paper(row) -> str:
        value = stated.get((row.hosts, KNOWN_AS.get(row.driver, row.driver)))
        return MISSING if value is None else f"{value * 1e3:,.1f}"

    def paper_times(row) -> str:
        value = stated.get((row.hosts, KNOWN_AS.get(row.driver, row.driver)))
        return MISSING if value is None else f"{value / stated[1, REFERENCE]:.2f}"

    columns: dict[Hashable, Texts] = {
        LAUNCH.title: LAUNCH.texts(found, *names),
        "Times none": texts(found, tuple(names), times),
        "Paper S (ms)": texts(found, tuple(names), paper),
        "Paper S, times none": texts(found, tuple(names), paper_times),
    }
    return tabulate(names, columns)


def several(cells: pd.DataFrame, number: str) -> pd.DataFrame:
    """Those cells of a network that differ in that number: others are no line."""
    return cells[cells.groupby(["backend", "workload", "hosts", "driver"])[number].transform("nunique") > 1]


def beside_table(found: pd.DataFrame) -> pd.DataFrame:
    """The mean launch time by network, pairs at once and idle pairs."""
    columns: dict[Hashable, Texts] = {LAUNCH.title: LAUNCH.texts(found, *_NAMES)}
    return tabulate(_NAMES, columns)


def phases(repetitions: pd.DataFrame) -> pd.DataFrame:
    """The mean of each phase over the repetitions, in s, in columns named like launches.PHASES: a row for each system,
    number of hosts and driver, of one launch at a time beside no idle pairs. What a network does not have is 0.
    """
    mine = alone(repetitions)
    named = [*selection.SYSTEM, "hosts", "driver"]
    return mine.groupby(named, sort=True)[list(launches.PHASES.values())].mean().fillna(0.0).reset_index()


def values(runs: Runs, found: pd.DataFrame, *gaps: str) -> Values:
    r"""The keyed numbers, all below `launch-time`: those of measures.common_values, and

    <system>/<hosts>/<driver>/<at once>/<idle pairs>/launch, with its interval.
    """
    made = common_values("launch-time", runs, found, *gaps)
    LAUNCH.put(made, found, "system", "hosts", "driver", "pairs", "idle_pairs")
    return made


def _published() -> dict[tuple[int, str], float]:
    """Paper S's launch times, in s, by number of hosts and driver."""
    return {(int(row.hosts), str(row.driver)): row.launch_s for row in published.load("launch_times").itertuples()}
