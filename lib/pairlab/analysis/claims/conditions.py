"""The conditions under which papers state their findings, and which of them the runs of a claim do not meet.

A paper says what it saw on its own testbed: with Open vSwitch in the kernel, under one congestion control, over a
minute, with certain numbers of pairs. Runs under other conditions may well differ, and neither confirm nor contradict
it: their verdict is "not comparable", with the condition in words. What an older run did not record is not known to be
met.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from pairlab.analysis.claims.cells import pair_counts

#: The drivers that are a switch with a datapath of its own, and by which name a run records the datapaths.
SWITCHES = ("ovs",)
DATAPATHS = {"kernel": "system", "user space": "netdev"}
#: Why the hosts of runs are not machines, by run_table's host_kinds.
_OTHER_HOSTS = {
    "": "what the hosts are was not recorded, and they must be machines of their own",
    "namespace": "hosts are namespaces that share a kernel and its CPUs, with no hypervisor and no network card between"
    " them",
}
_BOUNDS = {
    "at least": lambda seconds, bound: seconds >= bound,
    "more than": lambda seconds, bound: seconds > bound,
    "at most": lambda seconds, bound: seconds <= bound,
}


class Requires(BaseModel):
    """What the runs of a claim must have been; what is left out is not asked for.

    congestion_control: of TCP, in force. datapath: of Open vSwitch, where its runs are read. duration_s: of flows
    without an end, "at least 60", "more than 60" or "at most 60". pairs: numbers that must have been measured, each a
    number or a range such as "2 to 4", of which one must have been. points: how many numbers of pairs, ratios or sizes
    the effect rests on, at least. hosts: that each is a machine, where there are several: what the kernel that they
    share would do is not what a hypervisor or a network card does; or also that those called physical and virtual
    (Spec.host_kind) are so by what was recorded. loops_per_cpu: busy loops beside the pairs, for each CPU, where there
    are any. containers: that endpoints are containers of an engine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,15}$")] | None = None
    datapath: Literal["kernel", "user space"] | None = None
    duration_s: Annotated[str, Field(pattern=r"^(at least|more than|at most) \d+(\.\d+)?$")] | None = None
    pairs: list[Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^\d+ to \d+$")]] = []
    points: int = Field(default=0, ge=0)
    hosts: Literal["machines", "physical and virtual machines"] | None = None
    loops_per_cpu: float | None = Field(default=None, gt=0)
    containers: bool = False

    def __str__(self) -> str:
        """In words; empty where nothing is asked for."""
        told = {
            "TCP {}": self.congestion_control,
            "Open vSwitch, where it is read, with the {} datapath": self.datapath,
            "flows without an end of {} s": self.duration_s,
            "measured with {} pairs": ", ".join(map(str, self.pairs)),
            "at least {} numbers of pairs, ratios or sizes": self.points,
            "hosts that are {} of their own": self.hosts,
            "{:g} busy loops for each CPU, where there are any": self.loops_per_cpu,
            "containers of an engine": self.containers,
        }
        return "; ".join(form.format(value) for form, value in told.items() if value)


class Unmet(NamedTuple):
    """A condition that is not met, or not known to be: its name in short, and in words."""

    name: str
    why: str


def under(runs: pd.DataFrame, requires: Requires) -> pd.DataFrame:
    """Of the runs of each experiment, those that ask for one congestion control: the one required, where there are any.

    Else those that leave it to the kernel. runs: as run_table.reduce. To ask for another is a question of its own.
    """
    wanted = requires.congestion_control
    parts = []
    for _, part in runs.groupby("experiment", sort=False):
        asked = part["congestion_control"]
        plain = part[asked == ""]
        met = wanted is not None and (asked == wanted).any() and not (plain["control_in_force"] == wanted).any()
        fallback = "" if len(plain) else asked.mode().iloc[0]
        parts.append(part[asked == (wanted if met else fallback)])
    return pd.concat(parts) if parts else runs


def unmet(requires: Requires, runs: pd.DataFrame, drivers: Sequence[str], points: int | None = None) -> list[Unmet]:
    """The conditions that these runs of a claim do not meet.

    runs: as run_table.reduce, of the claim's experiments and of one system. drivers: those that the claim names; none:
    all. points: of the effect, None where it is not known.
    """
    read = runs[runs["driver"].isin(drivers) | runs["known_as"].isin(drivers)] if drivers else runs
    bulk = read[~read["ends"].astype(bool)]
    switches = read[read["driver"].isin(SWITCHES)]
    found: list[Unmet] = []
    if requires.congestion_control:
        found += _differs(
            "congestion control", read["control_in_force"], requires.congestion_control, "TCP ran {}, not {}", "TCP"
        )
    if requires.datapath:
        names = {recorded: name for name, recorded in DATAPATHS.items()}
        shown = switches["datapath"].map(lambda recorded: names.get(recorded, recorded))
        form = "Open vSwitch forwarded with the {} datapath, not that of the {}"
        found += _differs("datapath", shown, requires.datapath, form, "Open vSwitch")
    if requires.duration_s and len(bulk):
        found += _too_short_or_long(requires.duration_s, sorted(bulk["duration_s"].unique()))
    if requires.pairs:
        found += _no_such_pairs(requires.pairs, pair_counts(read, drivers or sorted(read["driver"].unique())))
    if points is not None and points < requires.points:
        why = f"it rests on {points} numbers of pairs, ratios or sizes, and needs {requires.points}"
        found.append(Unmet("points", why))
    if requires.hosts:
        misnamed = _misnamed(runs) if requires.hosts != "machines" else []
        others = [Unmet("hosts", _OTHER_HOSTS[kinds]) for kinds in sorted({*read["host_kinds"]} - {"machine"})]
        found += [*misnamed, *others][:1]
    if requires.loops_per_cpu:
        found += _other_loops(requires.loops_per_cpu, read["loops_per_cpu"])
    if requires.containers and (read["backend"] == "netns").any():
        found.append(Unmet("containers", "endpoints are namespaces, which no engine starts, and not containers"))
    return found


def _differs(name: str, values: pd.Series, wanted: str, form: str, whose: str) -> list[Unmet]:
    others = sorted(set(values) - {wanted})
    if known := [value for value in others if value]:
        return [Unmet(name, form.format(" and ".join(known), wanted))]
    return [Unmet(name, f"the {name} of {whose} was not recorded, and must be {wanted}")] if others else []


def _misnamed(runs: pd.DataFrame) -> list[Unmet]:
    """Hosts called physical or virtual that are not, or not known to be: a spec only names them."""
    found = []
    for kind, part in runs[runs["host_kind"] != ""].groupby("host_kind"):
        for seen in sorted(set(part["virtualization"])):
            is_virtual = seen == "virtual machine"
            if not seen:
                found.append(Unmet("hosts", f"what the hosts called {kind} are was not recorded"))
            elif is_virtual != (kind == "virtual"):
                what = "a virtual machine" if is_virtual else "no virtual machine"
                found.append(Unmet("hosts", f"the hosts called {kind} are on {what}"))
    return found


def _too_short_or_long(required: str, durations_s: Sequence[float]) -> list[Unmet]:
    words, bound = required.rsplit(" ", 1)
    wrong = [seconds for seconds in durations_s if not _BOUNDS[words](seconds, float(bound))]
    if not wrong:
        return []
    lasted = " and ".join(f"{seconds:g}" for seconds in wrong)
    return [Unmet("duration", f"the runs last {lasted} s, and must last {required} s")]


def _other_loops(required: float, per_cpu: pd.Series) -> list[Unmet]:
    """Of runs with busy loops beside them; of these, the effect is of those that are nearest."""
    with_loops = per_cpu[per_cpu > 0]
    if with_loops.empty or (with_loops - required).abs().min() < 1e-9:
        return []
    there = " and ".join(f"{each:g}" for each in sorted(with_loops.unique()))
    return [Unmet("busy loops", f"{there} busy loops ran for each CPU, not {required:g}")]


def _no_such_pairs(required: Sequence[int | str], counts: Sequence[int]) -> list[Unmet]:
    absent = []
    for each in required:
        numbers = [int(number) for number in re.findall(r"\d+", str(each))]
        if not any(numbers[0] <= count <= numbers[-1] for count in counts):
            absent.append(str(each))
    if not absent:
        return []
    there = ", ".join(map(str, counts)) or "none"
    return [Unmet("pairs", f"nothing was measured with {' and with '.join(absent)} pairs (there are: {there})")]
