"""Traffic as of a data centre from three servers to one client: completion times, and how long all of it takes."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import allocations, by_group, flow_parts, published
from pairlab.analysis.output.formatting import MISSING, percentile_name
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Column, Frame, Mean, Question, Table, p_values
from pairlab.analysis.questions.allocations import AGAINST_HOST, host_of
from pairlab.analysis.questions.fct import cdf_figure, in_ms, percentile_columns
from pairlab.analysis.repetitions import FACTORS, Factor
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import changes
from pairlab.model import fct
from pairlab.store.dataset import Runs

BY = (*CELL, "load")
QS = (0.1, 0.5, 0.9, 0.99)
#: The flows of which percentiles are taken: all, or the share of them that is smallest, as of Mentz et al. 2020.
SHARES = {"all": 1.0, "smallest fifth": 0.2}
RUN_TIME = Quantity("All flows (s)", "run-time", 2, unit="s")
#: Of the paper's loads in bit/s.
LOADS = {1e9: "standard", 3e9: "heavy"}
#: How long a flow took from its start, and from when it was due; at an offered load the latter counts (fct.column).
TIMES = ("fct_s", "intended_fct_s")
#: What BY is made of, as the runs have it.
_OF_RUNS = (*CELL, "offered_load_bps", "may_fall_behind")


def load_text(offered_load_bps: float, may_fall_behind: bool = False) -> str:
    """The load that was offered: "1 Gbit/s", or "closed loop" where the next request waits for the one before.

    may_fall_behind: as of Spec; such runs may have carried less, and are apart from those that carried it.
    """
    if not offered_load_bps:
        return "closed loop"
    return f"{offered_load_bps / 1e9:g} Gbit/s{' or what is carried' if may_fall_behind else ''}"


def percentiles(runs: Runs, confidence: float) -> pd.DataFrame:
    """Of the completion times of all flows and of the smallest, as ByGroup.percentiles, with a column sizes."""
    work = partial(_percentiles, confidence=confidence)
    found = flow_parts.reduced(work, runs, _OF_RUNS, ["size_bytes", *TIMES])
    return found.sort_values("sizes", kind="stable", ignore_index=True)


@flow_parts.in_parts(_OF_RUNS, TIMES)
def cdfs(flows: pd.DataFrame) -> pd.DataFrame:
    """The CDF of the completion times of each of BY and of each of its repetitions, as ByGroup.cdf."""
    return by_group.of(_with_load(flows), BY, "fct_s").cdf(points=200, each=True)


def _percentiles(flows: pd.DataFrame, confidence: float) -> pd.DataFrame:
    parts, flows = [], _with_load(flows)
    for sizes, share in SHARES.items():
        mine = flows if share == 1 else _smallest(flows, share)
        parts.append(by_group.of(mine, BY, "fct_s").percentiles(QS, confidence=confidence).assign(sizes=sizes))
    return pd.concat(parts, ignore_index=True)


def _with_load(flows: pd.DataFrame) -> pd.DataFrame:
    is_due = flows["offered_load_bps"].astype(float) > 0
    flows = flows.assign(fct_s=flows["intended_fct_s"].where(is_due, flows["fct_s"]))
    parts = flows.groupby(["offered_load_bps", "may_fall_behind"], observed=True).ngroup()
    asked = flows[["offered_load_bps", "may_fall_behind"]].drop_duplicates().assign(part=parts)
    named = {row.part: load_text(float(row.offered_load_bps), bool(row.may_fall_behind)) for row in asked.itertuples()}
    return flows.drop(columns=["offered_load_bps", "may_fall_behind"]).assign(load=parts.map(named).astype("category"))


def _smallest(flows: pd.DataFrame, share: float) -> pd.DataFrame:
    """Of each repetition of a cell the flows whose size is at most that of this share of them (fct.smallest)."""
    parts = [fct.smallest(part, share) for _, part in flows.groupby([*BY, "repetition"], observed=True)]
    return pd.concat(parts) if parts else flows


def _stated(row: Any) -> str:
    driver, stated = allocations.STANDS_FOR.get(row.driver, row.driver), published.load("run_times")
    names = {load_text(load, behind): name for load, name in LOADS.items() for behind in (False, True)}
    load = names.get(row.load)
    mine = stated[(stated["load"] == load) & (stated["driver"] == driver) & (stated["against"] == "host")]
    return f"{mine['change_percent'].iloc[0]:+g}" if len(mine) else MISSING


def _cdf(answer: Answer) -> Figure | None:
    if not answer["percentiles"]["value"].notna().any():
        return None
    return cdf_figure(answer, cdfs(answer.found), across="load")


def _values(answer: Answer, found: Values) -> None:
    """m/<standard or heavy>/<driver>/over-<other>: what Mentz et al. 2020 state."""
    for row in published.load("run_times").itertuples():
        found.text(f"m/{row.load}/{row.driver}/over-{row.against}", f"{row.change_percent:+g} %")


_HEADS = {"load": "Load", "driver": "Driver"}

DC_SIMULATION = Question(
    topic="dc-simulation",
    by=[
        Factor("load", lambda run: load_text(run.spec.offered_load_bps, run.spec.may_fall_behind)),
        FACTORS["known_as"],
    ],
    quantities=("fct_all_s", "total_bps"),
    alike=False,
    words={"percentile": (("q",), in_ms), "system_text": (SYSTEM, "{}, {}".format)},
    estimates={
        "run time": Mean(RUN_TIME, "fct_all_s", by=BY),
        "carried": Mean(Quantity("Carried (Gbit/s)", "carried", 3, 1e-9, "Gbit/s"), "total_bps", by=BY),
        "to host": Change(
            *(AGAINST_HOST, "fct_all_s", "driver", lambda rows: host_of(rows) or "host"),
            each=SYSTEM,
            by=tuple(name for name in BY if name != "driver"),
        ),
        "percentiles": Frame(
            lambda answer: percentiles(answer.found, answer.confidence),
            *(Quantity("Completion time (ms)", "", 3, 1e3, "ms"), lambda row: percentile_name(row.q)),
        ),
    },
    tables={
        "dc-simulation-run-time": Table(
            _HEADS,
            ["run time", "carried", "to host", p_values("to host"), Column("Paper M (%)", "to host", _stated)],
            remarks="run time",
        ),
        "dc-simulation-fct": Table({"load": "Load", "sizes": "Flows", "driver": "Driver"}, [percentile_columns(QS)]),
    },
    figures={"dc-simulation-fct": _cdf},
    keys={
        **dict.fromkeys(("run time", "carried", "to host"), ("system", "driver", "load")),
        "percentiles": ("system", "driver", "load", "sizes"),
    },
    values=_values,
    answer=[changes("to host", "All flows take against the host's own network", "driver")],
)
