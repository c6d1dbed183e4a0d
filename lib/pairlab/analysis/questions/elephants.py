"""Elephants among mice (E5): mice beside flows without elephants, and how far the drivers lie apart for either."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from pairlab.analysis import by_group, cell_estimates
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.output.formatting import percentile_name, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, across, common_values, tabulate
from pairlab.analysis.questions import fct
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.errors import TooFewSamples
from pairlab.model.fct import of as completion_times
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.store.dataset import Runs

ROLES = ("mouse", "elephant")
SPREAD = Measure("Largest over smallest median", "spread", 2, short=True)
#: The host's own network is no container network, and not part of the drivers' spread.
BASELINE = "host"
#: What paper C states for 50 pairs: mice take twice as long, in percent.
STATED_CHANGE = 100.0


def percentiles(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The percentiles of fct.QS of each role and cell, as fct.percentiles; only flows with a role."""
    found = by_group.of(flows[flows["role"] != ""], ["role", *CELL], "fct_s").percentiles(fct.QS, confidence=confidence)
    return found.rename(columns={"repetitions": "n"})


def named_roles(flows: pd.DataFrame) -> pd.DataFrame:
    """The flows that have a role, which names the role and the pair count: "mice, 50 pairs"."""
    known = flows[flows["role"] != ""]
    words = known["role"].map({"mouse": "mice", "elephant": "elephants"})
    return known.assign(role=words + ", " + known["pairs"].astype(str) + " pairs")


def mice_beside_plain(flows: pd.DataFrame, plain: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of the completion time from E4's flows to mice of the same size, in the same cell.

    flows, plain: as Runs.flows, of E5 and of E4. A repetition of one sweep is one round over both experiments, so
    where both have the same repetitions these are drawn together. Returns CELL, q (fct.CHANGED_QS), COLUMNS of
    cell_estimates; cells that E4 lacks, or where its flows have another size, have a gap.
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
    return pd.DataFrame(rows, columns=[*CELL, "q", *cell_estimates.COLUMNS])


def spread(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """How far the drivers lie apart: the largest over the smallest median completion time of a role.

    Medians are those of `percentiles`, over the repetitions in which every driver has a flow of that role; where one
    depends on flows that failed there is a gap. The host's own network is left out. The interval is that of
    quantiles.most_over_least. Noise alone makes a spread exceed 1, the more so the fewer flows there are, and elephants
    are fewer than mice. Returns SYSTEM, pairs, role, COLUMNS of estimates; the role "ratio" is the elephants' spread
    over the mice's. Nothing where there are not two drivers. Source: the comparison in paper C, figure 6.
    """
    of_roles = flows[(flows["role"] != "") & (flows["driver"] != BASELINE)]
    by = [*SYSTEM, "pairs"]
    rows = []
    for names, cell in of_roles.groupby(by, sort=True):
        drivers = ordered(cell["driver"])
        if len(drivers) < 2:
            continue
        common = {role: _common(cell[cell["role"] == role], drivers) for role in ROLES}
        found = {role: _spread(cell, [role], drivers, common[role], confidence) for role in ROLES if common[role]}
        if both := common["mouse"] & common["elephant"]:
            found["ratio"] = _spread(cell, ["elephant", "mouse"], drivers, both, confidence)
        rows += [dict(zip(by, names, strict=True)) | {"role": role} | row for role, row in found.items()]
    return pd.DataFrame(rows, columns=[*by, "role", *cell_estimates.COLUMNS])


def role_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Median and p99 of mice and of elephants in ms with intervals, by pairs and driver.

    cells: as percentiles. A dash stands where there are too few flows for a percentile.
    """
    heads = {(role, q): f"{role}, {percentile_name(q)} (ms)" for role in ROLES for q in fct.CHANGED_QS}
    some = cells[cells["q"].isin(fct.CHANGED_QS)]
    some = some.assign(column=[heads[row.role, row.q] for row in some.itertuples()])
    columns = across(fct.TIME.texts(some, "system", "pairs", "driver", "column"), order=list(heads.values()))
    return tabulate({"system": "System", "pairs": "Pairs", "driver": "Driver"}, columns)


def beside_table(changes: pd.DataFrame) -> pd.DataFrame:
    """Mice against flows without elephants, in percent: a row per system, pair count and percentile, columns drivers.

    changes: as mice_beside_plain.
    """
    named = changes.assign(percentile=[percentile_name(q) for q in changes["q"]])
    columns = across(fct.CHANGE.texts(named, "system", "pairs", "percentile", "driver"))
    return tabulate({"system": "System", "pairs": "Pairs", "percentile": "Percentile"}, columns)


def spread_table(spreads: pd.DataFrame) -> pd.DataFrame:
    """Largest over smallest median of the drivers, with intervals: a row per system and pair count, a column per role.

    spreads: as spread.
    """
    heads = {"mouse": "Mice", "elephant": "Elephants", "ratio": "Elephants over mice"}
    named = spreads.assign(role=spreads["role"].map(heads).astype(object))
    columns = across(SPREAD.texts(named, "system", "pairs", "role"), order=list(heads.values()))
    return tabulate({"system": "System", "pairs": "Pairs"}, columns)


def values(
    runs: Runs, cells: pd.DataFrame, changes: pd.DataFrame, spreads: pd.DataFrame, gap: str, plain_gap: str
) -> Values:
    r"""The keyed numbers of E5, all below `elephant-mice/`: those of measures.common_values, and

    - share (of the clients that send elephants), mouse-size, elephant-size (MB);
    - <system>/<driver>/<pairs>/mouse-p50, elephant-p99 and so on, with -interval (ms);
    - <system>/<driver>/<pairs>/mice-over-plain-p50, -p99: percent change from E4's flows;
    - <system>/<pairs>/spread-mouse, spread-elephant, spread-ratio: largest over smallest median of the drivers;
    - <system>/shown/pairs: 50 where measured, else the most; shown/spread-mouse and so on: there;
    - not-compared: why mice cannot be compared with plain flows, if so; c/mice-over-plain: as paper C states it.
    """
    first = cells[(cells["role"] == "mouse") & (cells["q"] == 0.5)]
    found = common_values("elephant-mice", runs, first, gap)
    specs = [run.spec for run in runs if run.status == "ok"]
    if specs:
        found.text("share", ", ".join(f"{100 * each:g} %" for each in sorted({spec.elephant_share for spec in specs})))
        found.text("mouse-size", _sizes(spec.flow_bytes for spec in specs))
        found.text("elephant-size", _sizes(spec.elephant_bytes for spec in specs))
    for (role, q), part in cells.groupby(["role", "q"]):
        fct.TIME.put(found, part, "system", "driver", "pairs", key=f"{role}-{percentile_name(q)}")
    for q, part in changes.groupby("q"):
        fct.CHANGE.put(found, part, "system", "driver", "pairs", key=f"mice-over-plain-{percentile_name(q)}")
    shown = cell_estimates.at_pairs(spreads, fct.PUBLISHED_STEP[-1])
    for system, part in systems(shown).items():
        found.number(f"{system}/shown/pairs", part["pairs"].iloc[0], 0)
    for role in (*ROLES, "ratio"):
        SPREAD.put(found, spreads[spreads["role"] == role], "system", "pairs", key=f"spread-{role}")
        SPREAD.put(found, shown[shown["role"] == role], "system", key=f"shown/spread-{role}")
    if plain_gap:
        found.text("not-compared", plain_gap)
    found.text("c/mice-over-plain", f"about {STATED_CHANGE:+.0f} %")
    return found


def _common(flows: pd.DataFrame, drivers: Sequence[str]) -> set:
    """The repetitions in which every driver has one of these flows."""
    return set.intersection(*(set(flows.loc[flows["driver"] == driver, "repetition"]) for driver in drivers))


def _spread(
    cell: pd.DataFrame, roles: Sequence[str], drivers: Sequence[str], repetitions: set, confidence: float
) -> dict[str, object]:
    """The spread of one role, or that of the first over that of the second, as an estimate."""
    used = cell[cell["repetition"].isin(repetitions)]
    row = {"value": np.nan, "low": np.nan, "high": np.nan, "n": len(repetitions), "confidence": confidence, "gap": ""}
    sides = []
    for role in roles:
        parts = [used[(used["role"] == role) & (used["driver"] == driver)] for driver in drivers]
        sides.append([Clusters.of(completion_times(part), part["repetition"]) for part in parts])
    try:
        found = (
            quantiles.spread_ratio(sides[0], sides[1], 0.5)
            if len(sides) > 1
            else quantiles.most_over_least(sides[0], 0.5)
        )
    except TooFewSamples as error:
        return row | {"gap": str(error)}
    return row | found.estimate(confidence)._asdict()


def _sizes(sizes: Iterable[int]) -> str:
    return ", ".join(f"{size / 1e6:g}" for size in sorted(set(sizes))) + " MB"
