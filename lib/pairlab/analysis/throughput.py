"""How experiment E1 is laid out: the tables, the comparison with the papers, and the numbers of its prose."""

import pandas as pd

from pairlab.analysis.figures import ordered
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.origin import testbed
from pairlab.analysis.stats import SYSTEM, Shape
from pairlab.store import Runs

CLIENT = "Mean per client (Gbit/s)"
TOTAL = "Total (Gbit/s)"


def systems(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The parts of a frame by system, named as in files and keys: backend-workload."""
    return {"-".join(names): part for names, part in frame.groupby(list(SYSTEM), sort=True)}


def table(cells: pd.DataFrame) -> pd.DataFrame:
    """Throughput by pairs and driver in the form of paper E, table I, as text: mean ± half the interval, in Gbit/s.

    cells: as stats.throughput_by_cell, of one system. One repetition has no interval and shows its value alone; a
    cell that was not measured shows a dash.
    """
    drivers = ordered(cells["driver"])
    rows = {
        (cell.pairs, cell.driver): {
            CLIENT: _with_half(cell.client_bps, cell.client_high_bps, 3),
            TOTAL: _with_half(cell.total_bps, cell.total_high_bps, 2),
        }
        for cell in cells.itertuples()
    }
    pairs = sorted(cells["pairs"].unique())
    columns = pd.MultiIndex.from_product([[CLIENT, TOTAL], drivers])
    body = [[rows.get((count, driver), {}).get(what, MISSING) for what, driver in columns] for count in pairs]
    return pd.DataFrame(body, index=pd.Index(pairs, name="Pairs"), columns=columns)


def remarks(cells: pd.DataFrame) -> str:
    """What the numbers of a system rest on: how many repetitions, and what failed in them."""
    few, many = cells["repetitions"].min(), cells["repetitions"].max()
    n = f"{few}" if few == many else f"{few} to {many}"
    failed = int(cells["failed_flows"].sum())
    return f"{n} repetition{'s' * bool(many > 1)} per cell; {failed} of {cells['flows'].sum()} flows failed"


def comparison(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Normalised totals of the papers and ours, one row for each driver and pair count that both have, as text.

    ours, published: the cells of stats.normalised_shape. Empty where they have nothing in common.
    """
    theirs = {f"paper {name}": part.assign(relative_high=float("nan")) for name, part in published.groupby("paper")}
    columns = {
        name: {
            (cell.pairs, cell.driver): _with_half(cell.relative, cell.relative_high, 2) for cell in part.itertuples()
        }
        for name, part in {**theirs, **systems(ours)}.items()
    }
    both = set().union(*(columns[name] for name in theirs)) & set().union(*(columns[name] for name in systems(ours)))
    order = ordered(driver for _, driver in both)
    rows = sorted(both, key=lambda row: (row[0], order.index(row[1])))
    body = [{"Pairs": pairs, "Driver": driver} for pairs, driver in rows]
    for row, key in zip(body, rows, strict=True):
        row |= {name: cells.get(key, MISSING) for name, cells in columns.items()}
    return pd.DataFrame(body, columns=["Pairs", "Driver", *columns])


def values(
    runs: Runs, cells: pd.DataFrame, saturated: Shape, published: pd.DataFrame, saturation: pd.DataFrame
) -> Values:
    r"""The keyed numbers of E1, all below `throughput/`.

    host/<fact>; runs, left-out; systems (a list); <system>/backend, workload, drivers, most-pairs, repetitions,
    failed-flows, flows, <driver>/<pairs>/{total,client,total-interval,client-interval} and, where there is a bridge,
    <driver>/over-bridge at the most pairs; <paper>/<driver>/<pairs>/{total,client} as published, and
    <paper>/<driver>/over-bridge where the paper states a level.
    """
    found = Values("throughput")
    for fact, text in testbed(runs).items():
        found.text(f"host/{fact}", text)
    found.number("runs", sum(run.status == "ok" for run in runs), 0)
    found.number("left-out", len(runs.left_out) + len(runs.damaged), 0)
    found.list("systems", list(systems(cells)))
    for system, part in systems(cells).items():
        _describe(found, system, part)
    for cell in saturated.cells.itertuples():
        system = f"{cell.backend}-{cell.workload}"
        if cell.pairs == cell.reference_pairs:
            found.number(f"{system}/{cell.driver}/over-bridge", cell.relative, 2)
    for cell in published.itertuples():
        _rates(found, f"{cell.paper.lower()}/{cell.driver}/{cell.pairs}", cell)
    for paper, levels in saturation.groupby("paper"):
        level = levels.set_index("driver")["total_bps"]
        for driver in level.index:
            found.number(f"{paper.lower()}/{driver}/level", level[driver] / 1e9, 0, "Gbit/s")
            found.number(f"{paper.lower()}/{driver}/over-bridge", level[driver] / level["bridge"], 2)
    return found


def _describe(found: Values, system: str, cells: pd.DataFrame) -> None:
    found.text(f"{system}/backend", cells["backend"].iloc[0])
    found.text(f"{system}/workload", cells["workload"].iloc[0])
    found.text(f"{system}/drivers", ", ".join(ordered(cells["driver"])))
    found.text(f"{system}/remarks", remarks(cells))
    most = cells["pairs"].max()
    found.number(f"{system}/most-pairs", most, 0)
    at_most = cells[cells["pairs"] == most].sort_values("total_bps")
    for rank, cell in (("lowest", at_most.iloc[0]), ("highest", at_most.iloc[-1])):
        found.text(f"{system}/{rank}/driver", cell["driver"])
        found.number(f"{system}/{rank}/total", cell["total_bps"] / 1e9, 2, "Gbit/s")
    for cell in cells.itertuples():
        key = f"{system}/{cell.driver}/{cell.pairs}"
        _rates(found, key, cell)
        for what in ("total", "client"):
            low, high = getattr(cell, f"{what}_low_bps") / 1e9, getattr(cell, f"{what}_high_bps") / 1e9
            known = f"[{low:.2f}, {high:.2f}] Gbit/s" if low == low else "no interval from one repetition"
            found.text(f"{key}/{what}-interval", known)


def _rates(found: Values, key: str, cell) -> None:
    found.number(f"{key}/total", cell.total_bps / 1e9, 2, "Gbit/s")
    found.number(f"{key}/client", cell.client_bps / 1e9, 3, "Gbit/s")


def _with_half(value: float, high: float, digits: int) -> str:
    scale = 1e9 if digits and value > 1e4 else 1
    half = f" ± {(high - value) / scale:.{digits}f}" if high == high else ""
    return f"{value / scale:.{digits}f}{half}"
