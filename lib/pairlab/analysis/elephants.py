"""Elephants among mice (E5): mice beside flows without elephants, and how far the drivers lie apart for either."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from pairlab import completion_times
from pairlab.analysis import by_group, estimates, fct
from pairlab.analysis.fct_layout import ms, percent, percent_name
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, put, rows_by_driver, systems, with_bounds
from pairlab.analysis.look import ordered
from pairlab.analysis.stats import CELL, SYSTEM, mean_interval
from pairlab.collection import Runs

ROLES = ("mouse", "elephant")
#: The drivers whose spread is told; the host's own network is a baseline, not one of them.
BASELINE = "host"
#: What paper C states for 50 pairs: mice take twice as long, in percent.
STATED_CHANGE = 100.0


def percentiles(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The percentiles of fct.QS of each role and cell, as fct.percentiles; only flows with a role."""
    told = flows[flows["role"] != ""]
    found = by_group.of(told, ["role", *CELL], "fct_s").percentiles(fct.QS, confidence=confidence)
    return found.rename(columns={"repetitions": "n"})


def named_roles(flows: pd.DataFrame) -> pd.DataFrame:
    """The flows that have a role, told in words and at which pair count: "mice, 50 pairs"."""
    told = flows[flows["role"] != ""]
    words = told["role"].map({"mouse": "mice", "elephant": "elephants"})
    return told.assign(role=words + ", " + told["pairs"].astype(str) + " pairs")


def mice_beside_plain(flows: pd.DataFrame, plain: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of the completion time from E4's flows to mice of the same size, in the same cell.

    flows, plain: as Runs.flows, of E5 and of E4. A repetition of one sweep is one round over both experiments, so
    where both have the same repetitions these are drawn together. Returns CELL, q (fct.CHANGED_QS), COLUMNS of
    estimates; cells that E4 lacks, or where its flows have another size, have a gap.
    """
    rows = []
    for names, cell in flows[flows["role"] == "mouse"].groupby(list(CELL), sort=True):
        same = plain[(plain[list(CELL)] == pd.Series(dict(zip(CELL, names, strict=True)))).all(axis=1)]
        for q in fct.CHANGED_QS:
            row = dict(zip(CELL, names, strict=True)) | {"q": q}
            sizes = [set(part["asked_flow_bytes"]) for part in (cell, same)]
            if same.empty or sizes[0] != sizes[1]:
                why = "there are no flows without elephants to compare with" if same.empty else "flows differ in size"
                empty = {"value": np.nan, "low": np.nan, "high": np.nan, "n": 0, "confidence": confidence}
                rows.append(row | empty | {"gap": why})
            else:
                rows.append(row | fct.change(same, cell, q, confidence=confidence))
    return pd.DataFrame(rows, columns=[*CELL, "q", *estimates.COLUMNS])


def spread(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """How far the drivers lie apart: the largest over the smallest median completion time of a role.

    A driver's median is the geometric mean over repetitions of each one's median, over the repetitions in which every
    driver has a flow of that role. Where half of the flows behind one failed there is a gap: to leave that repetition
    out would flatter the driver. The host's own network is left out. The interval is Student's over jackknife
    pseudo-values of the repetitions, on the logarithm. Noise alone makes a spread exceed 1, the more so the fewer flows
    there are, and elephants are fewer than mice. Returns SYSTEM, pairs, role, COLUMNS of estimates; the role "ratio" is
    the elephants' spread over the mice's. Nothing where there are not two drivers.
    Source: the comparison in paper C, figure 6; jackknife: Tukey 1958.
    """
    told = flows[(flows["role"] != "") & (flows["driver"] != BASELINE)]
    by = [*SYSTEM, "pairs"]
    times_s = completion_times.of(told)
    medians = times_s.groupby([told[name] for name in (*by, "role", "repetition", "driver")], sort=True).median()
    logs = np.log(medians).unstack("driver")
    rows = []
    for names, cell in logs.groupby(level=by, sort=True):
        cell = cell.droplevel(by).dropna(axis="columns", how="all")
        if cell.shape[1] < 2:
            continue
        of_role = {role: cell.xs(role).dropna() for role in ROLES if role in cell.index.get_level_values("role")}
        found = {role: _jackknife([part], confidence) for role, part in of_role.items() if len(part)}
        if len(found) == len(ROLES) and len(common := of_role["mouse"].index.intersection(of_role["elephant"].index)):
            found["ratio"] = _jackknife([of_role["elephant"].loc[common], of_role["mouse"].loc[common]], confidence)
        rows += [dict(zip(by, names, strict=True)) | {"role": role} | row for role, row in found.items()]
    return pd.DataFrame(rows, columns=[*by, "role", *estimates.COLUMNS])


def role_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Median and p99 of mice and of elephants in ms with intervals, by pairs and driver.

    cells: as percentiles, of one system. A dash stands where there are too few flows for a percentile.
    """
    keyed = {(cell.pairs, cell.driver, cell.role, cell.q): cell for cell in cells.itertuples()}

    def tell(role: str, q: float):
        def told(cell) -> str:
            found = keyed.get((cell.pairs, cell.driver, role, q))
            return ms(found.value, found.low, found.high) if found else MISSING

        return told

    columns = {f"{role}, {percent_name(q)} (ms)": tell(role, q) for role in ROLES for q in fct.CHANGED_QS}
    one = cells.drop_duplicates(["pairs", "driver"])
    return rows_by_driver(one, ("pairs", "driver"), columns, heads=("Pairs", "Driver"))


def beside_table(changes: pd.DataFrame) -> pd.DataFrame:
    """Mice against flows without elephants, in percent: a row per system, pair count and percentile, columns drivers.

    changes: as mice_beside_plain.
    """
    drivers = ordered(changes["driver"])
    body, rows = [], []
    for system, part in systems(changes).items():
        for (pairs, q), cells in part.groupby(["pairs", "q"], sort=True):
            told = {cell.driver: percent(cell) for cell in cells.itertuples()}
            rows.append((system, pairs, percent_name(q)))
            body.append([told.get(driver, MISSING) for driver in drivers])
    return pd.DataFrame(body, index=_index(rows, ["System", "Pairs", "Percentile"]), columns=drivers)


def spread_table(spreads: pd.DataFrame) -> pd.DataFrame:
    """Largest over smallest median of the drivers, with intervals: a row per system and pair count, a column per role.

    spreads: as spread.
    """
    heads = {"mouse": "Mice", "elephant": "Elephants", "ratio": "Elephants over mice"}
    body, rows = [], []
    for system, part in systems(spreads).items():
        for pairs, cells in part.groupby("pairs", sort=True):
            told = {cell.role: with_bounds(cell.value, cell.low, cell.high, 2) for cell in cells.itertuples()}
            rows.append((system, pairs))
            body.append([told.get(role, MISSING) for role in heads])
    return pd.DataFrame(body, index=_index(rows, ["System", "Pairs"]), columns=list(heads.values()))


def values(
    runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, spreads: pd.DataFrame, gap: str, plain_gap: str
) -> Values:
    r"""The keyed numbers of E5, all below `elephant-mice/`: those of layout.head, and

    - share (of the clients that send elephants), mouse-size, elephant-size (MB);
    - <system>/<driver>/<pairs>/mouse-p50, elephant-p99 and so on, with -interval (ms);
    - <system>/<driver>/<pairs>/mice-over-plain-p50, -p99: percent change from E4's flows;
    - <system>/<pairs>/spread-mouse, spread-elephant, spread-ratio: largest over smallest median of the drivers;
    - <system>/shown/pairs: 50 where measured, else the most; shown/spread-mouse and so on: there;
    - not-compared: why mice cannot be compared with plain flows, if so; c/mice-over-plain: as paper C states it.
    """
    first = cells[(cells["role"] == "mouse") & (cells["q"] == 0.5)]
    found = head("elephant-mice", runs, first, gap)
    specs = [run.spec for run in runs if run.status == "ok"]
    if specs:
        found.text("share", ", ".join(f"{100 * each:g} %" for each in sorted({spec.elephant_share for spec in specs})))
        found.text("mouse-size", _sizes(spec.flow_bytes for spec in specs))
        found.text("elephant-size", _sizes(spec.elephant_bytes for spec in specs))
    for cell in cells.itertuples():
        key = f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.pairs}/{cell.role}-{percent_name(cell.q)}"
        put(found, key, cell, 1, "ms", scale=1e3)
    for cell in changes.itertuples():
        key = f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.pairs}/mice-over-plain-{percent_name(cell.q)}"
        put(found, key, cell, 1, "%", signed=True)
    for cell in spreads.itertuples():
        put(found, f"{cell.backend}-{cell.workload}/{cell.pairs}/spread-{cell.role}", cell, 2)
    for system, part in systems(estimates.at_pairs(spreads, fct.PUBLISHED_STEP[-1])).items():
        found.number(f"{system}/shown/pairs", part["pairs"].iloc[0], 0)
        for cell in part.itertuples():
            put(found, f"{system}/shown/spread-{cell.role}", cell, 2)
    if plain_gap:
        found.text("not-compared", plain_gap)
    found.text("c/mice-over-plain", f"about {STATED_CHANGE:+.0f} %")
    return found


def _jackknife(parts: Sequence[pd.DataFrame], confidence: float) -> dict[str, object]:
    """The spread of the first part's columns (over that of the second, if any) as a ratio, over common rows."""

    def log_spread(rows) -> float:
        first, *second = (np.ptp(part.loc[rows].mean().to_numpy()) for part in parts)
        return float(first - sum(second))

    labels = parts[0].index
    n = len(labels)
    row = {"value": np.nan, "low": np.nan, "high": np.nan, "n": n, "confidence": confidence, "gap": ""}
    if lost := sum(int(np.isinf(part).to_numpy().sum()) for part in parts):
        medians = sum(part.size for part in parts)
        return row | {"gap": f"{lost} of {medians} medians are not known, as half of the flows failed or more"}
    middle = log_spread(labels)
    row["value"] = np.exp(middle)
    if n < 2:
        return row
    pseudo = [n * middle - (n - 1) * log_spread(labels.drop(label)) for label in labels]
    interval = mean_interval(pseudo, confidence)
    half = (interval.high - interval.low) / 2
    return row | {"low": float(np.exp(middle - half)), "high": float(np.exp(middle + half))}


def _index(rows: list[tuple], names: list[str]) -> pd.MultiIndex:
    return (
        pd.MultiIndex.from_tuples(rows, names=names)
        if rows
        else pd.MultiIndex.from_arrays([[] for _ in names], names=names)
    )


def _sizes(sizes: Iterable[int]) -> str:
    return ", ".join(f"{size / 1e6:g}" for size in sorted(set(sizes))) + " MB"
