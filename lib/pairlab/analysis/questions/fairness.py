"""How evenly clients that send at the same time share the network (E2)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, published, selection
from pairlab.analysis.output.formatting import MISSING, p_text, span, with_bounds
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, common_values, p_values, put_p, tabulate, texts
from pairlab.errors import AnalysisError
from pairlab.model.summaries import carried_bps
from pairlab.statistics import intervals, tests
from pairlab.store.dataset import Runs

#: What is estimated from each repetition.
MEASURES = {
    "least_bps": Measure("Min (Gbit/s)", "min", 3, 1e-9, "Gbit/s"),
    "most_bps": Measure("Max (Gbit/s)", "max", 3, 1e-9, "Gbit/s"),
    "ratio": Measure("Max/min", "ratio", 2),
    "jain_index": Measure("Jain's index", "jain", 3),
}
#: What is compared between drivers: its name in tables, and in keys.
COMPARED = {"jain_index": ("Jain's index", "jain"), "least_share": ("min/max", "min-max")}
#: What one test is made for.
_TESTED = (*selection.SYSTEM, "pairs")


def clients(flows: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """One row per client of each repetition: the columns of CELL, repetition, pair, throughput_bps, failed.

    flows: as Runs.flows. also: columns that distinguish cells besides CELL, and are returned too. All flows
    of a client are added up; a failed one adds zero. Raises AnalysisError where runs do not belong together.
    """
    selection.check_comparable(flows, also)
    counted = flows.assign(throughput_bps=carried_bps(flows), failed=flows["status"] != "ok")
    each = counted.groupby([*selection.CELL, *also, "repetition", "pair"], sort=True)
    return each.agg(throughput_bps=("throughput_bps", "sum"), failed=("failed", "any")).reset_index()


def by_repetition(clients: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """How evenly the clients of each repetition share: one row per repetition of each cell.

    clients, also: as clients(). Returns CELL, `also`, repetition, flows (clients), failed_flows, total_bps,
    least_bps, most_bps, ratio (most over least; infinite where a client got nothing), least_share (least over most,
    from 0 to 1, which is always finite and so is what tests use), jain_index.
    Source: paper C, figure 3; Jain, Chiu and Hawe 1984.
    """
    rows = []
    for names, group in clients.groupby([*selection.CELL, *also, "repetition"], sort=True):
        rates = group["throughput_bps"].to_numpy()
        least, most = float(rates.min()), float(rates.max())
        ratio = most / least if least else np.inf
        share = least / most if most else np.nan
        counts = [len(group), int(group["failed"].sum())]
        rows.append([*names, *counts, float(rates.sum()), least, most, ratio, share, intervals.jain_index(rates)])
    columns = ["flows", "failed_flows", "total_bps", "least_bps", "most_bps", "ratio", "least_share", "jain_index"]
    return pd.DataFrame(rows, columns=[*selection.CELL, *also, "repetition", *columns])


def cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as cell_estimates.means, by its name.

    A cell in which a client got nothing has no max/min: its gap says in how many repetitions.
    """
    return {name: cell_estimates.means(repetitions, selection.CELL, name, confidence) for name in MEASURES}


def differ(repetitions: pd.DataFrame, by: Sequence[str], value: str, factor: str) -> pd.DataFrame:
    """Whether the values of a factor differ in `value`, by Kruskal and Wallis's test over repetitions, for each `by`.

    Returns `by`, statistic, p, n (repetitions), groups (values of the factor), gap: why there is no test, else empty.
    """
    rows = []
    for names, group in repetitions.groupby(list(by), sort=True):
        try:
            test = tests.kruskal(group, value, factor)
            rows.append([*names, test.statistic, test.p, test.n, test.groups, ""])
        except AnalysisError as error:
            rows.append([*names, np.nan, np.nan, len(group), group[factor].nunique(), str(error)])
    return pd.DataFrame(rows, columns=[*by, "statistic", "p", "n", "groups", "gap"])


def drivers_differ(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the drivers of each system and pair count differ in fairness: as differ, with measure, of COMPARED.

    repetitions: as by_repetition. least_share is max/min upside down: the ranks are the same, reversed.
    """
    parts = [differ(repetitions, _TESTED, measure, "driver").assign(measure=measure) for measure in COMPARED]
    return pd.concat(parts, ignore_index=True).sort_values([*_TESTED, "measure"], ignore_index=True)


def pairs_of_drivers(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Each two drivers of a system compared by Mann and Whitney's test, with Holm's correction and Cliff's delta.

    As tests.pairwise, with backend, workload, pairs and measure before. Systems in which no test is possible are left
    out: drivers_differ says why.
    """
    parts = [pd.DataFrame(columns=[*_TESTED, "measure"])]
    for names, system in repetitions.groupby(list(_TESTED), sort=True):
        for measure in COMPARED:
            try:
                found = tests.pairwise(system, measure, "driver")
            except AnalysisError:
                continue
            cell = dict(zip(_TESTED, names, strict=True)) | {"measure": measure}
            parts.append(pd.concat([pd.DataFrame(cell, index=found.index), found], axis=1))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Min, max, max/min and Jain's index of a client by driver, and what paper C states of max/min."""
    names, stated = ("system", "driver", "pairs"), _published_ratios()
    columns = {measure.title: measure.texts(cells[name], *names) for name, measure in MEASURES.items()}
    published_ratio = texts(cells["jain_index"], names, lambda cell: stated.get(cell.driver, MISSING))
    heads = {"system": "System", "driver": "Driver", "pairs": "Pairs"}
    return tabulate(heads, columns | {"Paper C, 50 pairs": published_ratio})


def table_of_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Each two drivers by measure; pairs: as pairs_of_drivers."""
    names = ("system", "measure", "drivers")
    pairs = pairs.assign(
        measure=[COMPARED[name][0] for name in pairs["measure"]],
        drivers=[f"{row.first} – {row.second}" for row in pairs.itertuples()],
    )
    columns = {
        "Median difference": texts(pairs, names, lambda row: f"{row.difference:+.3f}"),
        "Cliff's delta": texts(pairs, names, lambda row: with_bounds(row.delta, row.delta_low, row.delta_high, 2)),
        "p (Holm)": p_values(pairs, *names),
        "n": texts(pairs, names, lambda row: f"{row.n_first}, {row.n_second}"),
    }
    order = {name: list(dict.fromkeys(pairs[name])) for name in names[1:]}
    return tabulate({"system": "System", "measure": "Measure", "drivers": "Drivers"}, columns, order)


def far_apart(clients: pd.DataFrame) -> bool:
    """Whether drivers lie so far apart that a linear axis would show one of them as a stroke: tenfold in the median.

    A client that got nothing has no place on a logarithmic axis, so there this is never said.
    """
    middles = clients.groupby(list(selection.CELL))["throughput_bps"].median()
    return bool((clients["throughput_bps"] > 0).all() and middles.max() > 10 * middles.min())


def note(clients: pd.DataFrame) -> str:
    """What a reader must know of the clients behind a figure's lines."""
    n = clients.groupby(list(selection.CELL))["repetition"].nunique()
    failed = int(clients["failed"].sum())
    failures = f"{failed} clients failed and count as zero" if failed else "none failed"
    return f"every client of n = {span(n)} repetitions with {span(clients['pairs'])} pairs; {failures}"


def values(runs: Runs, cells: dict[str, pd.DataFrame], differ: pd.DataFrame, pairs: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E2, all below `fairness/`: those of measures.common_values, and

    - <system>/<driver>/min, max (Gbit/s), ratio, jain, each with -interval; ratio-gap where a client got nothing;
    - <system>/jain-p, min-max-p: of Kruskal and Wallis's test between drivers;
    - <system>/<first>-<second>/jain-p, jain-delta, min-max-p, min-max-delta: of two drivers, p after Holm;
    - c/bridge/min, max; c/<driver>/ratio: as paper C states them at 50 pairs; e/all/min, max: as paper E does.
    """
    found = common_values("fairness", runs, cells["jain_index"], gap)
    for name, measure in MEASURES.items():
        measure.put(found, cells[name], "system", "driver")
        for cell in cells[name][cells[name]["gap"] != ""].itertuples():
            found.text(f"{cell.backend}-{cell.workload}/{cell.driver}/{measure.key}-gap", cell.gap)
    for name, (_, key) in COMPARED.items():
        put_p(found, differ[differ["measure"] == name], "system", key=f"{key}-p", column="p")
        for row in pairs[pairs["measure"] == name].itertuples():
            drivers = f"{row.backend}-{row.workload}/{row.first}-{row.second}"
            found.text(f"{drivers}/{key}-p", p_text(row.p_holm))
            found.number(f"{drivers}/{key}-delta", row.delta, 2)
    for row in published.load("fairness").itertuples():
        for what, rate in (("min", row.low_bps), ("max", row.high_bps)):
            if rate == rate:
                found.number(f"{row.paper.lower()}/{row.driver}/{what}", rate / 1e9, 1, "Gbit/s")
    for driver, ratio in _published_ratios().items():
        found.text(f"c/{driver}/ratio", ratio)
    return found


def _published_ratios() -> dict[str, str]:
    """Max/min as paper C states it for figure 3: from low and high, else the bound that it gives for all drivers."""
    stated = published.load("fairness").query("paper == 'C' and pairs == 50").set_index("driver")
    found = dict.fromkeys(published.load("throughput")["driver"], f"≤ {stated.loc['all', 'most_over_least']:g}")
    exact = (stated["high_bps"] / stated["low_bps"]).dropna()
    return found | {driver: f"{ratio:.1f}" for driver, ratio in exact.items()}
