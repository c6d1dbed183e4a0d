"""Containers and the cores that they share: by their number for each core, and bound to one or free."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import published
from pairlab.analysis.figures import estimates
from pairlab.analysis.output.formatting import MISSING, slug, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Column, Differ, Mean, Question, Table, p_values
from pairlab.analysis.questions.throughput import CLIENT, TOTAL, TOTAL_LABEL
from pairlab.analysis.repetitions import FACTORS, Factor
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import changes, extremes

# --- containers per core: Boeira et al. 2021, figures 7 and 8

#: Not a container network: the baseline is no part of the gap between drivers.
BASELINE = "host"
_OF_CLIENT, _OF_FCT = "client_bps", "fct_mean_s"


def bulk(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Those whose flows run for the whole time."""
    return repetitions[~repetitions["ends"].astype(bool)]


def ending(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Those whose flows have an end."""
    return repetitions[repetitions["ends"].astype(bool)]


def places(frame: pd.DataFrame) -> list[str]:
    """All places, by ratio and then by pairs: one ratio can come about in several ways, and these are not pooled."""
    return list(frame.sort_values(["ratio", "pairs"])["place"].drop_duplicates())


def _least(system: pd.DataFrame) -> str:
    return places(system)[0]


def gaps(repetitions: pd.DataFrame, value: str) -> pd.DataFrame:
    """How many times the least driver's `value` the largest driver's is, in each repetition of each cell.

    Only container networks count, and only repetitions that have all of the system's; of a single one there is no
    gap. Being a largest over a least it is above 1 by chance alone: compare it between ratios, not with 1. Returns
    SYSTEM, pairs, cores, ratio, place, repetition, gap_times. Source: Boeira et al. 2021, section III-B.
    """
    by = ["pairs", "cores", "ratio", "place", "repetition"]
    rows = []
    networks = repetitions[repetitions["driver"] != BASELINE]
    for names, system in networks.groupby(list(SYSTEM), sort=True):
        drivers = system["driver"].nunique()
        for cell, group in system.groupby(by, sort=True):
            rates = group[value].to_numpy(dtype=float)
            if drivers > 1 and len(rates) == drivers:
                with np.errstate(divide="ignore", invalid="ignore"):
                    rows.append([*names, *cell, rates.max() / rates.min()])
    return pd.DataFrame(rows, columns=[*SYSTEM, *by, "gap_times"])


def _client_gaps(answer: Answer) -> pd.DataFrame:
    return gaps(bulk(answer.repetitions), _OF_CLIENT)


def _fct_gaps(answer: Answer) -> pd.DataFrame:
    return gaps(ending(answer.repetitions), _OF_FCT)


def _in_figure(answer: Answer, name: str, **options: Any) -> Figure | None:
    axis: dict[str, Any] = {
        "category": "place",
        "order": (order := places(answer[name])),
        "ticks": [place.replace("\n", "\n(") + ")" for place in order],
        "name": "Containers per core (below: pairs/cores)",
    }
    return answer.panels(estimates.by_category, name, **axis, **options)


def _setting(place: str) -> str:
    """A place as a part of keys: "10\n10/2" as 10-10p-2c."""
    ratio, pairs, cores = place.replace("\n", "/").split("/")
    return f"{slug(ratio)}-{pairs}p-{cores}c"


def _ratio_values(answer: Answer, found: Values) -> None:
    """<system>/ratios: those measured, as text; missing: the kind of flows that no run has."""
    for system, part in systems(pd.concat([answer["client"], answer["fct"]])).items():
        found.text(f"{system}/ratios", ", ".join(f"{ratio:g}" for ratio in sorted(part["ratio"].unique())))
    if missing := missing_kinds(answer):
        found.text("missing", "; ".join(missing))


def missing_kinds(answer: Answer) -> list[str]:
    """Why there is nothing of one kind of flows; empty where both were measured, or none was."""
    reasons = {
        "no run of 'core-ratio' has flows that run for the whole time (flow_bytes 0): no throughput": "client",
        "no run of 'core-ratio' has flows with an end (flow_bytes above 0): no completion times": "fct",
    }
    return [] if answer.gap else [why for why, name in reasons.items() if answer[name].empty]


_FCT_CHANGE = Quantity("Change of fct (%)", "fct-change", 1, unit="%", change=True)
_CLIENT_CHANGE = Quantity("Change of client (%)", "client-change", 1, unit="%", change=True)
_CLIENT_GAP = Quantity("Throughput (largest/least)", "client-gap", 2)
_FCT_GAP = Quantity("FCT (largest/least)", "fct-gap", 2)
_GAP = (*SYSTEM, "pairs", "cores", "ratio", "place")
_HEADS = {"driver": "Driver", "ratio": "Containers per core", "pairs": "Pairs", "cores": "Cores"}
_KEPT = ("ratio", "pairs", "cores")
_OF_SYSTEM: dict[str, Any] = {"by": SYSTEM, "each": SYSTEM, "keep": _KEPT}
_BY_SETTING, _GAP_KEYS = ("system", "driver", "setting"), ("system", "setting")

CORE_RATIO = Question(
    topic="core-ratio",
    by=[Factor("cores", FACTORS["cores_used"].of), Factor("ratio", FACTORS["containers_per_core"].of)],
    quantities=("total_bps", _OF_CLIENT, _OF_FCT),
    which=lambda spec: True,
    words={
        "place": (("ratio", "pairs", "cores"), lambda ratio, pairs, cores: f"{ratio:g}\n{pairs}/{cores:g}"),
        "setting": (("place",), _setting),
    },
    estimates={
        "client": Mean(CLIENT, _OF_CLIENT, bulk),
        "client change": Change(
            _CLIENT_CHANGE, _OF_CLIENT, "place", _least, bulk, (*SYSTEM, "driver"), each=SYSTEM, keep=_KEPT
        ),
        "total": Mean(TOTAL, "total_bps", bulk),
        "fct": Mean(Quantity("Mean FCT (ms)", "fct", 1, 1e3, "ms"), _OF_FCT, ending),
        "fct change": Change(
            _FCT_CHANGE, _OF_FCT, "place", _least, ending, (*SYSTEM, "driver"), each=SYSTEM, keep=_KEPT
        ),
        "client gap": Mean(_CLIENT_GAP, "gap_times", by=_GAP, rows=_client_gaps),
        "fct gap": Mean(_FCT_GAP, "gap_times", by=_GAP, rows=_fct_gaps),
        "client gap change": Change(
            *(_CLIENT_CHANGE._replace(title="Throughput, change (%)"), "gap_times", "place", _least),
            **{**_OF_SYSTEM, "rows": _client_gaps},
        ),
        "fct gap change": Change(
            *(_FCT_CHANGE._replace(title="FCT, change (%)"), "gap_times", "place", _least),
            **{**_OF_SYSTEM, "rows": _fct_gaps},
        ),
    },
    tables={
        "core-ratio": Table(_HEADS, ["client", "client change", "total", "fct", "fct change"]),
        "core-ratio-gap": Table(
            {name: head for name, head in _HEADS.items() if name != "driver"},
            ["client gap", "client gap change", "fct gap", "fct gap change"],
        ),
    },
    figures={
        "core-ratio-throughput": lambda answer: _in_figure(answer, "client", log_y=True, label="Per client (Gbit/s)"),
        "core-ratio-fct": lambda answer: _in_figure(answer, "fct", log_y=True),
    },
    keys={
        **dict.fromkeys(("client", "total", "fct", "client change", "fct change"), _BY_SETTING),
        **dict.fromkeys(("client gap", "fct gap"), _GAP_KEYS),
    },
    main=("client", "total", "fct"),
    values=_ratio_values,
    absent=dict.fromkeys(("core-ratio-throughput", "core-ratio-fct"), lambda answer: "; ".join(missing_kinds(answer))),
    answer=[changes("client change", "Throughput of a client against the least ratio", "driver")],
)

# --- pinning: Boeira et al. 2021, figure 9

#: What every other policy is compared with.
NONE = "none"


def order(policies: Iterable[str]) -> list[str]:
    """Each policy once: no pinning first, the others by name."""
    return sorted(set(policies), key=lambda policy: (policy != NONE, policy))


def _by_policy(answer: Answer) -> Figure | None:
    """Policies are named in two lines where they have two words."""
    policies = order(answer.repetitions["pinning"])
    ticks = ["no\npinning" if policy == NONE else policy.replace("-", "\n", 1) for policy in policies]
    axis: dict[str, Any] = {"category": "pinning", "order": policies, "ticks": ticks, "name": "Pinning"}
    return answer.panels(estimates.by_category, "total", at_pairs=True, label=TOTAL_LABEL, **axis)


def _stated(cell: Any) -> str:
    rows = published.load("pinning")
    mine = rows[(rows["driver"] == cell.driver) & (rows["policy"] == cell.pinning)]
    return f"{mine['change_percent'].iloc[0]:+.1f}" if len(mine) else MISSING


def _pinning_values(answer: Answer, found: Values) -> None:
    r"""<system>/<driver>/<policy>/total, change and p (Holm), each with its interval, where the policy is followed by
    /<pairs> in a system of several pair counts; c/<driver>/<policy>/change: as Boeira et al. 2021 state it.
    """
    for system, part in systems(answer["total"]).items():
        names = ("system", "driver", "pinning", *["pairs"] * (part["pairs"].nunique() > 1))
        for name in ("total", "change"):
            mine = systems(answer[name]).get(system)
            if mine is not None:
                answer.question.estimates[name].put(found, mine, *names)
    for cell in published.load("pinning").itertuples():
        found.text(f"c/{cell.driver}/{cell.policy}/change", f"{cell.change_percent:+.1f} %")


PINNING = Question(
    topic="pinning",
    by=["pinning"],
    which=lambda spec: True,
    estimates={
        "total": Mean(TOTAL, "total_bps"),
        "change": Change(
            Quantity("Change (%)", "change", 1, unit="%", change=True), "total_bps", "pinning", NONE, p="p"
        ),
        "differ": Differ("total_bps", "pinning", CELL),
    },
    tables={
        "pinning": Table(
            {"driver": "Driver", "pairs": "Pairs", "pinning": "Pinning"},
            ["total", "change", p_values("change"), Column("Paper C (%)", "total", _stated)],
            lambda answer: {"pinning": order(answer["total"]["pinning"])},
            remarks="total",
        )
    },
    figures={"pinning-total": _by_policy},
    keys={},
    values=_pinning_values,
    answer=[changes("change", "Total throughput against no pinning", "pinning"), extremes("total", "total throughput")],
)
