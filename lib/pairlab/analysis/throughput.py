"""How experiment E1 is laid out: the tables, the comparison with the papers, and the numbers of its prose."""

import pandas as pd

from pairlab.analysis import published
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import systems, with_half
from pairlab.analysis.look import ordered
from pairlab.analysis.origin import facts_of
from pairlab.analysis.stats import Shape
from pairlab.collection import Runs

CLIENT = "Mean per client (Gbit/s)"
TOTAL = "Total (Gbit/s)"
_DIGITS = {"client": 3, "total": 2}  # after the point, in Gbit/s


def table(cells: pd.DataFrame) -> pd.DataFrame:
    """Throughput by pairs and driver in the form of paper E, table I, as text in Gbit/s.

    cells: as stats.throughput_by_cell, of one system. Each shows its mean ± half its interval. One repetition
    has no interval and shows its value alone; a cell that was not measured shows a dash.
    """
    drivers = ordered(cells["driver"])
    rows = {
        (cell.pairs, cell.driver): {
            CLIENT: with_half(cell.client_bps / 1e9, cell.client_high_bps / 1e9, _DIGITS["client"]),
            TOTAL: with_half(cell.total_bps / 1e9, cell.total_high_bps / 1e9, _DIGITS["total"]),
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


def comparison(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Normalised totals of the papers and ours, as text, in one row for each cell that both have.

    ours, theirs: the cells of stats.normalised_shape. Empty where they have nothing in common.
    """
    papers = {f"paper {name}": part for name, part in theirs.groupby("paper")}
    columns = {
        name: {(cell.pairs, cell.driver): with_half(cell.relative, cell.relative_high, 2) for cell in part.itertuples()}
        for name, part in {**papers, **systems(ours)}.items()
    }
    stated = set().union(*(columns[name] for name in papers))
    both = stated & set().union(*(columns[name] for name in systems(ours)))
    order = ordered(driver for _, driver in both)
    rows = sorted(both, key=lambda row: (row[0], order.index(row[1])))
    body = [{"Pairs": pairs, "Driver": driver} for pairs, driver in rows]
    for row, key in zip(body, rows, strict=True):
        row |= {name: cells.get(key, MISSING) for name, cells in columns.items()}
    return pd.DataFrame(body, columns=["Pairs", "Driver", *columns])


def values(runs: Runs, cells: pd.DataFrame, shape: Shape, level: Shape, compared: pd.DataFrame) -> Values:
    r"""The keyed numbers of E1, all below `throughput/`.

    shape and level are of stats.normalised_shape, at 10 pairs and at the most pairs; compared is of
    comparison(). A system is named backend-workload. Keys: host/<fact>, runs, left-out, confidence, systems
    (a list), and

    - <system>/backend, workload, drivers, remarks, most-pairs; <system>/highest and lowest (at the most
      pairs), each with /driver and /total; <system>/<driver>/<pairs>/total, total-interval, client,
      client-interval;
    - <system>/<driver>/over-bridge: its total over that of bridge at the most pairs, where both are known;
    - e/<driver>/<pairs>/total, client; c/<driver>/level, over-bridge: as the papers state them;
    - not-compared: the systems without a shape, and why, if any; compared: how many cells both have, if any.

    With a single system its cells have a short key too: <driver>/<pairs>/total, and so on.
    """
    found = Values("throughput")
    for fact, text in facts_of(runs).items():
        found.text(f"host/{fact}", text)
    found.number("runs", sum(run.status == "ok" for run in runs), 0)
    found.number("left-out", len(runs.left_out) + len(runs.unread), 0)
    found.text("confidence", f"{cells['confidence'].iloc[0] * 100:g} %")
    found.names("systems", list(systems(cells)))
    for system, part in systems(cells).items():
        _describe(found, system, part)
        _number_cells(found, f"{system}/", part)
        if len(systems(cells)) == 1:
            _number_cells(found, "", part)
    for cell in level.cells.itertuples():
        if cell.pairs == cell.reference_pairs:
            found.number(f"{cell.backend}-{cell.workload}/{cell.driver}/over-bridge", cell.relative, 2)
    _cite(found)
    if shape.left_out:
        found.text("not-compared", "; ".join(shape.left_out) + ".")
    if len(compared):
        found.number("compared", len(compared), 0)
    return found


def _cite(found: Values) -> None:
    for cell in published.load("throughput").itertuples():
        _rates(found, f"{cell.paper.lower()}/{cell.driver}/{cell.pairs}", cell)
    for paper, levels in published.load("saturation").groupby("paper"):
        level = levels.set_index("driver")["total_bps"]
        for driver in level.index:
            found.number(f"{paper.lower()}/{driver}/level", level[driver] / 1e9, 0, "Gbit/s")
            found.number(f"{paper.lower()}/{driver}/over-bridge", level[driver] / level["bridge"], 2)


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


def _number_cells(found: Values, prefix: str, cells: pd.DataFrame) -> None:
    for cell in cells.itertuples():
        key = f"{prefix}{cell.driver}/{cell.pairs}"
        _rates(found, key, cell)
        for what, digits in _DIGITS.items():
            low, high = getattr(cell, f"{what}_low_bps") / 1e9, getattr(cell, f"{what}_high_bps") / 1e9
            bounds = f"[{low:.{digits}f}, {high:.{digits}f}] Gbit/s"
            known = bounds if low == low else "no interval from one repetition"
            found.text(f"{key}/{what}-interval", known)


def _rates(found: Values, key: str, cell) -> None:
    for what, digits in _DIGITS.items():
        found.number(f"{key}/{what}", getattr(cell, f"{what}_bps") / 1e9, digits, "Gbit/s")
