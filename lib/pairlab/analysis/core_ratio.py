"""How experiment E6 is laid out: throughput and completion time by containers per core."""

import numpy as np
import pandas as pd

from pairlab import completion_times
from pairlab.analysis import estimates, stats
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, put, rows_by_driver, shown, slug, systems, with_bounds
from pairlab.collection import Runs

#: What tells cells apart besides stats.CELL; ratio is containers per core.
ALSO = ("cores", "ratio")
BY = (*stats.CELL, *ALSO)
#: What is estimated, how tables and figures call it, its scale there, and digits.
MEASURES = {
    "client_bps": ("Mean per client (Gbit/s)", 1e-9, 3),
    "total_bps": ("Total (Gbit/s)", 1e-9, 2),
    "mean_fct_s": ("Mean FCT (ms)", 1e3, 1),
}
_KEYS = {"client_bps": "client", "total_bps": "total", "mean_fct_s": "fct"}
#: Not a container network: the baseline is no part of the gap between drivers.
BASELINE = "host"


def with_ratio(flows: pd.DataFrame, runs: Runs) -> pd.DataFrame:
    """The flows with `cores` as the number really used (0 in the spec: all CPUs of the host), and `ratio`.

    ratio is containers per core: 2 * pairs / cores. A run that does not tell its host's CPUs, where that is needed,
    has neither.
    """
    cpus = {run.key: run.facts.get("host", {}).get("cpus", np.nan) for run in runs}
    cores = flows["cores"].astype(float)
    cores = cores.where(cores > 0, flows["key"].map(cpus).astype(float))
    return flows.assign(cores=cores, ratio=2 * flows["pairs"].astype(float) / cores)


def throughput(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition of each cell, of flows that run for the whole time: as stats.throughput_by_repetition."""
    return stats.throughput_by_repetition(flows[flows["asked_flow_bytes"] == 0], also=ALSO)


def completion(flows: pd.DataFrame) -> pd.DataFrame:
    """The mean FCT in seconds of the flows of each repetition: BY, repetition, mean_fct_s, flows, failed_flows.

    flows: as with_ratio; those that have an end. Where a flow failed there is no mean (completion_times.py): it counts.
    """
    ended = flows[flows["asked_flow_bytes"] > 0]
    stats.check_comparable(ended, ALSO)
    rows = []
    for names, group in ended.groupby([*BY, "repetition"], sort=True):
        failed = int((group["status"] != "ok").sum())
        rows.append([*names, completion_times.mean(completion_times.of(group)), len(group), failed])
    return pd.DataFrame(rows, columns=[*BY, "repetition", "mean_fct_s", "flows", "failed_flows"])


def cells(throughput: pd.DataFrame, completion: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as estimates.means, by its name; with a column `place`."""
    frames = {name: completion if name == "mean_fct_s" else throughput for name in MEASURES}
    return {name: placed(estimates.means(frame, BY, name, confidence)) for name, frame in frames.items()}


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `place`: the ratio, and which pairs and cores give it, as an axis tells it."""
    told = [f"{row.ratio:g}\n{row.pairs}/{row.cores:g}" for row in frame.itertuples()]
    return frame.assign(place=pd.Series(told, index=frame.index, dtype=object))


def places(*frames: pd.DataFrame) -> list[str]:
    """All places, by ratio and then by pairs: one ratio can come about in several ways, and these are not pooled."""
    every = pd.concat([frame[["ratio", "pairs", "place"]] for frame in frames if len(frame)] or [pd.DataFrame()])
    if every.empty:
        return []
    return list(every.sort_values(["ratio", "pairs"])["place"].drop_duplicates())


def axis(frame: pd.DataFrame) -> dict[str, object]:
    """The places of a frame as panels.by_category takes its categories."""
    return {"category": "place", "order": places(frame), "name": "Containers per core (pairs/cores below)"}


def missing(gap: str, throughput: pd.DataFrame, completion: pd.DataFrame) -> list[str]:
    """Why there is nothing of one kind or of both; empty where both were measured."""
    if gap:
        return [gap]
    told = {
        "no run of 'core-ratio' has flows that run for the whole time (flow_bytes 0): no throughput": throughput,
        "no run of 'core-ratio' has flows with an end (flow_bytes above 0): no completion times": completion,
    }
    return [why for why, frame in told.items() if frame.empty]


def changes(repetitions: pd.DataFrame, value: str, confidence: float) -> pd.DataFrame:
    """The change of `value` in percent against the least ratio of the system, paired by repetition, by driver.

    As estimates.changes, with the column place. Source: paper C, figures 7 and 8.
    """
    parts = []
    for _, system in placed(repetitions).groupby(list(stats.SYSTEM), sort=True):
        least = places(system)[0]
        by = [*stats.SYSTEM, "driver"]
        parts.append(estimates.changes(system, by, value, setting="place", against=least, confidence=confidence))
    columns = [*stats.SYSTEM, "driver", "place", *estimates.COLUMNS, "p", "p_holm"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def gaps(repetitions: pd.DataFrame, value: str) -> pd.DataFrame:
    """How many times the least driver's `value` the largest driver's is, in each repetition of each cell.

    Only container networks count, and only repetitions that have all of the system's; of a single one there is no
    gap. Being a largest over a least it is above 1 by chance alone: compare it between ratios, not with 1. Returns
    SYSTEM, pairs, cores, ratio, repetition, gap_times. Source: paper C, section III-B.
    """
    rows = []
    networks = repetitions[repetitions["driver"] != BASELINE]
    for names, system in networks.groupby(list(stats.SYSTEM), sort=True):
        drivers = system["driver"].nunique()
        for cell, group in system.groupby(["pairs", *ALSO, "repetition"], sort=True):
            rates = group[value].to_numpy(dtype=float)
            if drivers > 1 and len(rates) == drivers:
                with np.errstate(divide="ignore"):
                    rows.append([*names, *cell, rates.max() / rates.min()])
    return pd.DataFrame(rows, columns=[*stats.SYSTEM, "pairs", *ALSO, "repetition", "gap_times"])


def gap_cells(gaps: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean gap over repetitions by cell, as estimates.means, with place; and how it changes in percent.

    change, change_low, change_high: against the least ratio of the system, paired by repetition; missing for that.
    """
    found = placed(estimates.means(gaps, [*stats.SYSTEM, "pairs", *ALSO], "gap_times", confidence))
    known = changes(gaps.assign(driver="all"), "gap_times", confidence)
    known = known.rename(columns={"value": "change", "low": "change_low", "high": "change_high"})
    return found.merge(
        known[[*stats.SYSTEM, "place", "change", "change_low", "change_high"]], how="left", on=[*stats.SYSTEM, "place"]
    )


def tables(cells: dict[str, pd.DataFrame], changes: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """table() of each system, by its name."""
    return {
        system: table(_of(cells, system), _of(changes, system))
        for system in dict.fromkeys(name for frame in cells.values() for name in systems(frame))
    }


def table(cells: dict[str, pd.DataFrame], changes: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Each measure by driver and ratio, with its change against the least ratio, as text; of one system.

    cells: as cells(); changes: of the measures that have them, as changes(); both of one system.
    """
    told = pd.concat([frame[["driver", "ratio", "pairs", "cores", "place"]] for frame in cells.values()])
    told = told.drop_duplicates()

    def tell(frame: pd.DataFrame, text):
        keyed = {(row.driver, row.place): row for row in frame.itertuples()}
        return lambda cell: text(keyed[cell.driver, cell.place]) if (cell.driver, cell.place) in keyed else MISSING

    columns = {}
    for name, (title, scale, digits) in MEASURES.items():
        columns[title] = tell(cells[name], lambda row, scale=scale, digits=digits: shown(row, digits, scale=scale))
        if name in changes:
            columns[f"Change of {_KEYS[name]} (%)"] = tell(
                changes[name], lambda row: with_bounds(row.value, row.low, row.high, 0)
            )
    found = rows_by_driver(
        told,
        ("driver", "ratio", "pairs", "cores"),
        columns,
        heads=("Driver", "Containers per core", "Pairs", "Cores"),
    )
    return _trimmed(found)


def tables_of_gaps(gaps: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """table_of_gaps() of each system that has a gap between drivers, by its name."""
    return {
        system: table_of_gaps(_of(gaps, system))
        for system in dict.fromkeys(name for frame in gaps.values() for name in systems(frame))
    }


def table_of_gaps(gaps: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The gap between drivers by ratio, of throughput and of FCT, as text; of one system, as gap_cells."""
    rows: dict[tuple, dict[str, str]] = {}
    for name, frame in gaps.items():
        what = {"client_bps": "Throughput", "mean_fct_s": "FCT"}[name]
        for row in frame.sort_values(["ratio", "pairs"]).itertuples():
            cell = rows.setdefault((f"{row.ratio:g}", row.pairs, f"{row.cores:g}"), {})
            cell[f"{what} (largest/least)"] = shown(row, 2)
            cell[f"{what}, change (%)"] = with_bounds(row.change, row.change_low, row.change_high, 0)
    index = pd.MultiIndex.from_tuples(list(rows), names=["Containers per core", "Pairs", "Cores"])
    return pd.DataFrame(list(rows.values()), index=index).fillna(MISSING)


def values(
    runs: Runs,
    cells: dict[str, pd.DataFrame],
    changes: dict[str, pd.DataFrame],
    gaps: dict[str, pd.DataFrame],
    *missing: str,
) -> Values:
    r"""The keyed numbers of E6, all below `core-ratio/`: those of layout.head, and

    - <system>/<driver>/<ratio>/client, total, fct, with -interval; client-change, fct-change (against the least
      ratio), with -interval. <ratio> is containers per core, followed by -<pairs>p-<cores>c;
    - <system>/<ratio>/client-gap, fct-gap: largest over least driver, with -interval;
    - <system>/ratios: those measured, as text.
    """
    every = pd.concat([frame for frame in cells.values() if len(frame)] or [next(iter(cells.values()))])
    found = head("core-ratio", runs, every, *missing)
    for system, part in systems(every).items():
        ratios = sorted(part["ratio"].unique())
        found.text(f"{system}/ratios", ", ".join(f"{ratio:g}" for ratio in ratios))
    units = {"client_bps": "Gbit/s", "total_bps": "Gbit/s", "mean_fct_s": "ms"}
    for name, frame in cells.items():
        _, scale, digits = MEASURES[name]
        for row in frame.itertuples():
            key = f"{row.backend}-{row.workload}/{row.driver}/{_slug(row.place)}"
            put(found, f"{key}/{_KEYS[name]}", row, digits, units[name], scale=scale)
    for name, frame in changes.items():
        for row in frame.itertuples():
            key = f"{row.backend}-{row.workload}/{row.driver}/{_slug(row.place)}"
            put(found, f"{key}/{_KEYS[name]}-change", row, 1, "%", signed=True)
    for name, frame in gaps.items():
        for row in frame.itertuples():
            put(found, f"{row.backend}-{row.workload}/{_slug(row.place)}/{_KEYS[name]}-gap", row, 2)
    return found


def _slug(place: str) -> str:
    ratio, _, (pairs, _, cores) = *place.partition("\n")[:2], place.partition("\n")[2].partition("/")
    return f"{slug(ratio)}-{pairs}p-{cores}c"


def _of(frames: dict[str, pd.DataFrame], system: str) -> dict[str, pd.DataFrame]:
    return {name: systems(frame).get(system, frame.iloc[:0]) for name, frame in frames.items()}


def _trimmed(table: pd.DataFrame) -> pd.DataFrame:
    """Without the columns in which nothing was measured."""
    return table.loc[:, (table != MISSING).any()]
