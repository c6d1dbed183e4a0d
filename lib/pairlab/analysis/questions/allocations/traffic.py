"""Traffic as of a data centre from three servers to one client (M4): completion times, and how long all of it takes."""

from collections.abc import Hashable, Iterable
from functools import partial

import numpy as np
import pandas as pd

from pairlab.analysis import allocations, by_group, cell_estimates, flow_parts, published, selection
from pairlab.analysis.output.formatting import MISSING, percentile_name
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, key_of, p_values, tabulate, texts
from pairlab.model import fct
from pairlab.model.records import Run
from pairlab.store.dataset import Runs

#: What one estimate is made for; load is in words, as `load_text`.
BY = (*selection.CELL, "load")
QS = (0.1, 0.5, 0.9, 0.99)
#: The flows of which percentiles are taken: all, or the share of them that is smallest, as of paper M.
SHARES = {"all": 1.0, "smallest fifth": 0.2}
RUN_TIME = Measure("All flows (s)", "run-time", 2, unit="s", short=True)
CARRIED = Measure("Carried (Gbit/s)", "carried", 3, 1e-9, "Gbit/s")
AGAINST_HOST = Measure("Against host (%)", "against-host", 1, unit="%", change=True, short=True)
#: Of the paper's loads in bit/s.
LOADS = {1e9: "standard", 3e9: "heavy"}

_NAMES = {"system": "System", "load": "Load", "driver": "Driver"}
_FCT_NAMES = {"system": "System", "load": "Load", "sizes": "Flows", "driver": "Driver"}


def load_text(offered_load_bps: float) -> str:
    """The load that was offered: "1 Gbit/s", or "closed loop" where the next request waits for the one before."""
    return f"{offered_load_bps / 1e9:g} Gbit/s" if offered_load_bps else "closed loop"


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: BY, repetition, known_as, flows, failed_flows, run_s and total_bps.

    run_s: how long all flows took together, in s (fct.all_s); total_bps: what they carried meanwhile, in bit/s. Raises
    AnalysisError where two runs claim one repetition of a cell.
    """
    rows = [
        {
            **{name: getattr(run.spec, name) for name in (*selection.CELL, "repetition")},
            "load": load_text(run.spec.offered_load_bps),
            "key": run.key,
            "known_as": allocations.known_as(run.spec.driver, run.spec.hosts),
            "flows": len(run.flows),
            "failed_flows": run.failed_flows,
            "run_s": fct.all_s(run.flows),
            "total_bps": run.total_throughput_bps,
        }
        for run in runs
        if run.status == "ok"
    ]
    columns = [*BY, "repetition", "key", "known_as", "flows", "failed_flows", "run_s", "total_bps"]
    found = pd.DataFrame(rows, columns=columns)
    selection.check_distinct(found, BY)
    return found.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of run_s and of total_bps by driver and load, as cell_estimates.means."""
    return {name: cell_estimates.means(repetitions, BY, name, confidence) for name in ("run_s", "total_bps")}


def against_host(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How much longer all flows take than over the host's own network (or what stands in for it), in percent.

    Paired by repetition, as cell_estimates.changes. Source: paper M, section IV-D, which states no interval.
    """
    known = sorted(repetitions.loc[repetitions["known_as"] == "host", "driver"].unique())
    by = [name for name in BY if name != "driver"]
    reference = known[0] if known else "host"
    return cell_estimates.changes(repetitions, by, "run_s", setting="driver", against=reference, confidence=confidence)


def percentiles(runs: Runs, confidence: float) -> pd.DataFrame:
    """Of the completion times of all flows and of the smallest, as ByGroup.percentiles, with a column sizes."""
    work = partial(_percentiles, confidence=confidence)
    found = flow_parts.reduced(work, runs, _OF_RUNS, ["size_bytes", *TIMES])
    return found.sort_values("sizes", kind="stable", ignore_index=True)


def cdfs(runs: Runs, points: int = 200) -> pd.DataFrame:
    """The CDF of the completion times of each of BY, as ByGroup.cdf."""
    return flow_parts.reduced(partial(_cdfs, points=points), runs, _OF_RUNS, [*TIMES])


#: How long a flow took from its start, and from when it was due; at an offered load the latter counts (fct.column).
TIMES = ("fct_s", "intended_fct_s")
#: What BY is made of, as the runs have it.
_OF_RUNS = (*selection.CELL, "offered_load_bps")


def _percentiles(flows: pd.DataFrame, confidence: float) -> pd.DataFrame:
    parts, flows = [], _with_load(flows)
    for sizes, share in SHARES.items():
        mine = flows if share == 1 else _smallest(flows, share)
        parts.append(by_group.of(mine, BY, "fct_s").percentiles(QS, confidence=confidence).assign(sizes=sizes))
    return pd.concat(parts, ignore_index=True).rename(columns={"repetitions": "n"})


def _cdfs(flows: pd.DataFrame, points: int) -> pd.DataFrame:
    return by_group.of(_with_load(flows), BY, "fct_s").cdf(points=points)


def _with_load(flows: pd.DataFrame) -> pd.DataFrame:
    is_due = flows["offered_load_bps"].astype(float) > 0
    flows = flows.assign(fct_s=flows["intended_fct_s"].where(is_due, flows["fct_s"]))
    loads = flows["offered_load_bps"].astype("category")
    named = loads.cat.rename_categories([load_text(float(load)) for load in loads.cat.categories])
    return flows.drop(columns="offered_load_bps").assign(load=named)


def _smallest(flows: pd.DataFrame, share: float) -> pd.DataFrame:
    """Of each repetition of a cell the flows whose size is at most that of this share of them (fct.smallest)."""
    parts = [fct.smallest(part, share) for _, part in flows.groupby([*BY, "repetition"], observed=True)]
    return pd.concat(parts) if parts else flows


def table(cells: dict[str, pd.DataFrame], to_host: pd.DataFrame) -> pd.DataFrame:
    """How long all flows took, what they carried, the change against host, and the one that paper M states."""
    stated = {
        (load, row.driver): f"{row.change_percent:+g}"
        for row in published.load("run_times").itertuples()
        for load, name in ((load_text(load), name) for load, name in LOADS.items())
        if row.load == name and row.against == "host"
    }
    known = allocations.STANDS_FOR
    columns: dict[Hashable, Texts] = {
        RUN_TIME.title: RUN_TIME.texts(cells["run_s"], *_NAMES),
        CARRIED.title: CARRIED.texts(cells["total_bps"], *_NAMES),
        AGAINST_HOST.title: AGAINST_HOST.texts(to_host, *_NAMES),
        "p (Holm)": p_values(to_host, *_NAMES),
        "Paper M (%)": texts(
            to_host, tuple(_NAMES), lambda row: stated.get((row.load, known.get(row.driver, row.driver)), MISSING)
        ),
    }
    return tabulate(_NAMES, columns)


def fct_table(percentiles: pd.DataFrame) -> pd.DataFrame:
    """Completion times by load, by whether of all flows or of the smallest, and by driver."""
    columns: dict[Hashable, Texts] = {
        f"{percentile_name(q)} (ms)": _fct(q).texts(percentiles[np.isclose(percentiles["q"], q)], *_FCT_NAMES)
        for q in QS
    }
    return tabulate(_FCT_NAMES, columns)


def values(
    runs: Runs, cells: dict[str, pd.DataFrame], to_host: pd.DataFrame, percentiles: pd.DataFrame, *gaps: str
) -> Values:
    r"""The keyed numbers, all below `dc-simulation/`: those of measures.common_values, and

    <system>/<driver>/<load>/run-time, carried, against-host; <system>/<driver>/<load>/<all or smallest-fifth>/p50, ...:
    each with its interval; and m/<standard or heavy>/<driver>/over-<other>: what paper M states.
    """
    found = common_values("dc-simulation", runs, cells["run_s"], *gaps)
    names = ("system", "driver", "load")
    RUN_TIME.put(found, cells["run_s"], *names)
    CARRIED.put(found, cells["total_bps"], *names)
    AGAINST_HOST.put(found, to_host, *names)
    for row in percentiles.itertuples():
        _fct(row.q).put_one(found, f"{key_of(row, *names, 'sizes')}/{percentile_name(row.q)}", row)
    for row in published.load("run_times").itertuples():
        found.text(f"m/{row.load}/{row.driver}/over-{row.against}", f"{row.change_percent:+g} %")
    return found


def _fct(q: float) -> Measure:
    return Measure(f"{percentile_name(q)} (ms)", percentile_name(q), 3, 1e3, "ms", short=True)
