"""A calibration as tables and a few sentences, for a terminal or a notebook."""

import pandas as pd

from pairlab.analysis.comparison.noise_floor import REPETITIONS, Calibration, Cell
from pairlab.analysis.comparison.spec_text import named
from pairlab.model.summaries import MEASURES
from pairlab.statistics import power
from pairlab.statistics.changes import Change
from pairlab.statistics.intervals import ALPHA


def tables(calibration: Calibration) -> dict[str, pd.DataFrame]:
    """By title: the noise, what can be found in it, and the planted differences; all as text."""
    cells = calibration.cells
    found = {
        f"Noise of {calibration.backend} on {calibration.host}": pd.DataFrame([_noise(cell) for cell in cells]),
        f"Smallest detectable effect, level {ALPHA:.0%}, power {power.POWER:.0%} (in brackets: the power in"
        " simulations from what was measured)": pd.DataFrame([_detectable(cell) for cell in cells]),
    }
    if calibration.planted:
        found["Planted differences"] = pd.DataFrame(
            [
                {
                    "cell": _cell(cell),
                    "planted": f"{-cell.cost_percent:g} %",
                    "found": _change(cell.change),
                    "within": "yes" if cell.in_interval else "no",
                    "p": f"{cell.change.p:.2g}",
                    "n": str(cell.change.repetitions),
                }
                for cell in calibration.planted
            ]
        )
    return found


def summary(calibration: Calibration) -> str:
    """Whether the tests found what is not there, and what is."""
    counted, planted = len(calibration.independent), calibration.planted
    lines = [
        f"A against A: a difference was reported in {calibration.differences} of {counted} comparisons, one of"
        f" each set of runs, at level {ALPHA:.0%}; chance allows up to {power.most_rejections(counted)}."
    ]
    if planted:
        found = sum(cell.change.differs() for cell in planted)
        inside = sum(cell.in_interval for cell in planted)
        lines.append(f"Planted: {found} of {len(planted)} found, {inside} with the true size in the interval.")
    return " ".join(lines)


def _noise(cell: Cell) -> dict[str, str]:
    return {
        "cell": _cell(cell),
        "measure": _measure(cell),
        "variation": f"{100 * power.variation(cell.values):.2f} %",
        "within repetitions": f"{100 * cell.spread_within:.2f} %",
        "A against A": _change(cell.change),
        "p (t, ranks)": f"{cell.change.p:.2f}, {cell.change.p_ranks:.2f}",
        "difference": "reported" if cell.change.differs() else "none",
        "n": str(cell.change.repetitions),
    }


def _detectable(cell: Cell) -> dict[str, str]:
    row = {"cell": _cell(cell), "measure": _measure(cell)}
    spread = power.spread(cell.values)
    for n in REPETITIONS:
        effect = power.smallest_detectable(spread, n)
        share = power.simulated_power(cell.values, effect, n)
        row[f"n = {n}"] = f"{power.percent(effect):.1f} % ({share:.0%})"
    return row


def _measure(cell: Cell) -> str:
    return MEASURES[cell.measure].name if cell.measure in MEASURES else cell.measure


def _cell(cell: Cell) -> str:
    shaped = f", links of {cell.link_rate_bps / 1e6:g} Mbit/s" if cell.link_rate_bps else ""
    lasts = f"{cell.flow_bytes:,} B" if cell.flow_bytes else f"{cell.duration_s:g} s"
    special = "".join(f", {named(name, value)}" for name, value in cell.parameters.items())
    return f"{cell.workload} over {cell.driver}, {cell.pairs} pair{'s' * (cell.pairs != 1)}, {lasts}{shaped}{special}"


def _change(change: Change) -> str:
    return f"{change.change_percent:+.2f} % [{change.low_percent:.2f}, {change.high_percent:.2f}]"
