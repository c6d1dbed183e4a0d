"""One quantity has one value: all keyed numbers of the paper and all cells of the claims' tables, over runs/reference.

Two notebooks that print the same quantity under two keys must print the same value and interval; every key with an
interval must be known here, so that a new one says which quantity it is; and no interval leaves its quantity's bounds.
"""

import math
import re
from functools import cache

import pytest

from pairlab import paths
from pairlab.analysis.claims import ledger

VALUES = paths.ROOT / "paper" / "values" / "reference"
TABLES = paths.ROOT / "paper" / "tables" / "reference"
_RESULT = re.compile(r"\\defineresult\{([^}]+)\}\{(.*)\}$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf)")
SYSTEM, REST = r"(?P<system>(?:netns|docker)-[a-z0-9]+)", r"(?P<driver>[a-z]+)/(?P<pairs>\d+)"

#: Topics whose keys are each a quantity of their own, that no other notebook and no claim has.
WHOLE = (
    *("beyond", "containerization", "multi-host", "packet-size", "virtualization"),
    *("by-network", "all-to-all", "launch-time", "networks"),
)
#: By topic: the keys that have an interval, and which quantity each is.
QUANTITIES = {
    "throughput": {
        rf"(?:{SYSTEM}/)?{REST}/(?P<what>total|client)": "throughput {what} {system} {driver} {pairs}",
        rf"{SYSTEM}/(?P<rank>highest|lowest)/total": "throughput {rank} {system}",
    },
    "fairness": {rf"{SYSTEM}/(?P<driver>[a-z]+)/(?P<what>min|max|ratio|jain)": "fairness {what} {system} {driver}"},
    "retransmissions": {
        rf"{SYSTEM}/{REST}/(?P<what>pearson|spearman|kendall)": "correlation {what} {system} {driver} {pairs}",
    },
    "fct": {
        rf"{SYSTEM}/{REST}/(?P<what>(?:intended-)?p[\d.]+)": "fct {what} {system} {driver} {pairs}",
        rf"{SYSTEM}/{REST}/(?P<q>p[\d.]+)-over-bridge": "fct {q} {driver} over bridge {system} {pairs}",
        rf"{SYSTEM}/(?P<driver>[a-z]+)/(?P<step>\d+-\d+)/(?P<q>p[\d.]+)": "fct {q} change {system} {driver} {step}",
        rf"{SYSTEM}/shown/(?P<rank>fastest|slowest)/p50": "fct {rank} {system}",
    },
    "elephant-mice": {
        rf"{SYSTEM}/{REST}/(?P<what>(?:mouse|elephant)-p[\d.]+)": "mice {what} {system} {driver} {pairs}",
        rf"{SYSTEM}/{REST}/mice-over-plain-(?P<q>p[\d.]+)": "mice over plain {q} {system} {driver} {pairs}",
        rf"{SYSTEM}/(?P<pairs>\d+)/spread-(?P<role>[a-z]+)": "mice spread {role} {system} {pairs}",
        rf"{SYSTEM}/shown/spread-(?P<role>[a-z]+)": "mice spread {role} {system} shown",
    },
    "core-ratio": {
        rf"{SYSTEM}/(?P<driver>[a-z]+)/(?P<place>[\dpc.-]+)/(?P<what>[a-z-]+)": (
            "cores {what} {system} {driver} {place}"
        ),
        rf"{SYSTEM}/(?P<place>[\dpc.-]+)/(?P<what>[a-z]+-gap)": "cores {what} {system} {place}",
    },
    "pinning": {
        rf"{SYSTEM}/(?P<driver>[a-z]+)/(?P<policy>[a-z-]+)(?:/(?P<pairs>\d+))?/(?P<what>total|change)": (
            "pinning {what} {system} {driver} {policy} {pairs}"
        ),
    },
    "message-size": {
        rf"{SYSTEM}/{REST}/(?P<size>\d+)/(?P<what>total|change)": "message {what} {system} {driver} {pairs} {size}",
    },
    "cpu": {
        rf"{SYSTEM}/{REST}/total": "throughput total {system} {driver} {pairs}",
        rf"{SYSTEM}/{REST}/(?P<what>[a-z-]+)": "cpu {what} {system} {driver} {pairs}",
    },
    "starting": {
        rf"{SYSTEM}/{REST}/(?P<spacing>[\d-]+ms)/(?P<q>p[\d.]+)": "starting {q} {system} {driver} {pairs} {spacing}",
        rf"{SYSTEM}/(?P<driver>[a-z]+)/(?P<spacing>[\d-]+ms)/(?P<what>p[\d.]+-change|explained)": (
            "starting {what} {system} {driver} {spacing}"
        ),
    },
    "causes": {
        rf"{SYSTEM}/(?P<driver>[a-z]+)/(?P<control>[a-z]+)/(?P<pairs>[\d-]+)/(?P<what>[a-z-]+)": (
            "causes {what} {system} {driver} {control} {pairs}"
        ),
    },
    **{
        topic: {
            rf"{SYSTEM}/(?P<driver>[a-z-]+)/(?P<place>[123])/(?P<beside>[a-z0-9-]+)/(?P<what>[a-z-]+)": (
                "placed {what} {system} {driver} {place} {beside}"
            )
        }
        for topic in ("placement", "interference", "congestion")
    },
    "dc-simulation": {
        rf"{SYSTEM}/(?P<driver>[a-z-]+)/(?P<load>[a-z0-9.-]+)/(?P<what>run-time|carried|against-host)": (
            "traffic {what} {system} {driver} {load}"
        ),
        rf"{SYSTEM}/(?P<driver>[a-z-]+)/(?P<load>[a-z0-9.-]+)/(?P<sizes>[a-z-]+)/(?P<what>p[\d.]+)": (
            "traffic {what} of {sizes} {system} {driver} {load}"
        ),
    },
    "single-host-modes": {
        rf"{SYSTEM}/(?P<driver>[a-z-]+)/(?P<what>[a-z-]+)/(?P<size>\d+)/(?P<of>[a-z-]+)": (
            "modes {of} {what} {size} {system} {driver}"
        ),
    },
    "cost": {
        rf"{SYSTEM}/(?P<driver>[a-z-]+)/(?P<hosts>\d+)/(?P<pairs>\d+)/(?P<what>[a-z-]+)": (
            "cost {what} {system} {driver} {hosts} {pairs}"
        ),
    },
    **{topic: {r"(?P<all>[a-z0-9./-]+)": f"{topic} {{all}}"} for topic in WHOLE},
}
#: The least and the most of quantities, by the last part of their keys; what is not named is above zero.
CHANGES = re.compile(r"change$|against-[a-z]+$|over-bridge$|over-plain|\d+-\d+/p[\d.]+$")
BOUNDS = (
    (re.compile(r"jain-change$"), -1, 1),
    (re.compile(r"explained$"), -math.inf, math.inf),
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


def quantity(key: str) -> str | None:
    topic, _, rest = key.partition("/")
    for pattern, name in QUANTITIES.get(topic, {}).items():
        if found := re.fullmatch(pattern, rest):
            return name.format_map({**found.groupdict(default="")})
    return None


def claimed() -> dict[str, tuple[str, tuple[float, ...]]]:
    """By a claim's key: the quantity of its effect, as notebooks name it, and its value and bounds there."""
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
    """The quantity of an effect as a notebook prints it, and how its value becomes the notebook's."""
    quantity, of, over = claim.effect.quantity, claim.effect.of, dict(claim.effect.over)
    driver, pairs = of["driver"], re.findall(r"\d+(?= pairs|\s*→)", cells)
    if quantity == "fct_p99_s" and _decided_elsewhere(claim, system, "-".join(pairs)):
        return f"{claim.instead} p99-change {system} {driver} 0-ms", 1, 0
    if quantity == "fct_p99_s":
        return f"fct p99 change {system} {driver} {'-'.join(pairs)}", 1, 0
    if quantity == "fct_median_s" and over == {"driver": "bridge"}:
        return f"fct p50 {driver} over bridge {system} {pairs[0]}", 1, 0
    if quantity == "mouse_median_s" and "experiment" in over:
        return f"mice over plain p50 {system} {driver} {pairs[0]}", 1, 0
    if quantity == "busy" and not over:
        return f"cpu busy {system} {driver} {pairs[0]}", 100, 0
    if quantity == "spearman_z":
        return f"correlation spearman {system} {driver} {pairs[0]}", 1, 0
    if quantity == "elephant_median_s":
        return f"mice spread ratio {system} {pairs[0]}", 1, 0
    if "allocation" in of and "experiment" in over and quantity in ("total_bps", "latency_mean_s"):
        beside = {"congestion": "1-background-pair", "interference": "2-busy-loops"}[of["experiment"]]
        return f"placed against-alone {system} {driver} {of['allocation']} {beside}", 1, 0
    if quantity == "service_demand_s" and over == {"driver": "process"}:
        return f"cost change {system} {driver} 2 1", 1, 0
    if "direction" in of:
        what = {"up": "upload", "down": "download"}[of["direction"]]
        return f"modes against-process {what} 0 {system} {driver}", 1, 0
    if "pinning" in of:
        return f"pinning change {system} {driver} {of['pinning']} ", 1, 0
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


def test_every_key_with_an_interval_is_a_known_quantity():
    unknown = [key for key in with_interval() if quantity(key) is None]
    assert not unknown, f"say in QUANTITIES which quantity these are: {unknown[:5]}"
    assert len(with_interval()) > 500


def test_a_quantity_under_two_keys_has_one_value_and_one_interval():
    known: dict[str, list[tuple[str, tuple[float, ...]]]] = {}
    for key, values in with_interval().items():
        known.setdefault(quantity(key), []).append((key, values))
    for key, (name, values) in claimed().items():
        known.setdefault(name, []).append((key, values))
    several = {name: places for name, places in known.items() if len(places) > 1}
    differ = []
    for name, ((first, values), *others) in several.items():
        # Shares are printed with two decimals by the claims, and in percent with one elsewhere.
        digits = 0.55 if name.startswith("cpu busy") else 0.051 if "%" in results().get(first, "%") else 0.0051
        differ += [f"{name}: {first} {values}, {key} {more}" for key, more in others if apart(values, more, digits)]
    assert not differ, "\n".join(differ)
    assert sum(any(key.startswith("claims/") for key, _ in places) for places in several.values()) >= 20


def test_the_cells_of_the_claims_tables_are_the_keyed_values():
    listed = (TABLES / "claims.tex").read_text()
    every = results()
    shown = [key.removesuffix("/estimate") for key in every if key.startswith("claims/") and key.endswith("/estimate")]
    assert len(shown) > 50
    for base in shown:
        verdict, n = every[f"{base}/verdict"], every[f"{base}/repetitions"]
        text = r"\claimincomparable~" if verdict == "not comparable" else f"~{every[f'{base}/effect']} ({n}"
        assert text in listed, f"{base}: {text!r} is not in the list of claims"
        interval = every[f"{base}/interval"]
        bounds = numbers(interval) if interval.startswith("[") else []
        assert numbers(every[f"{base}/effect"]) == [*numbers(every[f"{base}/estimate"]), *bounds]


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
