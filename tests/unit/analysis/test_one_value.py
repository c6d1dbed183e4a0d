"""One quantity has one value: all keyed numbers of the paper and all cells of the claims' tables, over runs/reference.

Two notebooks that print the same quantity under two keys must print the same value and interval; and no interval leaves
its quantity's bounds.
"""

import math
import re
from functools import cache

import pytest

from pairlab import paths
from pairlab.analysis import question
from pairlab.analysis.claims import ledger

VALUES = paths.ROOT / "paper" / "values" / "reference"
TABLES = paths.ROOT / "paper" / "tables" / "reference"
_RESULT = re.compile(r"\\defineresult\{([^}]+)\}\{(.*)\}$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf)")
#: The least and the most of quantities, by the last part of their keys; what is not named is above zero.
CHANGES = re.compile(r"change$|against-[a-z]+$|over-bridge$|over-plain|\d+-\d+/p[\d.]+$")
BOUNDS = (
    (re.compile(r"jain-change$"), -1, 1),
    (re.compile(r"claims/.*|" + CHANGES.pattern), -100, math.inf),
    (re.compile(r"pearson$|spearman$|kendall$"), -1, 1),
    (re.compile(r"jain$"), 0, 1),
    (re.compile(r"(?<!spread-)ratio$|-gap$|spread-(mouse|elephant)$"), 1, math.inf),
    (re.compile(r"busy$|usr$|sys$|softirq$|rest$|irq$|steal$|iowait$|idle$|lost$|reordered$"), 0, 100),
    (re.compile(r""), 0, math.inf),
)


@cache
def results() -> dict[str, str]:
    """Every key and its text."""
    lines = [line for file in sorted(VALUES.glob("*.tex")) for line in file.read_text().splitlines()]
    return dict(found.groups() for line in lines if (found := _RESULT.match(line)))


def numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text.replace(r"\,", " ").replace(r"\textminus{}", "-"))]


def with_interval() -> dict[str, tuple[float, ...]]:
    """By key: the value, and the bounds where there are some."""
    every = results()
    return {
        key: (*numbers(every[key])[:1], *numbers(text.split("]")[0] if text.startswith("[") else ""))
        for key, text in ((name.removesuffix("-interval"), text) for name, text in every.items() if _interval(name))
        if key in every
    }


def _interval(name: str) -> bool:
    return name.endswith("-interval") and not name.startswith("claims/")


def quantities(key: str) -> set[str]:
    """The names of a key's quantity: its own, and one below each experiment that its question takes all runs of, as
    questions about the same runs call the same quantity alike.
    """
    topic, _, rest = key.partition("/")
    asked = question.questions().get(topic)
    whole = () if asked is None else asked.beside if asked.only else asked.experiments
    return {key, *(f"runs of {name}/{rest}" for name in whole)}


def claimed() -> dict[str, tuple[str, tuple[float, ...]]]:
    """By a claim's key: that of its effect in a notebook, and its value and bounds there."""
    found = {}
    for claim in ledger.load():
        for key in [key for key in results() if key.startswith(f"claims/{claim.id}/") and key.endswith("/estimate")]:
            system = key.split("/")[2]
            base = key.removesuffix("/estimate")
            told = results()[f"{base}/interval"]
            values = (*numbers(results()[key])[:1], *numbers(told if told.startswith("[") else ""))
            if named := _of_claim(claim, system, results()[f"{base}/cells"]):
                name, scale, shift = named
                found[base] = name, tuple(shift + scale * value for value in values)
    return found


def _of_claim(claim, system: str, cells: str) -> tuple[str, float, float] | None:
    """The key of an effect in a notebook, and how its value becomes the notebook's."""
    quantity, of, over = claim.effect.quantity, claim.effect.of, dict(claim.effect.over)
    driver, pairs = of["driver"], re.findall(r"\d+(?= pairs|\s*→)", cells)
    if quantity == "fct_p99_s" and _decided_elsewhere(claim, system, "-".join(pairs)):
        return f"{claim.instead}/{system}/{driver}/0-ms/p99-change", 1, 0
    if quantity == "fct_p99_s":
        return f"fct/{system}/{driver}/{'-'.join(pairs)}/p99", 1, 0
    if quantity == "fct_median_s" and over == {"driver": "bridge"}:
        return f"fct/{system}/{driver}/{pairs[0]}/p50-over-bridge", 1, 0
    if quantity == "mouse_median_s" and "experiment" in over:
        return f"elephant-mice/{system}/{driver}/{pairs[0]}/mice-over-plain-p50", 1, 0
    if quantity == "busy" and not over:
        return f"cpu/{system}/{driver}/{pairs[0]}/busy", 100, 0
    if quantity == "spearman_z":
        return f"retransmissions/{system}/{driver}/{pairs[0]}/spearman", 1, 0
    if quantity == "elephant_median_s":
        return f"elephant-mice/{system}/{pairs[0]}/spread-ratio", 1, 0
    if "allocation" in of and "experiment" in over and quantity in ("total_bps", "latency_mean_s"):
        beside = {"congestion": "1-background-pair", "interference": "2-busy-loops"}[of["experiment"]]
        return f"{of['experiment']}/{system}/{driver}/{of['allocation']}/{beside}/against-alone", 1, 0
    if quantity == "service_demand_s" and over == {"driver": "process"}:
        return f"cost/{system}/{driver}/2/1/change", 1, 0
    if "direction" in of:
        what = {"up": "upload", "down": "download"}[of["direction"]]
        return f"single-host-modes/{system}/{driver}/{what}/0/against-process", 1, 0
    if "pinning" in of:
        return f"pinning/{system}/{driver}/{of['pinning']}/change", 1, 0
    return None


def _decided_elsewhere(claim, system: str, step: str) -> bool:
    """Whether the runs of the claim's own experiment have too few flows for its percentile, so that others decided."""
    own = f"fct/{system}/{claim.effect.of['driver']}/{step}/p99"
    return bool(claim.instead) and own not in results()


def apart(first: tuple[float, ...], second: tuple[float, ...], of: float) -> bool:
    """Whether two printed values or intervals differ by more than their last digits."""
    return len(first) != len(second) or any(
        abs(a - b) > of + 1e-9 for a, b in zip(first, second, strict=True) if math.isfinite(a) or math.isfinite(b)
    )


def test_a_quantity_under_two_keys_has_one_value_and_one_interval():
    known: dict[str, list[tuple[str, tuple[float, ...]]]] = {}
    for key, values in with_interval().items():
        for name in quantities(key):
            known.setdefault(name, []).append((key, values))
    for key, (name, values) in claimed().items():
        known.setdefault(name, []).append((key, values))
    several = {name: places for name, places in known.items() if len(places) > 1}
    differ = []
    for name, ((first, values), *others) in several.items():
        # Shares are printed with two decimals by the claims, and in percent with one elsewhere.
        digits = 0.55 if name.endswith("/busy") else 0.051 if "%" in results().get(first, "%") else 0.0051
        differ += [f"{name}: {first} {values}, {key} {more}" for key, more in others if apart(values, more, digits)]
    assert not differ, "\n".join(differ)
    assert sum(any(key.startswith("claims/") for key, _ in places) for places in several.values()) >= 50
    assert sum(name.startswith("runs of ") for name in several) >= 200


def test_the_cells_of_the_claims_tables_are_the_keyed_values():
    listed = (TABLES / "claims.tex").read_text()
    every = results()
    shown = [key.removesuffix("/estimate") for key in every if key.startswith("claims/") and key.endswith("/estimate")]
    assert len(shown) > 50
    for base in shown:
        verdict, n = every[f"{base}/verdict"], every[f"{base}/repetitions"]
        text = f"{{{every[f'{base}/effect']} ({n}"
        assert verdict == "not comparable" or text in listed, f"{base}: {text!r} is not in the list of claims"
        interval = every[f"{base}/interval"]
        bounds = numbers(interval) if interval.startswith("[") else []
        assert numbers(every[f"{base}/effect"]) == [*numbers(every[f"{base}/estimate"]), *bounds]
    rows = [line for line in listed.splitlines() if line.startswith(r"\claimrow")]
    with_effect = [row for row in rows if re.search(r"\(\d+[^)]*\)\}\{", row)]
    assert len(with_effect) == sum(every[f"{base}/verdict"] != "not comparable" for base in shown)
    assert not any("{not comparable}" in row for row in with_effect)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["keys", "claims"])
def test_no_interval_leaves_the_bounds_of_its_quantity(name):
    if name == "keys":
        every = with_interval()
    else:
        units = {claim.id: claim.unit for claim in ledger.load()}
        ratios = {key: values for key, (_, values) in claimed().items() if units[key.split("/")[1]] == "%"}
        every = ratios
    outside = []
    for key, values in every.items():
        least, most = next((low, high) for pattern, low, high in BOUNDS if pattern.search(key))
        if not all(least - 1e-9 <= value <= most + 1e-9 for value in values):
            outside.append(f"{key} {values}")
        if len(values) == 3:
            assert values[1] <= values[0] <= values[2], key
    assert every
    assert not outside, outside[:5]


def test_fewer_repetitions_than_an_interval_needs_have_none():
    every = results()
    for key, text in every.items():
        if key.startswith("claims/") and key.endswith("/repetitions") and numbers(text)[0] < 3:
            interval = every[key.replace("/repetitions", "/interval")]
            assert interval.startswith("no interval"), f"{key}: {interval}"
