"""Flow completion times: percentiles, their changes, whole distributions compared, and where the time goes.

Times are in seconds from a flow's actual start unless `value` says otherwise; a failed flow took longer than any other
(model.fct), and is counted beside them.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import by_group, flow_changes, flow_parts, published
from pairlab.analysis.cell_estimates import at_pairs
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import cdf, heat
from pairlab.analysis.flow_changes import CHANGED_QS, EXACT, PUBLISHED_STEP
from pairlab.analysis.flow_parts import in_parts
from pairlab.analysis.output.formatting import MISSING, percentile_name, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, across, key_of, tabulate
from pairlab.analysis.question import Across, Answer, Column, Frame, Made, Question, Table, p_values
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import changes, extremes
from pairlab.errors import TooFewSamples
from pairlab.store.dataset import Runs

#: The percentiles that are reported.
QS = (0.5, 0.9, 0.95, 0.99, 0.999)
TIME = Quantity("Flow completion time (ms)", "", 1, 1e3, "ms")
CHANGE = Quantity("Change (%)", "", 1, unit="%", change=True)
#: The parts of a flow's time as flowgen reports them: name, and the columns between which it lies.
PHASES = {
    "connect": ("start_s", "connected_s"),
    "first byte": ("connected_s", "first_byte_s"),
    "rest": ("first_byte_s", "completed_s"),
}


# --- estimates of flows, which are read in parts


def percentiles(flows: pd.DataFrame | Runs, value: str = "fct_s", confidence: float = 0.95) -> pd.DataFrame:
    """The percentiles QS of each cell, with cluster-bootstrap intervals: those of by_group, by CELL."""
    return flow_parts.reduced(partial(_percentiles, value=value, confidence=confidence), flows, CELL)


def _percentiles(flows: pd.DataFrame | Runs, value: str, confidence: float) -> pd.DataFrame:
    return by_group.of(flows, CELL, value).percentiles(QS, confidence=confidence)


def percentiles_and_cdfs(
    flows: pd.DataFrame | Runs, confidence: float = 0.95, points: int = 200
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The percentiles of the completion times, as above, and the CDF of each cell and repetition, as ByGroup.cdf.

    The second has no rows where no flow was complete. Flows are read and sorted once for both.
    """
    work = partial(_percentiles_and_cdfs, confidence=confidence, points=points)
    cells, lines = zip(*flow_parts.each(work, flows, CELL), strict=True)
    return flow_parts.joined(cells), flow_parts.joined(lines)


def _percentiles_and_cdfs(
    flows: pd.DataFrame | Runs, confidence: float, points: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    groups = by_group.of(flows, CELL, "fct_s")
    try:
        lines = groups.cdf(points=points, each=True)
    except TooFewSamples:
        lines = pd.DataFrame(columns=[*CELL, "value", "share"])
    return groups.percentiles(QS, confidence=confidence), lines


@in_parts(CELL, [*dict.fromkeys(itertools.chain(*PHASES.values())), "fct_s"])
def phases(flows: pd.DataFrame) -> pd.DataFrame:
    """The median time that each of PHASES takes in each cell, in s: columns of CELL and the names of PHASES.

    Only flows whose tool reports all of them count, and only cells that have such flows have a row. Medians of parts
    do not add up to the median of the whole, which is the column "all".
    """
    parts = pd.DataFrame({name: flows[end] - flows[begin] for name, (begin, end) in PHASES.items()}, index=flows.index)
    known = pd.concat([flows[list(CELL)], parts.astype(float), flows["fct_s"].astype(float).rename("all")], axis=1)
    medians = known.dropna().groupby(list(CELL), sort=True, observed=True).median().reset_index()
    categories = medians.select_dtypes("category")
    return medians.astype({name: column.cat.categories.dtype for name, column in categories.items()})


@in_parts(CELL, ["error"])
def failures(flows: pd.DataFrame) -> pd.DataFrame:
    """How many flows of each cell failed, and the reasons: columns of CELL, flows, failed_flows, errors."""
    rows = []
    for names, cell in flows.groupby(list(CELL), sort=True, observed=True):
        bad = cell[cell["status"] != "ok"]
        rows.append([*names, len(cell), len(bad), "; ".join(sorted(set(bad["error"])))])
    return pd.DataFrame(rows, columns=[*CELL, "flows", "failed_flows", "errors"])


def _waits(answer: Answer) -> pd.DataFrame:
    """How long clients waited, in s: the median from the intended start less that from the actual one."""
    early, late = (answer[name].query("q == 0.5").set_index([*CELL])["value"] for name in ("percentiles", "intended"))
    return (late - early).dropna().reset_index().assign(low=np.nan, high=np.nan)


def stated_changes() -> dict[str, float]:
    """The change of the p99 from 10 to 50 pairs by driver, in percent, as Boeira et al. 2021 state it."""
    return published.load("fct_changes").set_index("driver")["change_percent"].to_dict()


# --- tables and figures


def in_ms(q: float) -> str:
    """A percentile as the head of a column."""
    return f"{percentile_name(q)} (ms)"


def percentile_columns(qs: Sequence[float]) -> Across:
    """A column for each of these percentiles, of a question whose words name them by in_ms."""
    return Across("percentiles", "percentile", lambda answer: [in_ms(q) for q in qs])


FAILED = Column("Failed", "percentiles", lambda cell: f"{cell.failed_flows} of {cell.flows}")


def _steps(answer: Answer) -> list[tuple[str, str]]:
    return list(dict.fromkeys(answer["by pairs"].sort_values(["before_pairs", "after_pairs", "q"])["head"]))


def stated_text(row: Any) -> str:
    """What Boeira et al. 2021 state of the p99 of a driver from 10 to 50 pairs, in percent."""
    stated = stated_changes().get(row.driver)
    return MISSING if stated is None else f"{stated:+.1f}"


def _against_bridge(q: float) -> str:
    return f"{percentile_name(q)} against bridge (%)"


def _distance(row: Any) -> str:
    return f"{row.distance:.2f}" if row.distance == row.distance else MISSING


def _tool_table(answer: Answer) -> pd.DataFrame:
    """How far the median of the other tools lies from flowgen's, in percent: a row per backend, tool and pair count."""
    beside = answer["tools"]
    shown = CHANGE.texts(beside[beside["q"] == 0.5], "backend", "workload", "pairs", "driver")
    return tabulate({"backend": "Backend", "workload": "Tool", "pairs": "Pairs"}, across(shown))


def _by_phase(answer: Answer) -> pd.DataFrame:
    """A row per cell and phase: CELL, phase, value."""
    rows = answer["phases"].melt(list(CELL), list(PHASES), "phase", "value")
    return rows.assign(low=np.nan, high=np.nan, column=list(zip(rows["driver"], rows["phase"], strict=True)))


def _phase_columns(answer: Answer) -> list[tuple[str, str]]:
    return [(driver, phase) for driver in ordered(answer["by phase"]["driver"]) for phase in PHASES]


def cdf_figure(answer: Answer, points: pd.DataFrame, **layout: Any) -> Figure | None:
    """CDFs of completion times (cdf.cdf_panels); none where no flow was complete."""
    shown: dict[str, Any] = {"label": "Flow completion time (ms)", "scale": 1e3, "log": True}
    return cdf.cdf_panels(points, conditions=answer.conditions, **shown, **layout) if len(points) else None


def _change_map(answer: Answer) -> Figure | None:
    found = answer["by pairs"].sort_values([*SYSTEM, "q", "before_pairs", "after_pairs"])
    if not found["value"].notna().any():
        return None
    panels = [f"{row.backend}, {row.workload}: {percentile_name(row.q)}" for row in found.itertuples()]
    steps = [f"{row.before_pairs} to {row.after_pairs}" for row in found.itertuples()]
    named = found.assign(panel=panels, step=steps)
    return heat.change_maps(named, panel="panel", column="step", name="Pairs", conditions=answer.conditions)


# --- numbers


def _values(answer: Answer, found: Values) -> None:
    r"""The list exact (the systems whose tables the paper shows: those of the exact tool; of a backend without it,
    all), and

    - flow-size (MB), failed, flows; <system>/<driver>/<few>-<many>/p50, p99: change in percent;
    - <system>/shown/pairs: 50 where measured, else the most; shown/fastest and slowest: /driver and /p50 there;
    - <system>/largest-lead: by how much the intended-start median exceeds the actual-start one at most (ms);
    - <system>/differ, compared, undecidable: of the tests between drivers, how many find a difference (p after Holm
      at most 0.05), how many there are, and how many, if any, have too few repetitions to find one;
    - steps, compared-tools, split: how many rows those three tables rest on, if any;
    - tools/<backend>-<tool>/least, most: how far its medians lie from flowgen's, in percent;
    - <system>/<driver>/<pairs>/connect, first-byte, rest: medians of parts (ms);
    - c/<driver>/<pairs>/p99, c/<driver>/10-50/p99: as Boeira et al. 2021 state them;
    - e/<pairs>/least, most: as Boeira and Ferreto do.
    """
    cells, by_pairs, beside = answer["percentiles"], answer["by pairs"], answer["tools"]
    medians = answer["median"]
    has_exact = (cells["workload"] == EXACT).groupby(cells["backend"]).transform("any").astype(bool)
    found.names("exact", list(systems(cells[(cells["workload"] == EXACT) | ~has_exact])))
    if sizes := sorted({run.spec.flow_bytes for run in answer.found if run.status == "ok"}):
        found.text("flow-size", ", ".join(f"{size / 1e6:g}" for size in sizes) + " MB")
        found.number("flows", medians["flows"].sum(), 0)
        found.number("failed", medians["failed_flows"].sum(), 0)
    for system, part in systems(answer["distributions"]).items():
        found.number(f"{system}/compared", len(part), 0)
        found.number(f"{system}/differ", (part["p_holm"] <= 0.05).sum(), 0)
        if undecidable := (~(part["least_p"] <= 0.05)).sum():
            found.number(f"{system}/undecidable", undecidable, 0)
    for system, part in systems(at_pairs(medians.dropna(subset=["value"]), PUBLISHED_STEP[-1])).items():
        found.number(f"{system}/shown/pairs", part["pairs"].iloc[0], 0)
        for rank, at in (("fastest", part["value"].idxmin()), ("slowest", part["value"].idxmax())):
            found.text(f"{system}/shown/{rank}/driver", part.loc[at, "driver"])
            TIME.put_one(found, f"{system}/shown/{rank}/p50", part.loc[at])
    for system, part in systems(answer["waits"]).items():
        found.text(f"{system}/largest-lead", f"{part['value'].max() * 1e3:.2f} ms")
    for key, frame in (("steps", by_pairs), ("compared-tools", beside), ("split", answer["phases"])):
        if len(frame):
            found.number(key, len(frame), 0)
    for (backend, tool), part in beside[beside["q"] == 0.5].dropna(subset=["value"]).groupby(["backend", "workload"]):
        for name, at in (("least", part["value"].min()), ("most", part["value"].max())):
            found.text(f"tools/{backend}-{tool}/{name}", f"{at:+.1f} %")
    for row in answer["by phase"].itertuples():
        text = next(iter(TIME.texts(pd.DataFrame([row]), "driver").values()))
        found.text(key_of(row, "system", "driver", "pairs", "phase"), f"{text} ms")
    for cell in published.load("fct").itertuples():
        found.number(f"c/{cell.driver}/{cell.pairs}/{percentile_name(cell.quantile)}", cell.fct_s * 1e3, 1, "ms")
    for driver, step in stated_changes().items():
        found.text(f"c/{driver}/10-50/p99", f"{step:+.1f} %")
    for row in published.load("fct_ranges").query("paper == 'E' and experiment == 'fct'").itertuples():
        for what, bound in (("least", row.low_s), ("most", row.high_s)):
            if bound == bound:
                found.text(f"e/{row.pairs:.0f}/{what}", f"{bound:g} s")


def _both(answer: Answer) -> tuple[pd.DataFrame, pd.DataFrame]:
    return percentiles_and_cdfs(answer.found, answer.confidence)


def _changes(work: Callable[..., pd.DataFrame], answer: Answer) -> pd.DataFrame:
    return work(answer.found, confidence=answer.confidence)


def by_percentile(form: str = "{}") -> Any:
    """The last part of the keys of estimates of percentiles."""
    return lambda row: form.format(percentile_name(row.q))


FCT = Question(
    topic="fct",
    estimates={
        "percentiles": Frame(lambda answer: answer.once(_both)[0], TIME, by_percentile()),
        "median": Frame(lambda answer: answer["percentiles"][answer["percentiles"]["q"] == 0.5], TIME),
        "cdf": Frame(lambda answer: answer.once(_both)[1]),
        "failures": Frame(lambda answer: failures(answer.found)),
        "intended": Frame(
            lambda answer: percentiles(answer.found, "intended_fct_s", answer.confidence),
            *(TIME, by_percentile("intended-{}")),
        ),
        "by pairs": Frame(partial(_changes, flow_changes.by_pairs), CHANGE, by_percentile()),
        "by driver": Frame(partial(_changes, flow_changes.by_driver), CHANGE, by_percentile("{}-over-bridge")),
        "distributions": Frame(lambda answer: flow_changes.distributions(answer.found)),
        "beside bridge": Frame(
            lambda answer: answer["distributions"].query("first == 'bridge'").rename(columns={"second": "driver"})
        ),
        "tools": Frame(partial(_changes, flow_changes.by_workload), CHANGE),
        "phases": Frame(lambda answer: phases(answer.found)),
        "by phase": Frame(_by_phase, TIME),
        "waits": Frame(_waits, Quantity("Wait (ms)", "wait", 2, 1e3)),
    },
    words={
        "step": (("before_pairs", "after_pairs"), "{}-{}".format),
        "head": (
            ("before_pairs", "after_pairs", "q"),
            lambda few, many, q: (f"{few} to {many} pairs (%)", percentile_name(q)),
        ),
        "percentile": (("q",), in_ms),
        "against_bridge": (("q",), _against_bridge),
    },
    tables={
        "fct-percentiles": Table(
            {"pairs": "Pairs", "driver": "Driver"}, [percentile_columns(QS), FAILED], remarks="median"
        ),
        "fct-change": Table(
            {"driver": "Driver"},
            [Across("by pairs", "head", _steps), Column(("Paper C, 10 to 50", "p99"), "by pairs", stated_text)],
            split=False,
        ),
        "fct-drivers": Table(
            {"pairs": "Pairs", "driver": "Driver"},
            [
                Across("by driver", "against_bridge", lambda answer: [_against_bridge(q) for q in CHANGED_QS]),
                Column("Distance", "beside bridge", _distance),
                *(p_values("beside bridge"), p_values("beside bridge", "least p", "least_p")),
            ],
        ),
        "fct-tools": Made(_tool_table, split=False, estimates=["tools"]),
        "fct-phases": Table({"pairs": "Pairs"}, [Across("by phase", "column", _phase_columns)], split=False),
        "fct-waits": Table({"pairs": "Pairs"}, [Across("waits", "driver")], file=False),
    },
    figures={"fct-cdf-log": lambda answer: cdf_figure(answer, answer["cdf"]), "fct-changes": _change_map},
    keys={
        **dict.fromkeys(("percentiles", "intended", "by driver"), ("system", "driver", "pairs")),
        "by pairs": ("system", "driver", "step"),
    },
    main=("median",),
    values=_values,
    absent={
        "fct-change": lambda answer: "there are not two pair counts",
        "fct-drivers": lambda answer: "there is no other driver beside bridge",
        "fct-tools": lambda answer: "there are not two tools",
        "fct-phases": lambda answer: "no tool reports the parts of a flow's time",
    },
    answer=[
        extremes("median", "median completion time"),
        changes("by driver", "Completion times against bridge, median and p99 over all pair counts"),
    ],
)
