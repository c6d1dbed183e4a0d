"""How experiment E4 is laid out: completion times as text, and the numbers of its prose. Estimates are from fct.py."""

from collections.abc import Iterable

import pandas as pd

from pairlab.analysis import fct, published
from pairlab.analysis.estimates import at_pairs
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, p_text, put, rows_by_driver, systems
from pairlab.analysis.look import ordered
from pairlab.analysis.stats import SYSTEM
from pairlab.collection import Runs


def ms(value_s: float, low_s: float = float("nan"), high_s: float = float("nan")) -> str:
    """A time in ms to three digits, with its bounds where it has some: "154 [150, 159]"; a dash where there is none."""
    if value_s != value_s:
        return MISSING
    digits = 0 if value_s >= 0.1 else 1 if value_s >= 0.01 else 2
    bounds = f" [{low_s * 1e3:.{digits}f}, {high_s * 1e3:.{digits}f}]" if low_s == low_s else ""
    return f"{value_s * 1e3:.{digits}f}{bounds}"


def percent(cell) -> str:
    """A change in percent with its bounds: "+31.3 [+25.0, +38.1]"; a dash where there is a gap."""
    if cell.value != cell.value:
        return MISSING
    digits = 0 if max(abs(cell.value), abs(cell.high) if cell.high == cell.high else 0) >= 100 else 1
    bounds = f" [{cell.low:+.{digits}f}, {cell.high:+.{digits}f}]" if cell.low == cell.low else ""
    return f"{cell.value:+.{digits}f}{bounds}"


def percent_name(q: float) -> str:
    """A percentile as it is called in tables and keys: p50, p99.9."""
    return f"p{100 * q:g}"


def percentile_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Percentiles of the completion time in ms with intervals, by pairs and driver, and how many flows failed.

    cells: as fct.percentiles, of one system. A dash stands where there are too few flows for a percentile.
    """
    keyed = {(cell.pairs, cell.driver, cell.q): cell for cell in cells.itertuples()}

    def tell(q: float):
        def told(cell) -> str:
            found = keyed[cell.pairs, cell.driver, q]
            return ms(found.value, found.low, found.high)

        return told

    columns = {f"{percent_name(q)} (ms)": tell(q) for q in sorted(cells["q"].unique())}
    columns["Failed"] = lambda cell: f"{cell.failed_flows} of {cell.flows}"
    one = cells.drop_duplicates(["pairs", "driver"])
    return rows_by_driver(one, ("pairs", "driver"), columns, heads=("Pairs", "Driver"))


def lead_table(cells: pd.DataFrame, intended: pd.DataFrame) -> pd.DataFrame:
    """By how much the median from the intended start exceeds that from the actual one, in ms: columns by driver.

    cells, intended: as fct.percentiles of fct_s and intended_fct_s.
    """
    found = leads(cells, intended).dropna()
    told = found.unstack("driver").map(lambda lead: f"{lead * 1e3:.2f}" if lead == lead else MISSING)
    return told[ordered(told.columns)] if len(found) else pd.DataFrame()


def leads(cells: pd.DataFrame, intended: pd.DataFrame) -> pd.Series:
    """The median from the intended start less that from the actual one, in s, by backend, workload, pairs, driver."""
    keys = [*SYSTEM, "pairs", "driver"]
    late, early = (frame[frame["q"] == 0.5].set_index(keys)["value"] for frame in (intended, cells))
    return late - early


def change_table(changes: pd.DataFrame) -> pd.DataFrame:
    """Percent change between pair counts, a row per system and driver; beside it what paper C states of the p99.

    changes: as fct.changes_by_pairs.
    """
    steps = changes[["before_pairs", "after_pairs"]].drop_duplicates().sort_values(["before_pairs", "after_pairs"])
    heads = [
        (f"{few} to {many} pairs (%)", percent_name(q))
        for few, many in steps.itertuples(index=False)
        for q in fct.CHANGED_QS
    ]
    stated, body, rows = stated_changes(), [], []
    for system, part in systems(changes).items():
        for driver in ordered(part["driver"]):
            mine = part[part["driver"] == driver]
            told = {
                (f"{cell.before_pairs} to {cell.after_pairs} pairs (%)", percent_name(cell.q)): percent(cell)
                for cell in mine.itertuples()
            }
            rows.append((system, driver))
            body.append(
                [told.get(each, MISSING) for each in heads]
                + [f"{stated[driver]:+.1f}" if driver in stated else MISSING]
            )
    columns = pd.MultiIndex.from_tuples([*heads, ("Paper C, 10 to 50", "p99")])
    return pd.DataFrame(body, index=pd.MultiIndex.from_tuples(rows, names=["System", "Driver"]), columns=columns)


def driver_table(changes: pd.DataFrame, differ: pd.DataFrame, reference: str = "bridge") -> pd.DataFrame:
    """Each driver beside `reference`: change of median and p99 in percent, and whether the distributions differ.

    changes: as fct.changes_by_driver; differ: as fct.distributions; both of one system.
    """
    keyed = {(cell.pairs, cell.driver, cell.q): cell for cell in changes.itertuples()}
    tests = {(test.pairs, test.second): test for test in differ[differ["first"] == reference].itertuples()}
    columns = {
        f"{percent_name(q)} against {reference} (%)": lambda cell, q=q: percent(keyed[cell.pairs, cell.driver, q])
        for q in fct.CHANGED_QS
    }
    columns["Distance"] = lambda cell: f"{tests[cell.pairs, cell.driver].distance:.2f}".replace("nan", MISSING)
    columns["p (Holm)"] = lambda cell: p_text(tests[cell.pairs, cell.driver].p_holm)
    columns["least p"] = lambda cell: p_text(tests[cell.pairs, cell.driver].least_p)
    one = changes.drop_duplicates(["pairs", "driver"])
    return rows_by_driver(one, ("pairs", "driver"), columns, heads=("Pairs", "Driver"))


def tool_table(beside: pd.DataFrame) -> pd.DataFrame:
    """How far the median of the other tools lies from flowgen's, in percent: a row per backend, tool and pair count.

    beside: as fct.tools.
    """
    medians = beside[beside["q"] == 0.5]
    drivers = ordered(medians["driver"])
    body, rows = [], []
    for names, part in medians.groupby(["backend", "workload", "pairs"], sort=True):
        told = {cell.driver: percent(cell) for cell in part.itertuples()}
        rows.append(names)
        body.append([told.get(driver, MISSING) for driver in drivers])
    index = pd.MultiIndex.from_tuples(rows, names=["Backend", "Tool", "Pairs"])
    return pd.DataFrame(body, index=index, columns=drivers)


def phase_table(phases: pd.DataFrame) -> pd.DataFrame:
    """Medians of the parts of a flow's time in ms, a row per system and pair count, columns by driver.

    phases: as fct.phases.
    """
    drivers = ordered(phases["driver"])
    columns = pd.MultiIndex.from_product([drivers, fct.PHASES])
    body, rows = [], []
    for system, part in systems(phases).items():
        for pairs, cells in part.groupby("pairs", sort=True):
            told = cells.set_index("driver")
            rows.append((system, pairs))
            body.append([ms(told[phase].get(driver, float("nan"))) for driver, phase in columns])
    return pd.DataFrame(body, index=pd.MultiIndex.from_tuples(rows, names=["System", "Pairs"]), columns=columns)


def stated_changes() -> dict[str, float]:
    """The change of the p99 from 10 to 50 pairs by driver, in percent, as paper C states it."""
    return published.load("fct_changes").set_index("driver")["change_percent"].to_dict()


def gaps(*frames: pd.DataFrame) -> Iterable[str]:
    """Why numbers are missing in frames of estimates, each reason once with how many cells have it."""
    told = pd.concat([frame["gap"] for frame in frames])
    for reason, count in told[told != ""].value_counts().items():
        yield f"{count} without a number: {reason}"


def exact_systems(cells: pd.DataFrame, exact: str = "flowgen") -> list[str]:
    """The systems whose tables the paper shows: those of the exact tool; of a backend without it, all."""
    chosen = []
    for _, part in cells.groupby("backend", sort=True):
        chosen += list(systems(part[part["workload"] == exact] if exact in set(part["workload"]) else part))
    return chosen


def values(
    runs: Runs,
    cells: pd.DataFrame,
    intended: pd.DataFrame,
    by_pairs: pd.DataFrame,
    by_driver: pd.DataFrame,
    differ: pd.DataFrame,
    beside: pd.DataFrame,
    phases: pd.DataFrame,
    gap: str,
) -> Values:
    r"""The keyed numbers of E4, all below `fct/`: those of layout.head, the list exact (systems to show), and

    - flow-size (MB), failed, flows; <system>/<driver>/<pairs>/p50 and so on, intended-p50, with -interval (ms);
    - <system>/<driver>/<few>-<many>/p50, p99: change in percent; <system>/<driver>/<pairs>/p50-over-bridge, p99-…;
    - <system>/shown/pairs: 50 where measured, else the most; shown/fastest and slowest: /driver and /p50 there;
    - <system>/largest-lead: by how much the intended-start median exceeds the actual-start one at most (ms);
    - <system>/differ, compared, undecidable: of the tests between drivers, how many find a difference (p after Holm
      at most 0.05), how many there are, and how many have too few repetitions to find one;
    - steps, compared-tools, split: how many rows those three tables rest on, if any;
    - tools/<backend>-<tool>/least, most: how far its medians lie from flowgen's, in percent;
    - <system>/<driver>/<pairs>/connect, first-byte, rest: medians of parts (ms);
    - c/<driver>/<pairs>/p99, c/<driver>/10-50/p99: as paper C states them; e/<pairs>/least, most: as paper E does.
    """
    found = head("fct", runs, cells[cells["q"] == 0.5] if len(cells) else cells, gap)
    found.names("exact", exact_systems(cells))
    sizes = sorted({run.spec.flow_bytes for run in runs if run.status == "ok"})
    if sizes:
        found.text("flow-size", ", ".join(f"{size / 1e6:g}" for size in sizes) + " MB")
        medians = cells[cells["q"] == 0.5]
        found.number("flows", medians["flows"].sum(), 0)
        found.number("failed", medians["failed_flows"].sum(), 0)
    for prefix, frame in (("", cells), ("intended-", intended)):
        for cell in frame.itertuples():
            key = f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.pairs}/{prefix}{percent_name(cell.q)}"
            put(found, key, cell, 1, "ms", scale=1e3)
    for cell in by_pairs.itertuples():
        step = f"{cell.before_pairs}-{cell.after_pairs}"
        key = f"{cell.backend}-{cell.workload}/{cell.driver}/{step}/{percent_name(cell.q)}"
        put(found, key, cell, 1, "%", signed=True)
    for cell in by_driver.itertuples():
        key = f"{cell.backend}-{cell.workload}/{cell.driver}/{cell.pairs}/{percent_name(cell.q)}-over-bridge"
        put(found, key, cell, 1, "%", signed=True)
    for system, part in systems(differ).items():
        found.number(f"{system}/compared", len(part), 0)
        found.number(f"{system}/differ", (part["p_holm"] <= 0.05).sum(), 0)
        found.number(f"{system}/undecidable", (~(part["least_p"] <= 0.05)).sum(), 0)
    medians = at_pairs(cells[cells["q"] == 0.5].dropna(subset=["value"]), fct.PUBLISHED_STEP[-1])
    for system, part in systems(medians).items():
        found.number(f"{system}/shown/pairs", part["pairs"].iloc[0], 0)
        for rank, at in (("fastest", part["value"].idxmin()), ("slowest", part["value"].idxmax())):
            found.text(f"{system}/shown/{rank}/driver", part.loc[at, "driver"])
            put(found, f"{system}/shown/{rank}/p50", part.loc[at], 1, "ms", scale=1e3)
    for names, part in leads(cells, intended).dropna().groupby(list(SYSTEM)):
        found.text(f"{'-'.join(names)}/largest-lead", f"{part.max() * 1e3:.2f} ms")
    for key, frame in (("steps", by_pairs), ("compared-tools", beside), ("split", phases)):
        if len(frame):
            found.number(key, len(frame), 0)
    for (backend, tool), part in beside[beside["q"] == 0.5].dropna(subset=["value"]).groupby(["backend", "workload"]):
        for name, at in (("least", part["value"].min()), ("most", part["value"].max())):
            found.text(f"tools/{backend}-{tool}/{name}", f"{at:+.1f} %")
    for cell in phases.to_dict("records"):
        for phase in fct.PHASES:
            key = f"{cell['backend']}-{cell['workload']}/{cell['driver']}/{cell['pairs']}/{phase.replace(' ', '-')}"
            found.text(key, f"{ms(cell[phase])} ms")
    _cite(found)
    return found


def _cite(found: Values) -> None:
    for cell in published.load("fct").itertuples():
        found.number(f"c/{cell.driver}/{cell.pairs}/{percent_name(cell.quantile)}", cell.fct_s * 1e3, 1, "ms")
    for driver, step in stated_changes().items():
        found.text(f"c/{driver}/10-50/p99", f"{step:+.1f} %")
    ranges = published.load("fct_ranges").query("paper == 'E' and experiment == 'fct'")
    for row in ranges.itertuples():
        for what, bound in (("least", row.low_s), ("most", row.high_s)):
            if bound == bound:
                found.text(f"e/{row.pairs:.0f}/{what}", f"{bound:g} s")
