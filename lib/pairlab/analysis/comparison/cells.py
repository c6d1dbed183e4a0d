"""Which runs are alike, in what others differ, and both as text: "macvlan", "20 pairs", "pinning spread"."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pairlab.analysis import selection
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.selection import LINKS, MACHINE, MEMORY
from pairlab.base import units
from pairlab.errors import AnalysisError
from pairlab.model import blocks, cpu_use
from pairlab.model import environment as environments
from pairlab.model.conditions import Conditions, differing
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Mark, Spec, marked

#: What sets the repetitions of a cell apart from each other.
REPLICATE = marked(Mark.REPLICATE)
#: The fields of Spec that runs can be compared by: all others, but what a run is only judged by.
FIELDS = tuple(name for name in Spec.model_fields if name not in (*REPLICATE, *marked(Mark.BOUND)))
#: What it can be of a run's environment; and what of that runs of one cell share.
ENVIRONMENT = ("host", "kernel", "engine", "tool", "switch", "code", "label")
PLACE = ("host", "kernel", "label")
#: What of selection.in_force a field decides by itself.
_DECIDES = {"congestion_control": "congestion control", "driver": "datapath"}
#: Fields whose values say by themselves what they are; and those that are named of a cell even with their default.
_PLAIN = ("experiment", "backend", "driver", "workload", *ENVIRONMENT, *_DECIDES.values())
_ALWAYS = ("experiment", "backend", "workload", "driver", "pairs")

#: What is compared by these has links of its own.
OF_LINKS = ("driver", "backend", "hosts", "placement", "mtu_bytes")
#: Recorded facts (recorded.FACTS), and what they are called in words.
FACTS = {
    **{name: name for name in (*MEMORY, *LINKS, "tcp_ecn", "tcp_sack", "tcp_timestamps")},
    **{name: name.replace("_", " ") for name in ("default_qdisc", "rmem_max", "wmem_max")},
    **{name: name.replace("_", " ") for name in ("cpu_governor", "cpuidle_driver", "memory_bytes")},
    "qdiscs": "the queueing disciplines of links",
    "pairlab": "the version of pairlab",
    "harness_cpus": "the CPUs that pairlab may use",
    "cpu_weights": "the weights of pairlab's control groups",
    "urgency": "how urgent the release was",
    "held": "where clients were held before it",
}
#: Those of FACTS that are among the machine's settings, where these were recorded.
_IN_CONDITIONS = ("default_qdisc", "rmem_max", "wmem_max", "cpu_governor", "cpuidle_driver")
#: So many settings are named; more are counted.
_NAMED = 3
#: From this difference on, in shares of the CPU time, what others used is named.
FOREIGN = 0.05

Cell = tuple[dict[str, Any], dict[Any, list[Run]]]


def environments_of(runs: Iterable[Run]) -> dict[Environment, dict[str, str]]:
    """The values of ENVIRONMENT for each environment of these runs; an older run's unknown machine is taken for the
    known one.
    """
    same = environments.same(run.environment for run in runs)
    hosts = environments.host_names(same)
    return {
        environment: {**{name: getattr(whole, name) for name in ENVIRONMENT}, "host": hosts[environment]}
        for environment, whole in same.items()
    }


def values_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The parameters of each run and the values of its environment, by name."""
    on = environments_of(runs)
    return [run.spec.model_dump() | on[run.environment] for run in runs]


def varied(runs: Iterable[Run]) -> dict[str, list]:
    """The fields in which these runs differ beside the repetition, and their values: what they can be compared by."""
    rows = values_of(list(runs))
    values = {name: sorted({row[name] for row in rows}) for name in (*FIELDS, *PLACE)}
    return {name: found for name, found in values.items() if len(found) > 1}


def cells(runs: Sequence[Run], by: str, over: str = "") -> list[Cell]:
    """What the runs of a cell have in common, and its runs by the value of `by`; all in order.

    over: "host", where runs of several hosts and kernels share a cell.
    """
    found: dict[tuple, dict[Any, list[Run]]] = {}
    shared = [name for name in (*FIELDS, *(("label",) if over else PLACE)) if name != by]
    runs = sorted(runs, key=lambda run: (run.spec.repetition, run.spec.seed))
    for run, values in zip(runs, values_of(runs), strict=True):
        in_force = {name: value for name, value in selection.in_force(run).items() if name != _DECIDES.get(by)}
        alike = tuple(({name: values[name] for name in shared} | in_force).items())
        found.setdefault(alike, {}).setdefault(values[by], []).append(run)
    order = ordered if by == "driver" else by_version if by in ENVIRONMENT else sorted
    return [(dict(alike), {value: sides[value] for value in order(sides)}) for alike, sides in sorted(found.items())]


def recorded_differences(
    by: str, sides: Sequence[tuple[Hashable, Sequence[Run]]], despite: Sequence[str] = ()
) -> list[str]:
    """A note for each of FACTS that was recorded on both sides and is not the same on both, and of what others used.

    Raises AnalysisError for a fact that surely matters, and is neither what is compared nor in `despite`; of two hosts
    or kernels it is a part of what is compared, and named.
    """
    runs = [its for _, its in sides]
    differ = {}
    known = all(run.conditions for side in runs for run in side)
    for name, words in FACTS.items():
        if known and name in _IN_CONDITIONS:
            continue
        of_sides = ({str(value) for run in its if (value := run.fact(name)) is not None} for its in runs)
        one, other = (" or ".join(sorted(values)) for values in of_sides)
        if one and other and one != other:
            differ[name] = f"{words} ({one} against {other})"
    settings, remark = _settings_that_differ(runs)
    differ |= {name: text for name, text in settings.items() if name in MACHINE}
    if by == "cpus_awake":  # which is done by that
        differ.pop("wakeup_latency_us", None)
    matters = () if by in ("host", "kernel") else (*MEMORY, *MACHINE, *(() if by in OF_LINKS else LINKS))
    grave = [name for name in differ if name in matters and name not in (by, *despite)]
    if grave:
        anyhow = " ".join(f"--despite {name}" for name in grave)
        raise AnalysisError(
            f"Not compared: the sides differ in {'; '.join(differ[name] for name in grave)}. Measure both alike, or"
            f" compare them nevertheless, with {anyhow}."
        )
    shapes = by in OF_LINKS or by.startswith(("link_", "uplink_"))
    of_links = (*(LINKS if by in OF_LINKS else ()), *(["qdiscs"] if shapes else ()))
    remarks = [f"they differ in {text}, too" for name, text in differ.items() if name not in (by, *of_links)]
    remarks += remark
    shares = [float(np.mean([cpu_use.others_share(run) for run in its])) if its else 0.0 for its in runs]
    if abs(shares[0] - shares[1]) >= FOREIGN:
        remarks.append(
            f"others used {shares[0]:.0%} of the CPU time beside one side, and {shares[1]:.0%} beside the other"
        )
    return remarks


def _settings_that_differ(sides: Sequence[Sequence[Run]]) -> tuple[dict[str, str], list[str]]:
    """The settings of the machine that are not the same on both sides, in words, and notes of those that are not among
    selection.MACHINE, or of sides that did not record any.

    Run against run within blocks, as the sides are compared; without blocks in common, side against side.
    """
    known = [[run for run in side if run.conditions] for side in sides]
    if not all(known):
        return {}, ["one side did not record the machine's settings"] if any(known) else []
    first, second = ({blocks.label_of(run): run.conditions for run in side} for side in known)
    pairs: list[tuple[Iterable[Conditions], Iterable[Conditions]]]
    pairs = [([first[label]], [second[label]]) for label in first if label in second]
    pairs = pairs or [(first.values(), second.values())]
    differ = {name: values for one, other in pairs for name, values in differing(one, other).items()}
    found = {name: f"{name} ({one} against {other})" for name, (one, other) in differ.items()}
    others = [text for name, text in found.items() if name not in MACHINE]
    more = f", and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return found, [f"the machine was set otherwise, too: {', '.join(others[:_NAMED])}{more}"] if others else []


def by_version(values: Iterable[str]) -> list[str]:
    """Texts in order, numbers within them by value: 6.2 before 6.18."""
    return sorted(values, key=lambda text: re.sub(r"\d+", lambda number: number[0].zfill(12), text))


def named(field: str, value: Any) -> str:
    """A value of a field of Spec, or of ENVIRONMENT, as a name."""
    if field in ("pairs", "hosts"):
        return f"{value} {field[:-1]}{'s' * (value != 1)}"
    if field == "kernel":
        return f"kernel {value}" if value else "a kernel that was not recorded"
    if field in _PLAIN and value != "":
        return str(value)
    if unit := units.unit_of(field):
        text = units.describe(value, unit)
        shown = text if units.read(text.replace(",", ""), unit) == value else f"{value:,g} {unit}"
        return f"{units.stem(field).replace('_', ' ')} {shown}"
    shown = "default" if value == "" else f"{value:g}" if isinstance(value, float) else value
    return f"{field.replace('_', ' ')} {shown}"


def described(alike: Mapping[str, Any]) -> str:
    """What runs have in common, as text: what is always named, and what is not the default."""
    return ", ".join(named(name, value) for name, value in alike.items() if name in _ALWAYS or _special(name, value))


def apart(alike: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """What sets a cell apart from others, as text; empty where nothing does."""
    return short(alike, [name for name, value in alike.items() if any(other[name] != value for other in others)])


def short(values: Mapping[str, Any], names: Iterable[str]) -> str:
    """These of the values as text, without defaults, whose values do not say what they are."""
    return ", ".join(named(name, values[name]) for name in names if name in _PLAIN or _special(name, values[name]))


def _special(name: str, value: Any) -> bool:
    """Whether a field has another value than by default; the number of pairs always counts as one."""
    return name == "pairs" or (name in Spec.model_fields and value != Spec.model_fields[name].default)
