"""How experiment E2 is laid out: how evenly clients that run side by side share the network."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pairlab.analysis import contrasts, estimates, figures, published, stats
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, p_text, put, rows_by_driver, shown, systems, with_bounds
from pairlab.collection import Runs
from pairlab.errors import AnalysisError

#: What is compared between drivers, and how it is called.
MEASURES = {"jain_index": "Jain's index", "least_share": "min/max"}
#: Per repetition: how it is called in tables, its scale there, and digits.
_SHOWN = {
    "least_bps": ("Min (Gbit/s)", 1e-9, 3),
    "most_bps": ("Max (Gbit/s)", 1e-9, 3),
    "ratio": ("Max/min", 1, 2),
    "jain_index": ("Jain's index", 1, 3),
}
_KEYS = {"least_bps": "min", "most_bps": "max", "ratio": "ratio", "jain_index": "jain"}


def clients(flows: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """One row per client of each repetition: the columns of stats.CELL, repetition, pair, throughput_bps, failed.

    flows: as Runs.flows. also: columns that tell cells apart besides stats.CELL, and are returned too. All flows
    of a client are added up; a failed one adds zero. Raises AnalysisError where runs do not belong together.
    """
    stats.check_comparable(flows, also)
    ok = flows["status"] == "ok"
    counted = flows.assign(throughput_bps=flows["throughput_bps"].where(ok, 0.0).fillna(0.0).astype(float), failed=~ok)
    each = counted.groupby([*stats.CELL, *also, "repetition", "pair"], sort=True)
    return each.agg(throughput_bps=("throughput_bps", "sum"), failed=("failed", "any")).reset_index()


def by_repetition(clients: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """How evenly the clients of each repetition share: one row per repetition of each cell.

    clients, also: as clients(). Returns stats.CELL, `also`, repetition, flows (clients), failed_flows, total_bps,
    least_bps, most_bps, ratio (most over least; infinite where a client got nothing), least_share (least over most,
    from 0 to 1, which is always finite and so is what tests use), jain_index.
    Source: paper C, figure 3; Jain, Chiu and Hawe 1984.
    """
    rows = []
    for names, group in clients.groupby([*stats.CELL, *also, "repetition"], sort=True):
        rates = group["throughput_bps"].to_numpy()
        least, most = float(rates.min()), float(rates.max())
        ratio = most / least if least else np.inf
        share = least / most if most else np.nan
        counts = [len(group), int(group["failed"].sum())]
        rows.append([*names, *counts, float(rates.sum()), least, most, ratio, share, stats.jain_index(rates)])
    columns = ["flows", "failed_flows", "total_bps", "least_bps", "most_bps", "ratio", "least_share", "jain_index"]
    return pd.DataFrame(rows, columns=[*stats.CELL, *also, "repetition", *columns])


def cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean over repetitions of min, max, max/min and Jain's index, each as estimates.means, by its column's name.

    A cell in which a client got nothing has no max/min: its gap says in how many repetitions.
    """
    return {name: estimates.means(repetitions, stats.CELL, name, confidence) for name in _SHOWN}


def drivers_differ(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Whether the drivers of each system differ in fairness, by Kruskal and Wallis's test over repetitions.

    repetitions: as by_repetition. Returns backend, workload, pairs, measure, statistic, p, n (repetitions), drivers,
    and gap: why there is no test, else empty. least_share is max/min upside down: the ranks are the same, reversed.
    """
    rows = []
    for names, system in repetitions.groupby([*stats.SYSTEM, "pairs"], sort=True):
        for measure in MEASURES:
            try:
                test = contrasts.kruskal(system, measure, "driver")
                rows.append([*names, measure, test.statistic, test.p, test.n, test.groups, ""])
            except AnalysisError as error:
                drivers = system["driver"].nunique()
                rows.append([*names, measure, np.nan, np.nan, len(system), drivers, str(error)])
    columns = ["pairs", "measure", "statistic", "p", "n", "drivers", "gap"]
    return pd.DataFrame(rows, columns=[*stats.SYSTEM, *columns])


def pairs_of_drivers(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Each two drivers of a system compared by Mann and Whitney's test, with Holm's correction and Cliff's delta.

    As contrasts.pairwise, with backend, workload, pairs and measure before. Systems that carry no test are left out:
    drivers_differ says why.
    """
    parts = []
    for names, system in repetitions.groupby([*stats.SYSTEM, "pairs"], sort=True):
        for measure in MEASURES:
            try:
                found = contrasts.pairwise(system, measure, "driver")
            except AnalysisError:
                continue
            told = dict(zip([*stats.SYSTEM, "pairs"], names, strict=True)) | {"measure": measure}
            parts.append(pd.concat([pd.DataFrame(told, index=found.index), found], axis=1))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*stats.SYSTEM, "pairs", "measure"])


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Min, max, max/min and Jain's index of a client by driver, as text, and what paper C states of max/min.

    cells: as cells(), of one system.
    """
    keyed = {name: {(row.driver, row.pairs): row for row in frame.itertuples()} for name, frame in cells.items()}
    stated = _published_ratios()

    def tell(name: str):
        _, scale, digits = _SHOWN[name]
        return lambda cell: shown(keyed[name][cell.driver, cell.pairs], digits, scale=scale)

    return rows_by_driver(
        cells["jain_index"],
        ("driver", "pairs"),
        {head: tell(name) for name, (head, _, _) in _SHOWN.items()}
        | {"Paper C, 50 pairs": lambda cell: stated.get(cell.driver, MISSING)},
        heads=("Driver", "Pairs"),
    )


def table_of_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Each two drivers by measure, as text; of one system, as pairs_of_drivers."""
    body = [
        [
            MEASURES[row.measure],
            f"{row.first} – {row.second}",
            f"{row.difference:+.3f}",
            with_bounds(row.delta, row.delta_low, row.delta_high, 2),
            p_text(row.p_holm),
            f"{row.n_first}, {row.n_second}",
        ]
        for row in pairs.itertuples()
    ]
    heads = ["Measure", "Drivers", "Median difference", "Cliff's delta", "p (Holm)", "n"]
    return pd.DataFrame(body, columns=heads).set_index(["Measure", "Drivers"])


def far_apart(clients: pd.DataFrame) -> bool:
    """Whether drivers lie so far apart that a linear axis would show one of them as a stroke: tenfold in the median.

    A client that got nothing has no place on a logarithmic axis, so there this is never said.
    """
    middles = clients.groupby(list(stats.CELL))["throughput_bps"].median()
    return bool((clients["throughput_bps"] > 0).all() and middles.max() > 10 * middles.min())


def note(clients: pd.DataFrame) -> str:
    """What a reader must know of the clients behind a figure's lines."""
    lines = clients.groupby(list(stats.CELL))
    told = (
        f"every client of n = {figures.span(lines['repetition'].nunique())} repetitions with"
        f" {figures.span(clients['pairs'])} pairs"
    )
    failed = int(clients["failed"].sum())
    return f"{told}; {failed} clients failed and count as zero" if failed else f"{told}; none failed"


def values(runs: Runs, cells: dict[str, pd.DataFrame], differ: pd.DataFrame, pairs: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E2, all below `fairness/`: those of layout.head, and

    - <system>/<driver>/min, max (Gbit/s), ratio, jain, each with -interval; ratio-gap where a client got nothing;
    - <system>/jain-p, min-max-p: of Kruskal and Wallis's test between drivers;
    - <system>/<first>-<second>/jain-p, jain-delta, min-max-p, min-max-delta: of two drivers, p after Holm;
    - c/bridge/min, max; c/<driver>/ratio: as paper C states them at 50 pairs; e/all/min, max: as paper E does.
    """
    found = head("fairness", runs, cells["jain_index"], gap)
    for name, frame in cells.items():
        _, scale, digits = _SHOWN[name]
        for system, part in systems(frame).items():
            for cell in part.itertuples():
                key = f"{system}/{cell.driver}/{_KEYS[name]}"
                put(found, key, cell, digits, "Gbit/s" if scale != 1 else "", scale=scale)
                if cell.gap:
                    found.text(f"{key}-gap", cell.gap)
    short = {"jain_index": "jain", "least_share": "min-max"}
    for row in differ[differ["p"].notna()].itertuples():
        found.text(f"{row.backend}-{row.workload}/{short[row.measure]}-p", p_text(row.p))
    for row in pairs.itertuples():
        key = f"{row.backend}-{row.workload}/{row.first}-{row.second}/{short[row.measure]}"
        found.text(f"{key}-p", p_text(row.p_holm))
        found.number(f"{key}-delta", row.delta, 2)
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
