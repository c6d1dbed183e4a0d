"""What one transaction costs in CPU time over each network, and how busy it keeps either end (paper S, table V)."""

from collections.abc import Hashable, Iterable

import pandas as pd

from pairlab.analysis import cell_estimates, layers, published, selection
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, across, common_values, tabulate, texts
from pairlab.analysis.questions.networks import BY, PLACE, place_text, places
from pairlab.model import cpu_use
from pairlab.model.records import Run
from pairlab.model.summaries import summaries
from pairlab.store.dataset import Runs

__all__ = ["BY", "DEMAND", "MEASURES", "PLACE"]

DEMAND = Measure("CPU time (µs/transaction)", "demand", 2, 1e6, "µs", short=True, less_is_better=True)
#: By the columns of `repetitions`. Those of the sides are of CPUs, see cpu_use.by_side.
MEASURES = {
    "service_demand_s": DEMAND,
    "transactions_per_s": Measure("Transactions (1/s)", "rate", 0, 1, "1/s", short=True),
    "client_share": Measure("Client's CPU (%)", "client-cpu", 1, 100, "%"),
    "server_share": Measure("Server's CPU (%)", "server-cpu", 1, 100, "%"),
    "client_demand_s": Measure("Client's CPU (µs)", "client-demand", 2, 1e6, "µs", short=True),
    "server_demand_s": Measure("Server's CPU (µs)", "server-demand", 2, 1e6, "µs", short=True),
}
CHANGE = Measure("Against process (%)", "change", 1, unit="%", change=True, short=True)
OF_LAYER = Measure("CPU time (µs/transaction)", "layer-demand", 2, 1e6, "µs", short=True, less_is_better=True)
#: A host's own network, without containers, which paper S holds the others against.
REFERENCE = "process"
#: Which of our networks has the name that paper S uses, where these differ. Its version of flannel had VXLAN.
STATED_AS = {"flannel-vxlan": "flannel"}

_NAMES = {"system": "System", "place": "Place", "driver": "Network"}


def repetitions(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run of transactions that counts: BY, repetition, and MEASURES in base units, NaN where not known.

    Raises AnalysisError where two runs claim one repetition of a cell.
    """
    rows = []
    for run in runs:
        if run.status != "ok":
            continue
        found, sides = summaries(run), cpu_use.by_side(run)
        known = {name: found.get(name, float("nan")) for name in ("service_demand_s", "transactions_per_s")}
        for side in cpu_use.SIDES:
            of_side = sides.loc[side] if side in sides.index else pd.Series(dtype=float)
            known[f"{side}_share"] = of_side.get("utilisation", float("nan"))
            known[f"{side}_demand_s"] = of_side.get("service_demand_s", float("nan"))
        rows.append({name: getattr(run.spec, name) for name in (*BY, "repetition")} | {"key": run.key} | known)
    frame = pd.DataFrame(rows, columns=[*BY, "repetition", "key", *MEASURES])
    selection.check_distinct(frame, BY)
    return frame.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def repetitions_by_layer(runs: Iterable[Run]) -> pd.DataFrame:
    """A row per run with a profile that counts and layer (layers.names): BY, repetition, layer, and demand_s.

    demand_s: the service demand times the layer's share in the samples of CPUs that were not idle.
    """
    rows = []
    for run in runs:
        if run.status == "ok" and run.spec.profile:
            demand_s = cpu_use.service_demand_s(run)
            cell = {name: getattr(run.spec, name) for name in (*BY, "repetition")}
            shares = layers.shares(zip(run.profile["stack"], run.profile["samples"], strict=True))
            rows += [{**cell, "layer": layer, "demand_s": share * demand_s} for layer, share in shares.items()]
    return pd.DataFrame(rows, columns=[*BY, "repetition", "layer", "demand_s"])


def layer_cells(by_layer: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The mean of each layer's part of the service demand, in s, as cell_estimates.means; of BY and layer."""
    return cell_estimates.means(by_layer, [*BY, "layer"], "demand_s", confidence)


def layer_table(cells: pd.DataFrame, least: float = 0.01) -> pd.DataFrame:
    """Each layer's part by place and network, a column each, of those that take `least` of it anywhere."""
    parts = cells["value"] / cells.groupby(list(BY))["value"].transform("sum")
    most = parts.groupby(cells["layer"]).max()
    shown = [layer for layer in layers.names() if most.get(layer, 0.0) >= least]
    found = OF_LAYER.texts(_placed(cells[cells["layer"].isin(shown)]), *_NAMES, "layer")
    return tabulate(_NAMES, across(found, order=shown), {"place": places(cells)})


def cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES by network and place, as cell_estimates.means; of the sides where they are known."""
    found = {}
    for name in MEASURES:
        mine = repetitions if name in ("service_demand_s", "transactions_per_s") else repetitions.dropna(subset=name)
        found[name] = cell_estimates.means(mine, BY, name, confidence)
    return found


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change of the service demand against REFERENCE in the same place, in percent, paired by repetition."""
    by = [name for name in BY if name != "driver"]
    return cell_estimates.changes(
        repetitions, by, "service_demand_s", setting="driver", against=REFERENCE, confidence=confidence
    )


def table(cells: dict[str, pd.DataFrame], changes: pd.DataFrame) -> pd.DataFrame:
    """MEASURES by place and network, beside the change that paper S's table V has.

    Its own figures are of a client's and a server's machine, and so is their sum.
    """
    columns: dict[Hashable, Texts] = {
        each.title: each.texts(_placed(cells[name]), *_NAMES) for name, each in MEASURES.items() if len(cells[name])
    }
    columns[CHANGE.title] = CHANGE.texts(_placed(changes), *_NAMES)
    stated = stated_changes()
    between = _placed(cells["service_demand_s"])
    between = between[between["hosts"] > 1]
    columns["Paper S (%)"] = texts(between, tuple(_NAMES), lambda row: stated.get(row.driver, MISSING))
    return tabulate(_NAMES, columns, {"place": places(cells["service_demand_s"])})


def published_table() -> pd.DataFrame:
    """Paper S's table V: CPU use and service demand of client and server by network, and its change."""
    rows = published.load("service_demands")
    return pd.DataFrame(
        {
            "Client's CPU (%)": rows["client_cpu_percent"],
            "Server's CPU (%)": rows["server_cpu_percent"],
            "Client (µs)": (1e6 * rows["client_demand_s"]).round(1),
            "Server (µs)": (1e6 * rows["server_demand_s"]).round(1),
            "Both, against process (%)": _stated(rows).map(lambda change: f"{change:+.0f}"),
        }
    ).set_axis(pd.Index(rows["driver"], name="Network"))


def stated_changes() -> dict[str, str]:
    """By network as ours are called, the change of client's and server's service demand together, in percent."""
    rows = published.load("service_demands")
    ours = {theirs: mine for mine, theirs in STATED_AS.items()}
    named = zip(rows["driver"], _stated(rows), strict=True)
    return {ours.get(driver, driver): f"{change:+.0f}" for driver, change in named if driver != REFERENCE}


def _stated(rows: pd.DataFrame) -> pd.Series:
    both = rows["client_demand_s"] + rows["server_demand_s"]
    return 100 * (both / float(both[rows["driver"] == REFERENCE].iloc[0]) - 1)


def values(
    runs: Runs, cells: dict[str, pd.DataFrame], changes: pd.DataFrame, by_layer: pd.DataFrame, *gaps: str
) -> Values:
    r"""The keyed numbers, all below `cost/`: those of measures.common_values, and

    <system>/<driver>/<hosts>/<pairs>/demand, rate, client-cpu, server-cpu, client-demand, server-demand and change,
    each with its interval; <layer>-demand likewise, of each layer (by_layer: layer_cells).
    """
    found = common_values("cost", runs, cells["service_demand_s"], *gaps)
    names = ("system", "driver", "hosts", "pairs")
    for name, each in MEASURES.items():
        each.put(found, cells[name], *names)
    CHANGE.put(found, changes, *names)
    for layer, part in by_layer.groupby("layer"):
        OF_LAYER.put(found, part, *names, key=f"{str(layer).replace(' ', '-').lower()}-demand")
    return found


def _placed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(place=[place_text(*each) for each in frame[list(PLACE)].itertuples(index=False)])
