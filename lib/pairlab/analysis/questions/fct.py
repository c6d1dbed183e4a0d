"""Flow completion times (E4): percentiles, their changes, whole distributions compared, and where the time goes.

All frames of estimates have the form of cell_estimates.COLUMNS. Times are in seconds from a flow's actual start unless
`value` says otherwise; a failed flow took longer than any other (model.fct), and is counted beside them.
"""

import itertools
from functools import partial

import pandas as pd

from pairlab.analysis import by_group, flow_changes, flow_parts, published
from pairlab.analysis.by_group import ByGroup
from pairlab.analysis.cell_estimates import at_pairs
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.output.formatting import MISSING, percentile_name, systems, three_digits
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import (
    Measure,
    Texts,
    across,
    common_values,
    key_of,
    p_values,
    tabulate,
    texts,
)
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.errors import TooFewSamples
from pairlab.model import fct
from pairlab.statistics.clusters import Clusters
from pairlab.store.dataset import Runs

#: The percentiles that are reported, and those whose changes are.
QS, CHANGED_QS = (0.5, 0.9, 0.95, 0.99, 0.999), (0.5, 0.99)
#: The step between pair counts that paper C gives numbers for.
PUBLISHED_STEP = (10, 50)
TIME = Measure("Flow completion time (ms)", "", 1, 1e3, "ms", short=True)
CHANGE = Measure("Change (%)", "", 1, unit="%", change=True, short=True)
#: The parts of a flow's time as flowgen reports them: name, and the columns between which it lies.
PHASES = {
    "connect": ("start_s", "connected_s"),
    "first byte": ("connected_s", "first_byte_s"),
    "rest": ("first_byte_s", "completed_s"),
}


def percentiles(flows: pd.DataFrame | Runs, value: str = "fct_s", confidence: float = 0.95) -> pd.DataFrame:
    """The percentiles QS of each cell, with cluster-bootstrap intervals: those of by_group, by CELL."""
    return flow_parts.reduced(partial(_percentiles_of_cells, value=value, confidence=confidence), flows, CELL, [value])


def percentiles_and_cdfs(
    flows: pd.DataFrame | Runs, confidence: float = 0.95, points: int = 200
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The percentiles of the completion times, as above, and the CDF of each cell, as ByGroup.cdf.

    The second has no rows where no flow was complete. Flows are read and sorted once for both.
    """
    work = partial(_percentiles_and_cdfs, confidence=confidence, points=points)
    each = flow_parts.each(work, flows, CELL, ["fct_s"])
    cells, lines = (flow_parts.joined(frames) for frames in zip(*each, strict=True))
    return cells, lines


def change(
    before: pd.DataFrame, after: pd.DataFrame, q: float, *, value: str = "fct_s", confidence: float = 0.95
) -> dict[str, object]:
    """How far the q-th percentile of `value` moves from one set of flows to another, in percent, as an estimate.

    before, after: as Runs.flows; the change is quantiles.percent_change. A gap where a percentile cannot be had:
    too few flows, or so many of them failed that it depends on these.
    """
    first, second = (Clusters.of(fct.of(side, value), side["repetition"]) for side in (before, after))
    return flow_changes.change(first, second, q, confidence)


def changes_by_pairs(flows: pd.DataFrame | Runs, confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of each of CHANGED_QS between neighbouring pair counts, and over PUBLISHED_STEP where it has both.

    Returns SYSTEM, driver, before_pairs, after_pairs, q and COLUMNS.
    """
    work = partial(flow_changes.by_pairs, qs=CHANGED_QS, step=PUBLISHED_STEP, confidence=confidence)
    return flow_parts.reduced(work, flows, [*SYSTEM, "driver"], ["pairs", "fct_s"])


def changes_by_driver(flows: pd.DataFrame | Runs, reference: str = "bridge", confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of each of CHANGED_QS from the driver `reference` to each other one, at each pair count.

    Returns SYSTEM, driver, pairs, q and COLUMNS; nothing for a pair count without the reference.
    """
    work = partial(flow_changes.by_driver, qs=CHANGED_QS, reference=reference, confidence=confidence)
    return flow_parts.reduced(work, flows, [*SYSTEM, "pairs"], ["driver", "fct_s"])


def distributions(flows: pd.DataFrame | Runs, value: str = "fct_s") -> pd.DataFrame:
    """Whether two drivers' whole distributions differ, for each two at each pair count, by permuting repetitions.

    A failed flow took longer than any other. Repetitions are swapped within a block (the same repetition of both
    drivers) where there are enough of them for a p below 0.05, else permuted freely. Returns SYSTEM, pairs, first,
    second, distance (root mean square between the CDFs, 0 to 1), p, p_holm (over the comparisons at that pair count),
    least_p (what the repetitions can give at best), n, and gap.
    """
    work = partial(flow_changes.distributions, value=value)
    return flow_parts.reduced(work, flows, [*SYSTEM, "pairs"], ["driver", value])


def tools(flows: pd.DataFrame | Runs, *, exact: str = "flowgen", confidence: float = 0.95) -> pd.DataFrame:
    """How far each other workload's percentiles lie from those of `exact`, at the same backend, driver and pairs.

    Returns backend, workload (the other one), driver, pairs, q and COLUMNS: the change in percent.
    """
    work = partial(flow_changes.by_workload, qs=CHANGED_QS, exact=exact, confidence=confidence)
    return flow_parts.reduced(work, flows, ["backend", "driver", "pairs"], ["workload", "fct_s"])


def phases(flows: pd.DataFrame | Runs) -> pd.DataFrame:
    """The median time that each of PHASES takes in each cell, in s: columns of CELL and the names of PHASES.

    Only flows whose tool reports all of them count, and only cells that have such flows have a row. Medians of parts
    do not add up to the median of the whole, which is the column "all".
    """
    return flow_parts.reduced(_phases, flows, CELL, [*dict.fromkeys(itertools.chain(*PHASES.values())), "fct_s"])


def failures(flows: pd.DataFrame | Runs) -> pd.DataFrame:
    """How many flows of each cell failed, and the reasons: columns of CELL, flows, failed_flows, errors."""
    return flow_parts.reduced(_failures, flows, CELL, ["error"])


# --- of the flows of some cells


def _percentiles_of(groups: ByGroup, confidence: float) -> pd.DataFrame:
    found = groups.percentiles(QS, confidence=confidence)
    return found.rename(columns={"repetitions": "n"}).assign(confidence=confidence)


def _percentiles_of_cells(flows: pd.DataFrame, value: str, confidence: float) -> pd.DataFrame:
    return _percentiles_of(by_group.of(flows, CELL, value), confidence)


def _percentiles_and_cdfs(flows: pd.DataFrame, confidence: float, points: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    groups = by_group.of(flows, CELL, "fct_s")
    try:
        lines = groups.cdf(points=points)
    except TooFewSamples:
        lines = pd.DataFrame(columns=[*CELL, "value", "share"])
    return _percentiles_of(groups, confidence), lines


def _phases(flows: pd.DataFrame) -> pd.DataFrame:
    parts = pd.DataFrame({name: flows[end] - flows[begin] for name, (begin, end) in PHASES.items()}, index=flows.index)
    known = pd.concat([flows[list(CELL)], parts.astype(float), flows["fct_s"].astype(float).rename("all")], axis=1)
    medians = known.dropna().groupby(list(CELL), sort=True, observed=True).median().reset_index()
    categories = medians.select_dtypes("category")
    return medians.astype({name: column.cat.categories.dtype for name, column in categories.items()})


def _failures(flows: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for names, cell in flows.groupby(list(CELL), sort=True, observed=True):
        bad = cell[cell["status"] != "ok"]
        rows.append([*names, len(cell), len(bad), "; ".join(sorted(set(bad["error"])))])
    return pd.DataFrame(rows, columns=[*CELL, "flows", "failed_flows", "errors"])


# --- tables and numbers


def percentile_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Percentiles of the completion time in ms with intervals, by pairs and driver, and how many flows failed.

    cells: as percentiles. A dash stands where there are too few flows for a percentile.
    """
    columns = across(_times(cells, "system", "pairs", "driver"), order=_percentiles(cells, " (ms)"))
    columns["Failed"] = texts(cells, ("system", "pairs", "driver"), lambda cell: f"{cell.failed_flows} of {cell.flows}")
    return tabulate({"system": "System", "pairs": "Pairs", "driver": "Driver"}, columns)


def waits(cells: pd.DataFrame, intended: pd.DataFrame) -> pd.Series:
    """The median from the intended start less that from the actual one, in s, by backend, workload, pairs, driver.

    cells, intended: as percentiles of fct_s and intended_fct_s.
    """
    keys = [*SYSTEM, "pairs", "driver"]
    late, early = (frame[frame["q"] == 0.5].set_index(keys)["value"] for frame in (intended, cells))
    return (late - early).dropna()


def wait_table(waits: pd.Series) -> pd.DataFrame:
    """How long clients waited for their turn at the median, in ms: a column per driver. waits: as waits()."""
    shown = texts(
        waits.rename("wait_s").reset_index(), ("system", "pairs", "driver"), lambda row: f"{row.wait_s * 1e3:.2f}"
    )
    return tabulate({"system": "System", "pairs": "Pairs"}, across(shown))


def named_steps(changes: pd.DataFrame) -> pd.DataFrame:
    """The changes with what a figure calls them: `panel` (system and percentile) and `step`, sorted by both.

    changes: as changes_by_pairs.
    """
    changes = changes.sort_values([*SYSTEM, "q", "before_pairs", "after_pairs"])
    panels = [f"{row.backend}, {row.workload}: {percentile_name(row.q)}" for row in changes.itertuples()]
    steps = [f"{row.before_pairs} to {row.after_pairs}" for row in changes.itertuples()]
    return changes.assign(panel=panels, step=steps)


def change_table(changes: pd.DataFrame) -> pd.DataFrame:
    """Percent change between pair counts, a row per system and driver; beside it what paper C states of the p99.

    changes: as changes_by_pairs.
    """
    changes = changes.sort_values(["before_pairs", "after_pairs", "q"])
    steps = [
        (f"{row.before_pairs} to {row.after_pairs} pairs (%)", percentile_name(row.q)) for row in changes.itertuples()
    ]
    shown = CHANGE.texts(changes.assign(step=steps), "system", "driver", "step")
    stated = stated_changes()
    paper = texts(
        changes,
        ("system", "driver"),
        lambda row: f"{stated[row.driver]:+.1f}" if row.driver in stated else MISSING,
    )
    columns = across(shown, order=list(dict.fromkeys(steps))) | {("Paper C, 10 to 50", "p99"): paper}
    return tabulate({"system": "System", "driver": "Driver"}, columns)


def driver_table(changes: pd.DataFrame, differ: pd.DataFrame, reference: str = "bridge") -> pd.DataFrame:
    """Each driver beside `reference`: change of median and p99 in percent, and whether the distributions differ.

    changes: as changes_by_driver; differ: as distributions.
    """
    names = ("system", "pairs", "driver")
    shown = CHANGE.texts(_named(changes, f" against {reference} (%)"), *names, "percentile")
    tested = differ[differ["first"] == reference].rename(columns={"second": "driver"})
    columns = across(shown, order=[f"{percentile_name(q)} against {reference} (%)" for q in CHANGED_QS])
    columns["Distance"] = texts(
        tested, names, lambda row: f"{row.distance:.2f}" if row.distance == row.distance else MISSING
    )
    columns["p (Holm)"] = p_values(tested, *names)
    columns["least p"] = p_values(tested, *names, column="least_p")
    return tabulate({"system": "System", "pairs": "Pairs", "driver": "Driver"}, columns)


def tool_table(beside: pd.DataFrame) -> pd.DataFrame:
    """How far the median of the other tools lies from flowgen's, in percent: a row per backend, tool and pair count.

    beside: as tools.
    """
    shown = CHANGE.texts(beside[beside["q"] == 0.5], "backend", "workload", "pairs", "driver")
    return tabulate({"backend": "Backend", "workload": "Tool", "pairs": "Pairs"}, across(shown))


def phase_table(phases: pd.DataFrame) -> pd.DataFrame:
    """Medians of the parts of a flow's time in ms, a row per system and pair count, columns by driver.

    phases: as phases().
    """
    rows = _by_phase(phases)
    rows = rows.assign(column=list(zip(rows["driver"], rows["phase"], strict=True)))
    columns = across(
        texts(rows, ("system", "pairs", "column"), lambda row: _ms(row.median_s)),
        order=[(driver, phase) for driver in ordered(phases["driver"]) for phase in PHASES],
    )
    return tabulate({"system": "System", "pairs": "Pairs"}, columns)


def stated_changes() -> dict[str, float]:
    """The change of the p99 from 10 to 50 pairs by driver, in percent, as paper C states it."""
    return published.load("fct_changes").set_index("driver")["change_percent"].to_dict()


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
    r"""The keyed numbers of E4, all below `fct/`: those of measures.common_values, the list exact (systems shown), and

    - flow-size (MB), failed, flows; <system>/<driver>/<pairs>/p50 and so on, intended-p50, with -interval (ms);
    - <system>/<driver>/<few>-<many>/p50, p99: change in percent; <system>/<driver>/<pairs>/p50-over-bridge, p99-…;
    - <system>/shown/pairs: 50 where measured, else the most; shown/fastest and slowest: /driver and /p50 there;
    - <system>/largest-lead: by how much the intended-start median exceeds the actual-start one at most (ms);
    - <system>/differ, compared, undecidable: of the tests between drivers, how many find a difference (p after Holm
      at most 0.05), how many there are, and how many, if any, have too few repetitions to find one;
    - steps, compared-tools, split: how many rows those three tables rest on, if any;
    - tools/<backend>-<tool>/least, most: how far its medians lie from flowgen's, in percent;
    - <system>/<driver>/<pairs>/connect, first-byte, rest: medians of parts (ms);
    - c/<driver>/<pairs>/p99, c/<driver>/10-50/p99: as paper C states them; e/<pairs>/least, most: as paper E does.
    """
    medians = cells[cells["q"] == 0.5]
    found = common_values("fct", runs, medians, gap)
    found.names("exact", exact_systems(cells))
    sizes = sorted({run.spec.flow_bytes for run in runs if run.status == "ok"})
    if sizes:
        found.text("flow-size", ", ".join(f"{size / 1e6:g}" for size in sizes) + " MB")
        found.number("flows", medians["flows"].sum(), 0)
        found.number("failed", medians["failed_flows"].sum(), 0)
    steps = by_pairs.assign(step=[f"{row.before_pairs}-{row.after_pairs}" for row in by_pairs.itertuples()])
    for frame, measure, middle, form in (
        (cells, TIME, "pairs", "{}"),
        (intended, TIME, "pairs", "intended-{}"),
        (steps, CHANGE, "step", "{}"),
        (by_driver, CHANGE, "pairs", "{}-over-bridge"),
    ):
        for q, part in frame.groupby("q"):
            measure.put(found, part, "system", "driver", middle, key=form.format(percentile_name(q)))
    for system, part in systems(differ).items():
        found.number(f"{system}/compared", len(part), 0)
        found.number(f"{system}/differ", (part["p_holm"] <= 0.05).sum(), 0)
        if undecidable := (~(part["least_p"] <= 0.05)).sum():
            found.number(f"{system}/undecidable", undecidable, 0)
    for system, part in systems(at_pairs(medians.dropna(subset=["value"]), PUBLISHED_STEP[-1])).items():
        found.number(f"{system}/shown/pairs", part["pairs"].iloc[0], 0)
        for rank, at in (("fastest", part["value"].idxmin()), ("slowest", part["value"].idxmax())):
            found.text(f"{system}/shown/{rank}/driver", part.loc[at, "driver"])
            TIME.put_one(found, f"{system}/shown/{rank}/p50", part.loc[at])
    for names, part in waits(cells, intended).groupby(list(SYSTEM)):
        found.text(f"{'-'.join(names)}/largest-lead", f"{part.max() * 1e3:.2f} ms")
    for key, frame in (("steps", by_pairs), ("compared-tools", beside), ("split", phases)):
        if len(frame):
            found.number(key, len(frame), 0)
    for (backend, tool), part in beside[beside["q"] == 0.5].dropna(subset=["value"]).groupby(["backend", "workload"]):
        for name, at in (("least", part["value"].min()), ("most", part["value"].max())):
            found.text(f"tools/{backend}-{tool}/{name}", f"{at:+.1f} %")
    for row in _by_phase(phases).itertuples():
        found.text(key_of(row, "system", "driver", "pairs", "phase"), f"{_ms(row.median_s)} ms")
    _cite(found)
    return found


def _cite(found: Values) -> None:
    for cell in published.load("fct").itertuples():
        found.number(f"c/{cell.driver}/{cell.pairs}/{percentile_name(cell.quantile)}", cell.fct_s * 1e3, 1, "ms")
    for driver, step in stated_changes().items():
        found.text(f"c/{driver}/10-50/p99", f"{step:+.1f} %")
    ranges = published.load("fct_ranges").query("paper == 'E' and experiment == 'fct'")
    for row in ranges.itertuples():
        for what, bound in (("least", row.low_s), ("most", row.high_s)):
            if bound == bound:
                found.text(f"e/{row.pairs:.0f}/{what}", f"{bound:g} s")


def _times(cells: pd.DataFrame, *names: str) -> Texts:
    return TIME.texts(_named(cells, " (ms)"), *names, "percentile")


def _named(frame: pd.DataFrame, behind: str) -> pd.DataFrame:
    """The frame with `percentile`: its q as a table's head."""
    return frame.assign(percentile=frame["q"].map(lambda q: percentile_name(q) + behind).astype(object))


def _percentiles(cells: pd.DataFrame, behind: str) -> list[str]:
    return [percentile_name(q) + behind for q in sorted(cells["q"].unique())]


def _by_phase(phases: pd.DataFrame) -> pd.DataFrame:
    """A row per cell and phase: CELL, phase, median_s."""
    return phases.melt(list(CELL), list(PHASES), "phase", "median_s")


def _ms(time_s: float) -> str:
    return f"{time_s * 1e3:.{three_digits(time_s * 1e3)}f}"
