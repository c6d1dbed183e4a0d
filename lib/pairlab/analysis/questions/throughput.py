"""What pairs that send at full rate get, how evenly, and what the CPUs do meanwhile."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis import by_group, cell_estimates, published
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import cdf, estimates, grid, style
from pairlab.analysis.output.formatting import MISSING, p_text, span, systems, with_interval
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, Texts, across, key_of, tabulate, texts
from pairlab.analysis.output.provenance import facts_of
from pairlab.analysis.question import (
    Across,
    Answer,
    Column,
    Differ,
    Frame,
    Made,
    Mean,
    Question,
    Table,
    p_values,
)
from pairlab.analysis.selection import CELL, SYSTEM, block_of
from pairlab.analysis.sentences import extremes, per_system
from pairlab.errors import AnalysisError
from pairlab.model.cpu_use import PARTS
from pairlab.model.rates import carried_bps
from pairlab.statistics import changes, tests
from pairlab.store.dataset import Runs

CLIENT = Quantity("Mean per client (Gbit/s)", "client", 3, 1e-9, "Gbit/s")
TOTAL = Quantity("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s")
RELATIVE = Quantity("Total throughput\n(bridge at 10 pairs = 1)", "over-bridge", 2)
TOTAL_LABEL = "Total throughput (Gbit/s)"


# --- throughput by pairs and driver: Boeira et al. 2021, figure 2, and Boeira and Ferreto, table I and figure 3


def _box(answer: Answer) -> Figure | None:
    if answer.gap or answer["total"]["n"].max() < style.LEAST_IN_BOX:
        return None
    options: dict[str, Any] = {"value": "total_bps", "measure": TOTAL, "label": TOTAL_LABEL, "wide": True}
    options["conditions"] = answer.conditions
    return estimates.by_system(answer.repetitions, estimates.repetitions_by_pairs, **options)


class Shape(NamedTuple):
    """Normalised totals, and why a system has none (one text each)."""

    cells: pd.DataFrame
    left_out: tuple[str, ...]


def normalised_shape(
    totals: pd.DataFrame,
    *,
    by: Sequence[str] = SYSTEM,
    pairs: int | None = 10,
    confidence: float = 0.95,
) -> Shape:
    """Totals as multiples of one reference cell of the same system: the shape, comparable across machines.

    The reference is the total of bridge at `pairs` (None: the most pairs at which the system has that driver). Bridge
    at 10 pairs is the one cell that Boeira et al. 2021 and Boeira and Ferreto and a small machine all have. Each cell
    is divided by the reference, within the blocks that both have, and the interval covers the reference's own spread:
    it is 1 and the change of statistics/changes.py.

    totals: columns of `by`, driver, pairs, total_bps and repetition (without that column: one value per
    cell). Returns Shape(cells, left_out); cells has `by`, driver, pairs, value, low, high (no unit; NaN bounds from
    fewer than intervals.LEAST values, and nothing where a repetition carried nothing), n, reference_pairs, confidence.
    A system without the reference is named in left_out.
    """
    by = list(by)
    if "repetition" not in totals:
        totals = totals.assign(repetition=0)
    rows, left_out = [], []
    for names, system in totals.groupby(by, sort=True):
        candidates = system[system["driver"] == "bridge"]
        at = candidates["pairs"].max() if pairs is None else pairs
        reference = candidates[(candidates["pairs"] == at) & (candidates["total_bps"] > 0)]
        if reference.empty:
            where = "" if pairs is None else f" at {pairs} pairs"
            left_out.append(f"{', '.join(map(str, names))}: no bridge{where} to be the reference")
            continue
        for (name, count), cell in system.groupby(["driver", "pairs"], sort=True):
            times, n = [np.nan] * 3, len(cell)
            if (cell["total_bps"] > 0).all():
                label = block_of(totals)
                base, mine = (dict(zip(part[label], part["total_bps"], strict=True)) for part in (reference, cell))
                found, _ = changes.between(base, mine)
                *change, n = found.estimate(confidence)
                times = [1 + percent / 100 for percent in change]
            rows.append([*names, name, count, *times, n, int(at), confidence])
    columns = [*by, "driver", "pairs", "value", "low", "high", "n", "reference_pairs", "confidence"]
    return Shape(pd.DataFrame(rows, columns=columns), tuple(left_out))


def _shape(answer: Answer, pairs: int | None = 10) -> Shape:
    return normalised_shape(answer.repetitions, pairs=pairs, confidence=answer.confidence)


def _stated() -> pd.DataFrame:
    return normalised_shape(published.load("throughput"), by=["paper"]).cells


def _compared(answer: Answer) -> pd.DataFrame:
    """Normalised totals of the papers and ours, in one row for each cell that both have."""
    theirs = _stated()
    stated = across(RELATIVE.texts(theirs.assign(paper="paper " + theirs["paper"]), "pairs", "driver", "paper"))
    here = across(RELATIVE.texts(answer["shape"], "pairs", "driver", "system"))
    both = {cell for texts in stated.values() for cell in texts} & {cell for texts in here.values() for cell in texts}
    columns = {name: {cell: texts.get(cell, MISSING) for cell in both} for name, texts in (stated | here).items()}
    return tabulate({"pairs": "Pairs", "driver": "Driver"}, columns)


def _beside_published(answer: Answer) -> Figure | None:
    if _compared(answer).empty:
        return None
    return estimates.published_shape(answer["shape"], _stated(), measure=RELATIVE, conditions=answer.conditions)


def _throughput_values(answer: Answer, found: Values) -> None:
    r"""host/<fact>; <system>/most-pairs; <system>/highest and lowest (at the most pairs), each with /driver, /total and
    /total-interval; <driver>/<pairs>/total and client, of a single system; <system>/<driver>/over-bridge: its total
    over that of bridge at the most pairs; e/<driver>/<pairs>/total, client; c/<driver>/level, over-bridge: as the
    papers state them; not-compared: the systems without a shape, and why; compared: how many cells both have.
    """
    total = answer["total"]
    for fact, text in facts_of(answer.found).items():
        found.text(f"host/{fact}", text)
    for system, part in systems(total).items():
        most = part["pairs"].max()
        found.number(f"{system}/most-pairs", most, 0)
        at_most = list(part[part["pairs"] == most].sort_values("value").itertuples())
        for rank, cell in (("lowest", at_most[0]), ("highest", at_most[-1])):
            found.text(f"{system}/{rank}/driver", cell.driver)
            TOTAL.put_one(found, f"{system}/{rank}/total", cell)
    if len(systems(total)) == 1:
        for name in ("total", "client"):
            answer.question.estimates[name].put(found, answer[name], "driver", "pairs")
    for cell in _shape(answer, pairs=None).cells.itertuples():
        if cell.pairs == cell.reference_pairs:
            found.number(f"{cell.backend}-{cell.workload}/{cell.driver}/over-bridge", cell.value, RELATIVE.digits)
    for cell in published.load("throughput").itertuples():
        for value, measure in ((cell.client_bps, CLIENT), (cell.total_bps, TOTAL)):
            key = f"{cell.paper.lower()}/{cell.driver}/{cell.pairs}/{measure.key}"
            found.number(key, value * measure.scale, measure.digits, measure.unit)
    for paper, levels in published.load("saturation").groupby("paper"):
        level = levels.set_index("driver")["total_bps"]
        for driver in level.index:
            found.number(f"{paper.lower()}/{driver}/level", level[driver] / 1e9, 0, "Gbit/s")
            found.number(f"{paper.lower()}/{driver}/over-bridge", level[driver] / level["bridge"], RELATIVE.digits)
    if left_out := _shape(answer).left_out:
        found.text("not-compared", "; ".join(left_out) + ".")
    if compared := len(_compared(answer)):
        found.number("compared", compared, 0)


THROUGHPUT = Question(
    topic="throughput",
    estimates={
        "client": Mean(CLIENT, "client_bps"),
        "total": Mean(TOTAL, "total_bps"),
        "shape": Frame(lambda answer: _shape(answer).cells),
    },
    tables={
        "throughput": Table(
            {"pairs": "Pairs"},
            [Across("client", "driver", head=CLIENT.title), Across("total", "driver", head=TOTAL.title)],
            remarks="total",
        ),
        "throughput-published": Made(_compared, split=False),
    },
    figures={
        "throughput-total": lambda answer: answer.panels(estimates.by_number, "total", label=TOTAL_LABEL),
        "throughput-box": _box,
        "throughput-published": _beside_published,
    },
    main=("total",),
    values=_throughput_values,
    absent={
        "throughput-published": lambda answer: "; ".join(_shape(answer).left_out),
        "throughput-box": lambda answer: (
            f"a box needs {style.LEAST_IN_BOX} repetitions; the figure above has the points"
        ),
    },
    answer=[extremes("total", "total throughput at the most pairs")],
)


# --- fairness between clients: Boeira et al. 2021, figure 3, and Boeira and Ferreto, figure 4

#: What is compared between drivers: its name in tables, and in keys. least_over_most is always finite.
COMPARED = {"jain_index": ("Jain's index", "jain"), "least_over_most": ("min/max", "min-max")}
_FAIR = {
    "min": (Quantity("Min (Gbit/s)", "min", 3, 1e-9, "Gbit/s"), "least_bps"),
    "max": (Quantity("Max (Gbit/s)", "max", 3, 1e-9, "Gbit/s"), "most_bps"),
    "ratio": (Quantity("Max/min", "ratio", 2), "most_over_least"),
    "jain": (Quantity("Jain's index", "jain", 3), "jain_index"),
}


def _at_pairs(answer: Answer, frame: pd.DataFrame) -> pd.DataFrame:
    return cell_estimates.at_pairs(frame, answer.options.get("pairs", 50))


def _looked_at(answer: Answer) -> pd.DataFrame:
    """The repetitions with the number of pairs that the answer is of, its option `pairs`."""
    return _at_pairs(answer, answer.repetitions)


def clients(flows: pd.DataFrame, **more: Any) -> pd.DataFrame:
    """One row per client of each repetition: the columns of CELL, repetition, pair, throughput_bps, failed, and more.

    flows: as Runs.flows. All flows of a client are added up; a failed one adds zero. more: as of pandas' agg.
    """
    by, others = [*CELL, "repetition", "pair"], [column for column, _ in more.values()]
    counted = flows[[*by, *others]].assign(throughput_bps=carried_bps(flows), failed=flows["status"] != "ok")
    each = counted.groupby(by, sort=True)
    return each.agg(throughput_bps=("throughput_bps", "sum"), failed=("failed", "any"), **more).reset_index()


def of_clients(clients: pd.DataFrame, each: str = "faint: of each") -> str:
    """What a reader must know of the clients behind a figure's lines. each: how it shows each repetition."""
    n = clients.groupby(list(CELL))["repetition"].nunique()
    failed = int(clients["failed"].sum())
    failures = f"{failed} clients failed and count as zero" if failed else "none failed"
    return f"every client of n = {span(n)} repetitions ({each}) with {span(clients['pairs'])} pairs; {failures}"


def far_apart(clients: pd.DataFrame) -> bool:
    """Whether drivers lie so far apart that a linear axis would show one of them as a stroke: tenfold in the median.

    A client that got nothing has no place on a logarithmic axis, so there this is never said.
    """
    middles = clients.groupby(list(CELL))["throughput_bps"].median()
    return bool((clients["throughput_bps"] > 0).all() and middles.max() > 10 * middles.min())


def _clients_cdf(answer: Answer) -> Figure | None:
    mine = _at_pairs(answer, clients(answer.flows))
    if not len(mine):
        return None
    points = by_group.of(mine, CELL, "throughput_bps").cdf(each=True)
    shown: dict[str, Any] = {"label": "Throughput of a client (Gbit/s)", "scale": 1e-9, "of": "clients"}

    def draw(lines: pd.DataFrame, ax: Axes) -> Axes:
        return cdf.cdf_lines(lines, ax, log=far_apart(mine.merge(lines[list(SYSTEM)].drop_duplicates())), **shown)

    return estimates.by_system(points, draw, note=of_clients(mine), conditions=answer.conditions)


def pairs_of_drivers(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Each two drivers of a system compared by Mann and Whitney's test, with Holm's correction and Cliff's delta.

    As tests.pairwise, with backend, workload, pairs and measure (of COMPARED) before. Systems in which no test is
    possible are left out: Kruskal and Wallis's says why.
    """
    tested = (*SYSTEM, "pairs")
    parts = [pd.DataFrame(columns=[*tested, "measure"])]
    for names, system in repetitions.groupby(list(tested), sort=True):
        for column in COMPARED:
            try:
                found = tests.pairwise(system, column, "driver")
            except AnalysisError:
                continue
            cell = dict(zip(tested, names, strict=True)) | {"measure": column}
            parts.append(pd.concat([pd.DataFrame(cell, index=found.index), found], axis=1))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _fairness_values(answer: Answer, found: Values) -> None:
    r"""<system>/<driver>/<min, max, ratio or jain>-gap where a client got nothing; <system>/<first>-<second>/jain-p,
    jain-delta, min-max-p, min-max-delta: of two drivers, p after Holm; c/bridge/min, max; c/<driver>/ratio: as Boeira
    et al. 2021 state them at 50 pairs; e/all/min, max: as Boeira and Ferreto do.
    """
    for name in _FAIR:
        for cell in answer[name][answer[name]["gap"] != ""].itertuples():
            found.text(f"{key_of(cell, 'system', 'driver')}/{name}-gap", cell.gap)
    for row in answer["pairs"].itertuples():
        key = f"{row.backend}-{row.workload}/{row.first}-{row.second}/{COMPARED[row.measure][1]}"
        found.text(f"{key}-p", p_text(row.p_holm))
        found.number(f"{key}-delta", row.delta, 2)
    for row in published.load("fairness").itertuples():
        for what, rate in (("min", row.low_bps), ("max", row.high_bps)):
            if rate == rate:
                found.number(f"{row.paper.lower()}/{row.driver}/{what}", rate / 1e9, 1, "Gbit/s")
    for driver, ratio in published_ratios().items():
        found.text(f"c/{driver}/ratio", ratio)


def published_ratios() -> dict[str, str]:
    """Max/min of Boeira et al. 2021, figure 3: from low and high, else the bound that it gives for all drivers."""
    stated = published.load("fairness").query("paper == 'C' and pairs == 50").set_index("driver")
    found = dict.fromkeys(published.load("throughput")["driver"], f"≤ {stated.loc['all', 'most_over_least']:g}")
    exact = (stated["high_bps"] / stated["low_bps"]).dropna()
    return found | {driver: f"{ratio:.1f}" for driver, ratio in exact.items()}


FAIRNESS = Question(
    topic="fairness",
    experiment="throughput",
    quantities=("least_bps", "most_bps", "most_over_least", "least_over_most", "jain_index"),
    words={
        "compared": (("measure",), lambda name: COMPARED[name][0]),
        "drivers": (("first", "second"), "{} – {}".format),
    },
    estimates={
        **{name: Mean(measure, column, rows=_looked_at) for name, (measure, column) in _FAIR.items()},
        "by pairs": Mean(*_FAIR["jain"]),
        **{f"{key} differs": Differ(column, shown=_at_pairs, p=f"{key}-p") for column, (_, key) in COMPARED.items()},
        "pairs": Frame(lambda answer: pairs_of_drivers(_looked_at(answer))),
    },
    tables={
        "fairness": Table(
            {"driver": "Driver", "pairs": "Pairs"},
            [
                *_FAIR,
                Column("Paper C, 50 pairs", "jain", lambda cell: published_ratios().get(cell.driver, MISSING)),
            ],
            remarks="jain",
        ),
        "fairness-drivers": Table(
            {"compared": "Measure", "drivers": "Drivers"},
            [
                Column("Median difference", "pairs", lambda row: f"{row.difference:+.3f}"),
                Column(
                    *("Cliff's delta", "pairs"),
                    lambda row: with_interval(row.delta, row.delta_low, row.delta_high, 2),
                ),
                p_values("pairs"),
                Column("n", "pairs", lambda row: f"{row.n_first}, {row.n_second}"),
            ],
            lambda answer: {name: [*dict.fromkeys(answer["pairs"].get(name, ()))] for name in ("compared", "drivers")},
        ),
    },
    figures={
        "fairness-cdf": _clients_cdf,
        "fairness-jain": lambda answer: answer.panels(estimates.by_number, "by pairs"),
    },
    keys={
        **dict.fromkeys(_FAIR, ("system", "driver")),
        "jain differs": ("system",),
        "min-max differs": ("system",),
    },
    main=("jain",),
    values=_fairness_values,
    answer=[extremes("jain", "Jain's index")],
)


# --- the CPU beside the throughput: is it the bottleneck, and what does a gigabyte cost?

#: A CPU is saturated, as in claims.yaml, where at least this share of its time is neither idle nor waiting for a disk.
SATURATED = 0.9
_USE = {
    "total_bps": TOTAL,
    "busy": Quantity("Busy (%)", "busy", 1, 100, "%"),
    "usr": Quantity("User (%)", "usr", 1, 100, "%"),
    "sys": Quantity("System (%)", "sys", 1, 100, "%"),
    "softirq": Quantity("Softirq (%)", "softirq", 1, 100, "%"),
    "host_s_per_gb": Quantity("Host (CPU s/GB)", "host-cost", 3, unit="CPU s/GB"),
    "processes_s_per_gb": Quantity("Processes (CPU s/GB)", "processes-cost", 3, unit="CPU s/GB"),
}
_NO_SAMPLES = "no run has samples of the CPU throughout"
_PARTS = {part: Quantity(f"{part} (%)", part, 1, 100, "%") for part in PARTS if part not in _USE}


def others(runs: Runs) -> str:
    """How much of the CPU time others had, in words: it is in the host's use, and in no cost."""
    shares = [run.checks.get("foreign_cpu") for run in runs if run.status == "ok"]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return "other processes' use not recorded"
    return f"other processes: at most {max(known) * 100:.1f} % of the CPU time"


def saturation(busy: pd.DataFrame) -> pd.DataFrame:
    """From how many pairs on the CPU is saturated: one row per system and driver.

    busy: estimates. Returns SYSTEM, driver, from_pairs (the least pair count from which on every mean is at or above
    SATURATED; NaN where even the most pairs are below), sure_from_pairs (the same with every interval wholly at or
    above it), most_pairs and busy (the mean there).
    """
    rows = []
    for names, line in busy.sort_values("pairs").groupby([*SYSTEM, "driver"], sort=True):
        from_pairs, sure_from_pairs = (_from(line, bound) for bound in ("value", "low"))
        rows.append([*names, from_pairs, sure_from_pairs, int(line["pairs"].iloc[-1]), line["value"].iloc[-1]])
    return pd.DataFrame(rows, columns=[*SYSTEM, "driver", "from_pairs", "sure_from_pairs", "most_pairs", "busy"])


def _from(line: pd.DataFrame, bound: str) -> float:
    """The least pair count from which on all are SATURATED; line is in the order of pairs."""
    from_here_on = line[bound].ge(SATURATED)[::-1].cummin()[::-1]
    return float(line["pairs"][from_here_on].min())


def _pairs_text(pairs: float) -> str:
    return f"{pairs:.0f}" if pairs == pairs else "never"


def _saturation_table(answer: Answer) -> pd.DataFrame:
    """From how many pairs on the CPU is saturated, and what a gigabyte costs at the most pairs."""
    names, saturated = ("system", "driver"), answer["saturation"]
    columns: dict[Hashable, Texts] = {
        "Saturated from (pairs)": texts(saturated, names, lambda row: _pairs_text(row.from_pairs)),
        "Whole interval from (pairs)": texts(saturated, names, lambda row: _pairs_text(row.sure_from_pairs)),
        "Most pairs": texts(saturated, names, lambda row: str(row.most_pairs)),
    }
    at_most = saturated[[*SYSTEM, "driver"]].assign(pairs=saturated["most_pairs"])
    for name in ("busy", "host_s_per_gb", "processes_s_per_gb"):
        columns[_USE[name].title] = _USE[name].texts(answer[name].merge(at_most, on=list(CELL)), *names)
    return tabulate({"system": "System", "driver": "Driver"}, columns)


def _beside_throughput(answer: Answer) -> Figure | None:
    """Total throughput above, the CPU's busy share with a thin line at SATURATED below, a column per system."""
    if not answer["busy"]["value"].notna().any():
        return None

    def busy_by_pairs(busy: pd.DataFrame, ax: Axes) -> Axes:
        ax = estimates.by_number(busy, ax, measure=_USE["busy"], label="CPU busy (%)", level=100 * SATURATED)
        ax.set_ylim(0, 105)
        return ax

    total = partial(estimates.by_number, measure=TOTAL, label=TOTAL_LABEL)
    rows: list[Any] = [
        (answer["total_bps"], total),
        (answer["busy"], busy_by_pairs),
    ]
    return estimates.above_each_other(rows, conditions=_measured(answer))


def _parts_by_pairs(answer: Answer) -> Figure | None:
    """What the CPU's time is spent on by pairs, stacked to 100 %: a row per system, a panel per driver."""
    if not answer["busy"]["value"].notna().any():
        return None
    parts = pd.concat([answer[part].assign(part=part) for part in PARTS])
    shown = {part: style.CPU_COLOURS[part] for part in PARTS if answer[part]["value"].max() >= 0.005}

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        pairs = sorted(panel["pairs"].unique())
        drawn = panel[panel["part"].isin(shown)]
        estimates.stacked(ax, drawn, bar="pairs", part="part", order=pairs, colours=shown, scale=100)
        ax.set_xticks(range(len(pairs)), pairs)
        ax.tick_params(axis="x", length=0)
        ax.set(xlim=(-0.6, len(pairs) - 0.4), ylim=(0, 100), xlabel="Pairs", ylabel="CPU time (%)")
        return ax

    note = f"mean of n = {span(parts['n'])} repetitions, of all CPUs over the measuring window"
    layout: dict[str, Any] = {"note": note, "conditions": _measured(answer), "handles": grid.patches(shown)}
    return grid.facets(parts, draw, column="driver", order=ordered(parts["driver"]), **layout)


def _measured(answer: Answer) -> grid.Conditions:
    return lambda drawn: grid.with_conditions(answer.conditions(drawn), others(answer.found))


def _cpu_values(answer: Answer, found: Values) -> None:
    r"""level: the share from which on a CPU is called saturated; <system>/<driver>/saturated-from, surely-from: a pair
    count, or "never"; <system>/<driver>/most: busy at the most pairs; <system>/least-busy, most-busy: of the drivers.
    """
    if not answer.gap and answer["busy"]["value"].isna().all():
        found.text("missing", _NO_SAMPLES)
    found.text("level", f"{100 * SATURATED:g} %")
    for row in answer["saturation"].itertuples():
        key = key_of(row, "system", "driver")
        found.text(f"{key}/saturated-from", _pairs_text(row.from_pairs))
        found.text(f"{key}/surely-from", _pairs_text(row.sure_from_pairs))
        if row.busy == row.busy:
            found.text(f"{key}/most", f"{100 * row.busy:.1f} %")
    for system, part in systems(answer["saturation"].dropna(subset=["busy"])).items():
        found.text(f"{system}/least-busy", f"{100 * part['busy'].min():.1f} %")
        found.text(f"{system}/most-busy", f"{100 * part['busy'].max():.1f} %")


def _saturated_text(part: pd.DataFrame) -> str:
    known = part["from_pairs"].dropna()
    if part["busy"].isna().all():
        return ""
    some = f"saturated with {len(known)} of {len(part)} drivers"
    return f"saturated from {span(known)} pairs on" if len(known) == len(part) else some


CPU = Question(
    topic="cpu",
    experiment="throughput",
    quantities=("total_bps", "busy", *PARTS, "host_s_per_gb", "processes_s_per_gb"),
    estimates={
        **{name: Mean(measure, name) for name, measure in (_USE | _PARTS).items()},
        "saturation": Frame(lambda answer: saturation(answer["busy"])),
    },
    tables={
        "cpu": Table({"pairs": "Pairs", "driver": "Driver"}, list(_USE), remarks="busy"),
        "cpu-saturation": Made(_saturation_table, split=False),
    },
    figures={"cpu-busy": _beside_throughput, "cpu-parts": _parts_by_pairs},
    main=("busy",),
    values=_cpu_values,
    absent=dict.fromkeys(("cpu-busy", "cpu-parts"), lambda answer: _NO_SAMPLES),
    answer=[per_system("saturation", _saturated_text), extremes("host_s_per_gb", "CPU time per gigabyte")],
)
