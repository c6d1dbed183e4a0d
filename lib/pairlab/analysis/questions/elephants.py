"""Elephants among mice: mice beside flows without elephants, and how far the drivers lie apart for either."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import by_group, cell_estimates
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.flow_changes import CHANGED_QS, PUBLISHED_STEP, change, clusters_of
from pairlab.analysis.output.formatting import percentile_name, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Across, Answer, Frame, Question, Table
from pairlab.analysis.questions import fct
from pairlab.analysis.selection import CELL, SYSTEM, flows_of
from pairlab.analysis.sentences import changes
from pairlab.errors import TooFewSamples
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import together

ROLES = ("mouse", "elephant")
#: The host's own network is no container network, and not part of the drivers' spread.
BASELINE = "host"
#: What Boeira et al. 2021 state for 50 pairs: mice take twice as long, in percent.
STATED_CHANGE = 100.0
_HEADS = {"pairs": "Pairs", "driver": "Driver"}


def percentiles(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The percentiles of fct.QS of each role and cell, as fct.percentiles; only flows with a role."""
    return by_group.of(flows[flows["role"] != ""], ["role", *CELL], "fct_s").percentiles(fct.QS, confidence=confidence)


def mice_beside_plain(flows: pd.DataFrame, plain: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of the completion time from the flows of `fct` to mice of the same size, in the same cell.

    flows, plain: as Runs.flows, of `elephant-mice` and of `fct`. A repetition of one sweep is one round over both
    experiments, so where both have the same repetitions these are drawn together. Returns CELL, q (CHANGED_QS), COLUMNS
    of cell_estimates; cells that `fct` lacks, or where its flows have another size, have a gap.
    """
    rows = []
    for names, cell in flows[flows["role"] == "mouse"].groupby(list(CELL), sort=True):
        same = plain[(plain[list(CELL)] == pd.Series(dict(zip(CELL, names, strict=True)))).all(axis=1)]
        for q in CHANGED_QS:
            row = dict(zip(CELL, names, strict=True)) | {"q": q}
            sizes = [set(part["asked_flow_bytes"]) for part in (cell, same)]
            if same.empty or sizes[0] != sizes[1]:
                why = "there are no flows without elephants to compare with" if same.empty else "flows differ in size"
                rows.append(row | cell_estimates.no_change(confidence, why))
            else:
                rows.append(row | change(clusters_of(same), clusters_of(cell), q, confidence))
    return pd.DataFrame(rows, columns=[*CELL, "q", *cell_estimates.COLUMNS, "pairing"])


def spread(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """How far the drivers lie apart: the largest over the smallest median completion time of a role.

    Medians are those of `percentiles`, over the blocks in which every driver has a flow of that role, where there are
    such blocks, else over all repetitions; where one depends on flows that failed there is a gap. The host's own
    network is left out. The interval is that of quantiles.most_over_least. Noise alone makes a spread exceed 1, the
    more so the fewer flows there are, and elephants are fewer than mice. Returns SYSTEM, pairs, role, COLUMNS of
    estimates; the role "ratio" is the elephants' spread over the mice's. Nothing where there are not two drivers.
    Source: the comparison in Boeira et al. 2021, figure 6.
    """
    of_roles = flows[(flows["role"] != "") & (flows["driver"] != BASELINE)]
    by = [*SYSTEM, "pairs"]
    rows = []
    for names, cell in of_roles.groupby(by, sort=True):
        drivers = ordered(cell["driver"])
        if len(drivers) < 2:
            continue
        found = {role: _spread(cell, [role], drivers, confidence) for role in ROLES}
        found["ratio"] = _spread(cell, ["elephant", "mouse"], drivers, confidence)
        rows += [dict(zip(by, names, strict=True)) | {"role": role} | row for role, row in found.items() if row]
    return pd.DataFrame(rows, columns=[*by, "role", *cell_estimates.COLUMNS])


def _spread(cell: pd.DataFrame, roles: Sequence[str], drivers: Sequence[str], confidence: float) -> dict[str, object]:
    """The spread of one role, or that of the first over that of the second, as an estimate; empty where a driver has no
    such flow.
    """
    parts = [[cell[(cell["role"] == role) & (cell["driver"] == name)] for name in drivers] for role in roles]
    if any(part.empty for of_role in parts for part in of_role):
        return {}
    every = [clusters_of(part) for of_role in parts for part in of_role]
    every = together(every)
    sides = [every[: len(drivers)], every[len(drivers) :]][: len(roles)]
    fewest = min(len(side.labels) for side in every)
    row = {"value": np.nan, "low": np.nan, "high": np.nan, "n": fewest, "confidence": confidence, "gap": ""}
    try:
        if len(sides) > 1:
            found = quantiles.spread_ratio(sides[0], sides[1], 0.5)
        else:
            found = quantiles.most_over_least(sides[0], 0.5)
    except TooFewSamples as error:
        return row | {"gap": str(error)}
    return row | found.estimate(confidence)._asdict()


def _of_role(role: str, q: float) -> str:
    return f"{role}, {fct.in_ms(q)}"


def _cdf(answer: Answer, roles: bool) -> Figure | None:
    flows = answer.flows
    if not flows["fct_s"].notna().any():
        return None
    if roles:
        flows = cell_estimates.at_pairs(flows, answer.options.get("pairs", 50))
        flows = flows[flows["role"] != ""]
        words = flows["role"].map({"mouse": "mice", "elephant": "elephants"})
        flows = flows.assign(role=words + ", " + flows["pairs"].astype(str) + " pairs")
    points = by_group.of(flows, ["role", *CELL] if roles else CELL, "fct_s").cdf(points=200, each=True)
    return fct.cdf_figure(answer, points, across="role" if roles else "pairs")


def _sizes(sizes: Iterable[int]) -> str:
    return ", ".join(f"{size / 1e6:g}" for size in sorted(set(sizes))) + " MB"


def _values(answer: Answer, found: Values) -> None:
    r"""share (of the clients that send elephants), mouse-size, elephant-size (MB); <system>/shown/pairs: 50 where
    measured, else the most; shown/spread-mouse and so on: there; not-compared: why mice cannot be compared with plain
    flows, if so; c/mice-over-plain: as Boeira et al. 2021 state it.
    """
    specs = [run.spec for run in answer.found if run.status == "ok"]
    if specs:
        found.text("share", ", ".join(f"{100 * each:g} %" for each in sorted({spec.elephant_share for spec in specs})))
        found.text("mouse-size", _sizes(spec.flow_bytes for spec in specs))
        found.text("elephant-size", _sizes(spec.elephant_bytes for spec in specs))
    shown = cell_estimates.at_pairs(answer["spread"], PUBLISHED_STEP[-1])
    for system, part in systems(shown).items():
        found.number(f"{system}/shown/pairs", part["pairs"].iloc[0], 0)
        for row in part.itertuples():
            _SPREAD.put_one(found, f"{system}/shown/spread-{row.role}", row)
    for gap in answer.gaps[len(answer.gap and [answer.gap]) :]:
        found.text("not-compared", gap)
    found.text("c/mice-over-plain", f"about {STATED_CHANGE:+.0f} %")


_SPREAD = Quantity("Largest over smallest median", "spread", 2)
_SPREAD_HEADS = {"mouse": "Mice", "elephant": "Elephants", "ratio": "Elephants over mice"}

ELEPHANT_MICE = Question(
    topic="elephant-mice",
    beside=["fct"],
    words={
        "percentile": (("q",), fct.in_ms),
        "changed": (("q",), percentile_name),
        "of_role": (("role", "q"), _of_role),
        "spread_of": (("role",), lambda role: _SPREAD_HEADS.get(role, role)),
    },
    estimates={
        "percentiles": Frame(
            lambda answer: percentiles(answer.flows, answer.confidence),
            *(fct.TIME, lambda row: f"{row.role}-{percentile_name(row.q)}"),
        ),
        "against": Frame(
            lambda answer: mice_beside_plain(answer.flows, flows_of(answer.beside["fct"]), answer.confidence),
            *(fct.CHANGE, fct.by_percentile("mice-over-plain-{}")),
        ),
        "spread": Frame(
            lambda answer: spread(answer.flows, answer.confidence), _SPREAD, lambda row: f"spread-{row.role}"
        ),
        "median": Frame(lambda answer: answer["percentiles"].query("role == 'mouse' and q == 0.5")),
    },
    tables={
        "elephant-mice": Table(
            _HEADS,
            [
                Across(
                    "percentiles", "of_role", lambda answer: [_of_role(role, q) for role in ROLES for q in CHANGED_QS]
                )
            ],
        ),
        "elephant-mice-percentiles": Table(
            {"role": "Role", **_HEADS}, [fct.percentile_columns(fct.QS), fct.FAILED], remarks="median", file=False
        ),
        "elephant-mice-against": Table(
            {"pairs": "Pairs", "changed": "Percentile"}, [Across("against", "driver")], split=False
        ),
        "elephant-mice-spread": Table(
            {"pairs": "Pairs"},
            [Across("spread", "spread_of", lambda answer: list(_SPREAD_HEADS.values()))],
            split=False,
        ),
    },
    figures={
        "elephant-mice-cdf": lambda answer: _cdf(answer, roles=False),
        "elephant-mice-roles": lambda answer: _cdf(answer, roles=True),
    },
    keys={
        **dict.fromkeys(("percentiles", "against"), ("system", "driver", "pairs")),
        "spread": ("system", "pairs"),
    },
    main=("median",),
    values=_values,
    absent={"elephant-mice-spread": lambda answer: "there are not two drivers"},
    answer=[changes("against", "Mice among elephants against plain flows, median and p99 at all pair counts")],
)
