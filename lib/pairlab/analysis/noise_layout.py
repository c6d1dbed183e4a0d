"""A calibration as tables and a few sentences, for a terminal or a notebook."""

import pandas as pd

from pairlab.analysis import comparison_words, noise
from pairlab.analysis.floors import REPETITIONS, Calibration, Cell
from pairlab.analysis.measures import MEASURES
from pairlab.analysis.noise import Comparison


def tables(calibration: Calibration) -> dict[str, pd.DataFrame]:
    """By title: the noise, what can be found in it, and the planted differences; all as text."""
    cells = calibration.cells
    found = {
        f"Noise of {calibration.backend} on {calibration.host}": pd.DataFrame([_noise(cell) for cell in cells]),
        f"Smallest detectable effect, level {noise.ALPHA:.0%}, power {noise.POWER:.0%} (in brackets: the power in"
        " simulations from what was measured)": pd.DataFrame([_detectable(cell) for cell in cells]),
    }
    if calibration.planted:
        found["Planted differences"] = pd.DataFrame(
            [
                {
                    "cell": _cell(cell),
                    "planted": f"{-cell.cost_percent:g} %",
                    "found": _change(cell.comparison),
                    "within": "yes" if cell.in_interval else "no",
                    "p": f"{cell.comparison.p:.2g}",
                    "n": str(cell.comparison.repetitions),
                }
                for cell in calibration.planted
            ]
        )
    return found


def summary(calibration: Calibration) -> str:
    """Whether the tests found what is not there, and what is."""
    counted, planted = len(calibration.independent), calibration.planted
    told = [
        f"A against A: a difference was reported in {calibration.differences} of {counted} comparisons, one of"
        f" each set of runs, at level {noise.ALPHA:.0%}; chance allows up to {noise.most_rejections(counted)}."
    ]
    if planted:
        found = sum(cell.comparison.differs() for cell in planted)
        inside = sum(cell.in_interval for cell in planted)
        told.append(f"Planted: {found} of {len(planted)} found, {inside} with the true size in the interval.")
    return " ".join(told)


def _noise(cell: Cell) -> dict[str, str]:
    return {
        "cell": _cell(cell),
        "measure": _measure(cell),
        "variation": f"{100 * noise.variation(cell.values):.2f} %",
        "within repetitions": f"{100 * cell.spread_within:.2f} %",
        "A against A": _change(cell.comparison),
        "p (t, ranks)": f"{cell.comparison.p:.2f}, {cell.comparison.p_ranks:.2f}",
        "difference": "reported" if cell.comparison.differs() else "none",
        "n": str(cell.comparison.repetitions),
    }


def _detectable(cell: Cell) -> dict[str, str]:
    told = {"cell": _cell(cell), "measure": _measure(cell)}
    spread = noise.spread(cell.values)
    for n in REPETITIONS:
        effect = noise.smallest_detectable(spread, n)
        power = noise.simulated_power(cell.values, effect, n)
        told[f"n = {n}"] = f"{noise.percent(effect):.1f} % ({power:.0%})"
    return told


def _measure(cell: Cell) -> str:
    return MEASURES[cell.measure].told if cell.measure in MEASURES else cell.measure


def _cell(cell: Cell) -> str:
    shaped = f", links of {cell.link_rate_bps / 1e6:g} Mbit/s" if cell.link_rate_bps else ""
    lasts = f"{cell.flow_bytes:,} B" if cell.flow_bytes else f"{cell.duration_s:g} s"
    special = "".join(f", {comparison_words.named(name, value)}" for name, value in cell.parameters.items())
    return f"{cell.workload} over {cell.driver}, {cell.pairs} pair{'s' * (cell.pairs != 1)}, {lasts}{shaped}{special}"


def _change(told: Comparison) -> str:
    return f"{told.change_percent:+.2f} % [{told.low_percent:.2f}, {told.high_percent:.2f}]"
