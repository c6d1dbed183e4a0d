"""Throughput and completion time by containers per core (E6)."""

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, selection, throughput_cells
from pairlab.analysis.output.formatting import slug, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, tabulate
from pairlab.model import fct
from pairlab.store.dataset import Runs

#: What distinguishes cells besides CELL; ratio is containers per core.
ALSO = ("cores", "ratio")
BY = (*selection.CELL, *ALSO)
MEASURES = {
    "client_bps": Measure("Mean per client (Gbit/s)", "client", 3, 1e-9, "Gbit/s"),
    "total_bps": Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s"),
    "mean_fct_s": Measure("Mean FCT (ms)", "fct", 1, 1e3, "ms"),
}
#: Of these the change with the ratio, and the gap between drivers, are estimated too.
CHANGES = {
    "client_bps": Measure("Change of client (%)", "client-change", 1, unit="%", change=True, short=True),
    "mean_fct_s": Measure("Change of fct (%)", "fct-change", 1, unit="%", change=True, short=True),
}
GAPS = {
    "client_bps": Measure("Throughput (largest/least)", "client-gap", 2),
    "mean_fct_s": Measure("FCT (largest/least)", "fct-gap", 2),
}
#: Not a container network: the baseline is no part of the gap between drivers.
BASELINE = "host"


def with_ratio(flows: pd.DataFrame, runs: Runs) -> pd.DataFrame:
    """The flows with `cores` as the number really used (0 in the spec: all CPUs of the host), and `ratio`.

    ratio is containers per core: 2 * pairs / cores. A run that does not record its host's CPUs, where that is
    needed, has neither.
    """
    cpus = {run.key: run.facts.get("host", {}).get("cpus", np.nan) for run in runs}
    cores = flows["cores"].astype(float)
    cores = cores.where(cores > 0, flows["key"].map(cpus).astype(float))
    return flows.assign(cores=cores, ratio=2 * flows["pairs"].astype(float) / cores)


def throughput(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition of each cell, of flows that run for the whole time: as throughput_by_repetition."""
    return throughput_cells.throughput_by_repetition(flows[flows["asked_flow_bytes"] == 0], also=ALSO)


def completion(flows: pd.DataFrame) -> pd.DataFrame:
    """The mean FCT in seconds of the flows of each repetition: BY, repetition, mean_fct_s, flows, failed_flows.

    flows: as with_ratio; those that have an end. Where a flow failed there is no mean (model.fct): it counts.
    """
    ended = flows[flows["asked_flow_bytes"] > 0]
    selection.check_comparable(ended, ALSO)
    rows = []
    for names, group in ended.groupby([*BY, "repetition"], sort=True):
        failed = int((group["status"] != "ok").sum())
        rows.append([*names, fct.mean(fct.of(group)), len(group), failed])
    return pd.DataFrame(rows, columns=[*BY, "repetition", "mean_fct_s", "flows", "failed_flows"])


def cells(throughput: pd.DataFrame, completion: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as cell_estimates.means, by its name; with a column `place`."""
    frames = {name: completion if name == "mean_fct_s" else throughput for name in MEASURES}
    return {name: placed(cell_estimates.means(frame, BY, name, confidence)) for name, frame in frames.items()}


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `place`: the ratio, and which pairs and cores give it, as an axis shows it."""
    names = [f"{row.ratio:g}\n{row.pairs}/{row.cores:g}" for row in frame.itertuples()]
    return frame.assign(place=pd.Series(names, index=frame.index, dtype=object))


def places(*frames: pd.DataFrame) -> list[str]:
    """All places, by ratio and then by pairs: one ratio can come about in several ways, and these are not pooled."""
    every = pd.concat([frame[["ratio", "pairs", "place"]] for frame in frames if len(frame)] or [pd.DataFrame()])
    if every.empty:
        return []
    return list(every.sort_values(["ratio", "pairs"])["place"].drop_duplicates())


def axis(frame: pd.DataFrame) -> dict[str, object]:
    """The places of a frame as estimates.by_category takes its categories."""
    return {"category": "place", "order": places(frame), "name": "Containers per core (pairs/cores below)"}


def missing(gap: str, throughput: pd.DataFrame, completion: pd.DataFrame) -> list[str]:
    """Why there is nothing of one kind or of both; empty where both were measured."""
    if gap:
        return [gap]
    reasons = {
        "no run of 'core-ratio' has flows that run for the whole time (flow_bytes 0): no throughput": throughput,
        "no run of 'core-ratio' has flows with an end (flow_bytes above 0): no completion times": completion,
    }
    return [why for why, frame in reasons.items() if frame.empty]


def changes(repetitions: pd.DataFrame, value: str, confidence: float) -> pd.DataFrame:
    """The change of `value` in percent against the least ratio of the system, paired by repetition, by driver.

    As cell_estimates.changes, with the column place. Source: paper C, figures 7 and 8.
    """
    parts = []
    for _, system in placed(repetitions).groupby(list(selection.SYSTEM), sort=True):
        least = places(system)[0]
        by = [*selection.SYSTEM, "driver"]
        parts.append(cell_estimates.changes(system, by, value, setting="place", against=least, confidence=confidence))
    columns = [*selection.SYSTEM, "driver", "place", *cell_estimates.COLUMNS, "p", "p_holm"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def gaps(repetitions: pd.DataFrame, value: str) -> pd.DataFrame:
    """How many times the least driver's `value` the largest driver's is, in each repetition of each cell.

    Only container networks count, and only repetitions that have all of the system's; of a single one there is no
    gap. Being a largest over a least it is above 1 by chance alone: compare it between ratios, not with 1. Returns
    SYSTEM, pairs, cores, ratio, repetition, gap_times. Source: paper C, section III-B.
    """
    rows = []
    networks = repetitions[repetitions["driver"] != BASELINE]
    for names, system in networks.groupby(list(selection.SYSTEM), sort=True):
        drivers = system["driver"].nunique()
        for cell, group in system.groupby(["pairs", *ALSO, "repetition"], sort=True):
            rates = group[value].to_numpy(dtype=float)
            if drivers > 1 and len(rates) == drivers:
                with np.errstate(divide="ignore"):
                    rows.append([*names, *cell, rates.max() / rates.min()])
    return pd.DataFrame(rows, columns=[*selection.SYSTEM, "pairs", *ALSO, "repetition", "gap_times"])


def gap_cells(gaps: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean gap over repetitions by cell, as cell_estimates.means, with place; and how it changes in percent.

    change, change_low, change_high: against the least ratio of the system, paired by repetition; missing for that.
    """
    found = placed(cell_estimates.means(gaps, [*selection.SYSTEM, "pairs", *ALSO], "gap_times", confidence))
    known = changes(gaps.assign(driver="all"), "gap_times", confidence)
    known = known.rename(columns={"value": "change", "low": "change_low", "high": "change_high"})
    return found.merge(
        known[[*selection.SYSTEM, "place", "change", "change_low", "change_high"]],
        how="left",
        on=[*selection.SYSTEM, "place"],
    )


def table(cells: dict[str, pd.DataFrame], changes: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Each measure by driver and ratio, with its change against the least ratio.

    cells: as cells(); changes: of the measures that have them, as changes().
    """
    names = {"system": "System", "driver": "Driver", "ratio": "Containers per core", "pairs": "Pairs", "cores": "Cores"}
    places = pd.concat([frame[[*BY, "place"]] for frame in cells.values()]).drop_duplicates()
    columns: dict[str, Texts] = {}
    for name, measure in MEASURES.items():
        columns[measure.title] = measure.texts(cells[name], *names)
        if name in changes:
            by_place = changes[name].merge(places, on=[*selection.SYSTEM, "driver", "place"])
            columns[CHANGES[name].title] = CHANGES[name].texts(by_place, *names)
    return tabulate(names, columns)


def table_of_gaps(gaps: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The gap between drivers by ratio, of throughput and of FCT; gaps: as gap_cells, by measure."""
    names = {"system": "System", "ratio": "Containers per core", "pairs": "Pairs", "cores": "Cores"}
    columns: dict[str, Texts] = {}
    for name, measure in GAPS.items():
        columns[measure.title] = measure.texts(gaps[name], *names)
        columns[f"{measure.title.split()[0]}, change (%)"] = CHANGES[name].texts(_change_of(gaps[name]), *names)
    return tabulate(names, columns)


def values(
    runs: Runs,
    cells: dict[str, pd.DataFrame],
    changes: dict[str, pd.DataFrame],
    gaps: dict[str, pd.DataFrame],
    *missing: str,
) -> Values:
    r"""The keyed numbers of E6, all below `core-ratio/`: those of measures.common_values, and

    - <system>/<driver>/<ratio>/client, total, fct, with -interval; client-change, fct-change (against the least
      ratio), with -interval. <ratio> is containers per core, followed by -<pairs>p-<cores>c;
    - <system>/<ratio>/client-gap, fct-gap: largest over least driver, with -interval;
    - <system>/ratios: those measured, as text.
    """
    every = pd.concat([frame for frame in cells.values() if len(frame)] or [next(iter(cells.values()))])
    found = common_values("core-ratio", runs, every, *missing)
    for system, part in systems(every).items():
        ratios = sorted(part["ratio"].unique())
        found.text(f"{system}/ratios", ", ".join(f"{ratio:g}" for ratio in ratios))
    for measures, frames, names in (
        (MEASURES, cells, ("system", "driver", "setting")),
        (CHANGES, changes, ("system", "driver", "setting")),
        (GAPS, gaps, ("system", "setting")),
    ):
        for name, frame in frames.items():
            settings = [_setting(row.place) for row in frame.itertuples()]
            measures[name].put(found, frame.assign(setting=settings), *names)
    return found


def _setting(place: str) -> str:
    """A place as a part of keys: "10\n10/2" as 10-10p-2c."""
    ratio, pairs, cores = place.replace("\n", "/").split("/")
    return f"{slug(ratio)}-{pairs}p-{cores}c"


def _change_of(gaps: pd.DataFrame) -> pd.DataFrame:
    """The estimates of the change in a frame of gap_cells."""
    changes = gaps[["change", "change_low", "change_high"]].to_numpy()
    return gaps.assign(**dict(zip(("value", "low", "high"), changes.T, strict=True)))
