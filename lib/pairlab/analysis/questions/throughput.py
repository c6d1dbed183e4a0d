"""Total throughput and the mean per client by pairs and driver (E1), beside what the papers state."""

from collections.abc import Hashable

import pandas as pd

from pairlab.analysis import cell_estimates, published
from pairlab.analysis.output.formatting import MISSING, systems
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, across, common_values, tabulate
from pairlab.analysis.output.provenance import facts_of
from pairlab.analysis.selection import CELL
from pairlab.analysis.throughput_cells import Shape
from pairlab.store.dataset import Runs

CLIENT = Measure("Mean per client (Gbit/s)", "client", 3, 1e-9, "Gbit/s")
TOTAL = Measure("Total (Gbit/s)", "total", 2, 1e-9, "Gbit/s")
MEASURES = {"client_bps": CLIENT, "total_bps": TOTAL}
RELATIVE = Measure("Total throughput\n(bridge at 10 pairs = 1)", "over-bridge", 2)


def cells(repetitions: pd.DataFrame, confidence: float = 0.95) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as cell_estimates.means, by its name.

    repetitions: as throughput_cells.throughput_by_repetition. Source: paper C, figure 2; paper E, table I.
    """
    return {name: cell_estimates.means(repetitions, CELL, name, confidence) for name in MEASURES}


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Throughput by pairs and driver in the form of paper E, table I."""
    columns: dict[Hashable, Texts] = {}
    for name, measure in MEASURES.items():
        columns |= across(measure.texts(cells[name], "system", "pairs", "driver"), measure.title)
    return tabulate({"system": "System", "pairs": "Pairs"}, columns)


def comparison(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Normalised totals of the papers and ours, in one row for each cell that both have.

    ours, theirs: the cells of throughput_cells.normalised_shape. Empty where they have nothing in common.
    """
    stated = across(RELATIVE.texts(theirs.assign(paper="paper " + theirs["paper"]), "pairs", "driver", "paper"))
    here = across(RELATIVE.texts(ours, "pairs", "driver", "system"))
    both = {cell for texts in stated.values() for cell in texts} & {cell for texts in here.values() for cell in texts}
    columns = {name: {cell: texts.get(cell, MISSING) for cell in both} for name, texts in (stated | here).items()}
    return tabulate({"pairs": "Pairs", "driver": "Driver"}, columns)


def values(
    runs: Runs, cells: dict[str, pd.DataFrame], shape: Shape, level: Shape, compared: pd.DataFrame, gap: str = ""
) -> Values:
    r"""The keyed numbers of E1, all below `throughput/`: those of measures.common_values, and

    shape and level are of throughput_cells.normalised_shape, at 10 pairs and at the most pairs; compared is of
    comparison().

    - host/<fact>; <system>/most-pairs; <system>/highest and lowest (at the most pairs), each with /driver, /total and
      /total-interval; <system>/<driver>/<pairs>/total, total-interval, client, client-interval;
    - <system>/<driver>/over-bridge: its total over that of bridge at the most pairs, where both are known;
    - e/<driver>/<pairs>/total, client; c/<driver>/level, over-bridge: as the papers state them;
    - not-compared: the systems without a shape, and why, if any; compared: how many cells both have, if any.

    With a single system its cells have a short key too: <driver>/<pairs>/total, and so on.
    """
    total = cells["total_bps"]
    found = common_values("throughput", runs, total, gap)
    for fact, text in facts_of(runs).items():
        found.text(f"host/{fact}", text)
    for system, part in systems(total).items():
        most = part["pairs"].max()
        found.number(f"{system}/most-pairs", most, 0)
        at_most = list(part[part["pairs"] == most].sort_values("value").itertuples())
        for rank, cell in (("lowest", at_most[0]), ("highest", at_most[-1])):
            found.text(f"{system}/{rank}/driver", cell.driver)
            TOTAL.put_one(found, f"{system}/{rank}/total", cell)
    for name, measure in MEASURES.items():
        measure.put(found, cells[name], "system", "driver", "pairs")
        if len(systems(total)) == 1:
            measure.put(found, cells[name], "driver", "pairs")
    for cell in level.cells.itertuples():
        if cell.pairs == cell.reference_pairs:
            found.number(f"{cell.backend}-{cell.workload}/{cell.driver}/over-bridge", cell.value, RELATIVE.digits)
    _cite(found)
    if shape.left_out:
        found.text("not-compared", "; ".join(shape.left_out) + ".")
    if len(compared):
        found.number("compared", len(compared), 0)
    return found


def _cite(found: Values) -> None:
    for cell in published.load("throughput").itertuples():
        for name, measure in MEASURES.items():
            key = f"{cell.paper.lower()}/{cell.driver}/{cell.pairs}/{measure.key}"
            found.number(key, getattr(cell, name) * measure.scale, measure.digits, measure.unit)
    for paper, levels in published.load("saturation").groupby("paper"):
        level = levels.set_index("driver")["total_bps"]
        for driver in level.index:
            found.number(f"{paper.lower()}/{driver}/level", level[driver] / 1e9, 0, "Gbit/s")
            found.number(f"{paper.lower()}/{driver}/over-bridge", level[driver] / level["bridge"], RELATIVE.digits)
