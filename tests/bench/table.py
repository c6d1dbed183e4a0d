"""The table of `make bench`: each figure, a median of n with its range, beside its bound."""

import statistics

from rich.console import Console
from rich.table import Table

out = Console(highlight=False)
table = Table("what", "median", "range", "n", "bound", "met", title="pairlab bench")

#: What the part that runs now has measured under a name, and whether all its bounds were met: for the evidence.
figures, verdicts = {}, []


def note(what, values, bound, met, unit="", figure=None):
    """A row of the table. figure: the name that it is kept under, the unit in it; without one it is only shown."""
    verdicts.append(met)
    if figure:
        figures[figure] = list(values)
    values = sorted(values)
    shown = [f"{value:.3g}{unit}" for value in (statistics.median(values), values[0], values[-1])]
    table.add_row(what, shown[0], f"{shown[1]} to {shown[2]}", str(len(values)), bound, "yes" if met else "[red]NO[/]")
    out.print(f"{what}: {shown[0]} ({shown[1]} to {shown[2]}, n={len(values)}), bound {bound}")


def note_mean(mean, figure):
    """The geometric mean of the ratios of that name, an Estimate, beside them."""
    told = f"{mean.value:.3f}, 95 % interval {mean.low:.3f} to {mean.high:.3f}"
    out.print(f"  geometric mean {told}")
    figures[f"{figure}_mean"] = [told]


def leave_out(what, why):
    table.add_row(what, "left out", why, "", "", "")
