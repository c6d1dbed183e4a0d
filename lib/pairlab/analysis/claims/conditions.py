"""The conditions under which papers state their findings, and those that the runs of a claim do not meet.

A paper reports its own testbed: with Open vSwitch in the kernel, under one congestion control, over a minute, with
certain numbers of pairs. Runs under other conditions may well differ, and neither confirm nor contradict it: their
verdict is "not comparable", with the condition in words. A condition that an older run did not record is not known to
be met.
"""

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from pairlab.analysis.claims.cells import pair_counts
from pairlab.analysis.repetitions import QUANTITIES

#: The drivers that are a switch with a datapath of its own, and the recorded names of the datapaths.
SWITCHES = ("ovs",)
DATAPATHS = {"kernel": "system", "user space": "netdev"}
#: Why the hosts of runs are no machines, by run_table's host_kinds.
_OTHER_HOSTS = {
    "": "what the hosts are was not recorded, and they must be machines of their own",
    "namespace": "the hosts share one kernel: they are namespaces of one machine and share its CPUs, with no hypervisor"
    " and no network card between them",
    "uml": "the hosts have kernels of their own on one machine, in user mode, where system calls cost ten times as"
    " much",
}
_BOUNDS = {"at least": operator.ge, "more than": operator.gt, "at most": operator.le}


class Requires(BaseModel):
    """The conditions on the runs of a claim; a field that is left out asks for nothing.

    congestion_control: of TCP, in force. datapath: of Open vSwitch, if its runs are read. duration_s: of flows without
    an end, "at least 60", "more than 60" or "at most 60". pairs: numbers that must have been measured, each a number or
    a range such as "2 to 4", of which one must have been. points: the least count of numbers of pairs, ratios or sizes
    behind the effect. hosts, if there are several: each is a machine, as a shared kernel behaves unlike a hypervisor or
    a network card; or also, those called physical and virtual (Spec.host_kind) are recorded as such; or only, each has
    a kernel of its own, if the kernels' forwarding decides, and not a program, a processor or a network card.
    loops_per_cpu: busy loops beside the pairs, for each CPU, if there are any. containers: endpoints are containers of
    an engine. cpus: the least number that the endpoints may use. udp_lost: the share of lost datagrams in a run of UDP,
    "at most 0.5".
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,15}$")] | None = None
    datapath: Literal["kernel", "user space"] | None = None
    duration_s: Annotated[str, Field(pattern=r"^(at least|more than|at most) \d+(\.\d+)?$")] | None = None
    pairs: list[Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^\d+ to \d+$")]] = []
    points: int = Field(default=0, ge=0)
    hosts: Literal["own kernels", "machines", "physical and virtual machines"] | None = None
    loops_per_cpu: float | None = Field(default=None, gt=0)
    containers: bool = False
    cpus: int = Field(default=0, ge=0)
    udp_lost: Annotated[str, Field(pattern=r"^at most 0\.\d+$")] | None = None

    def __str__(self) -> str:
        """The conditions in words; empty without any."""
        forms = {
            "TCP {}": self.congestion_control,
            "Open vSwitch, where it is read, with the {} datapath": self.datapath,
            "flows without an end of {} s": self.duration_s,
            "measured with {} pairs": ", ".join(map(str, self.pairs)),
            "at least {} numbers of pairs, ratios or sizes": self.points,
            "hosts that are {} of their own": self.hosts if self.hosts != "own kernels" else None,
            "hosts with {}": "kernels of their own" if self.hosts == "own kernels" else None,
            "{:g} busy loops for each CPU, where there are any": self.loops_per_cpu,
            "containers of an engine": self.containers,
            "at least {} CPUs": self.cpus,
            "UDP of whose datagrams {} are lost": self.udp_lost,
        }
        return "; ".join(form.format(value) for form, value in forms.items() if value)


class Unmet(NamedTuple):
    """A condition that is not met, or not known to be: its short name, and the reason in words."""

    name: str
    why: str


def under(runs: pd.DataFrame, requires: Requires) -> pd.DataFrame:
    """The runs of each experiment under one congestion control: the required one if some ask for it.

    Else those that leave it to the kernel. runs: as run_table.reduce. Other congestion controls are another question.
    """
    wanted = requires.congestion_control
    parts = []
    for _, part in runs.groupby("experiment", sort=False):
        controls = part["congestion_control"]
        plain = part[controls == ""]
        met = wanted is not None and (controls == wanted).any() and not (plain["control_in_force"] == wanted).any()
        fallback = "" if len(plain) else controls.mode().iloc[0]
        parts.append(part[controls == (wanted if met else fallback)])
    return pd.concat(parts) if parts else runs


def unmet(
    requires: Requires,
    runs: pd.DataFrame,
    drivers: Sequence[str],
    points: int | None = None,
    quantities: Sequence[str] = (),
) -> list[Unmet]:
    """The conditions that these runs of a claim do not meet.

    runs: as run_table.reduce, of the claim's experiments and of one system. drivers: those that the claim names; none:
    all. points: of the effect, None if unknown. quantities: that it reads; the CPUs' time is never that of a host whose
    kernel is in user mode.
    """
    read = runs[runs["driver"].isin(drivers) | runs["known_as"].isin(drivers)] if drivers else runs
    of_cpus = any(QUANTITIES[name].of_cpus for name in quantities if name in QUANTITIES)
    return [*_of_traffic(requires, read, drivers, points), *_of_hosts(requires, read, runs, of_cpus)]


def _of_traffic(requires: Requires, read: pd.DataFrame, drivers: Sequence[str], points: int | None) -> Iterator[Unmet]:
    if wanted := requires.congestion_control:
        yield from _differs("congestion control", read["control_in_force"], wanted, "TCP ran {}, not {}", "TCP")
    if wanted := requires.datapath:
        names = {recorded: name for name, recorded in DATAPATHS.items()}
        datapaths = read.loc[read["driver"].isin(SWITCHES), "datapath"].map(lambda name: names.get(name, name))
        form = "Open vSwitch forwarded with the {} datapath, not that of the {}"
        yield from _differs("datapath", datapaths, wanted, form, "Open vSwitch")
    if requires.duration_s:
        words, bound = requires.duration_s.rsplit(" ", 1)
        lasted_s = sorted(read.loc[~read["ends"].astype(bool), "duration_s"].unique())
        if unfit := [f"{each:g}" for each in lasted_s if not _BOUNDS[words](each, float(bound))]:
            yield Unmet("duration", f"the runs last {' and '.join(unfit)} s, and must last {requires.duration_s} s")
    if requires.pairs:
        counts = pair_counts(read, drivers or sorted(read["driver"].unique()))
        if absent := [str(each) for each in requires.pairs if not _has_been(each, counts)]:
            measured = ", ".join(map(str, counts)) or "none"
            yield Unmet("pairs", f"nothing was measured with {' and with '.join(absent)} pairs (there are: {measured})")
    if len(versions := sorted({*read.get("work_version", ())} - {""})) > 1:
        why = f"the runs are by versions {' and '.join(versions)} of their tool, of which each does other work"
        yield Unmet("version", why)
    if points is not None and points < requires.points:
        yield Unmet("points", f"it rests on {points} numbers of pairs, ratios or sizes, and needs {requires.points}")


def _differs(name: str, values: pd.Series, wanted: str, form: str, whose: str) -> Iterator[Unmet]:
    others = sorted(set(values) - {wanted})
    if known := [value for value in others if value]:
        yield Unmet(name, form.format(" and ".join(known), wanted))
    elif others:
        yield Unmet(name, f"the {name} of {whose} was not recorded, and must be {wanted}")


def _has_been(required: int | str, counts: Sequence[int]) -> bool:
    numbers = [int(number) for number in re.findall(r"\d+", str(required))]
    return any(numbers[0] <= count <= numbers[-1] for count in counts)


def _of_hosts(requires: Requires, read: pd.DataFrame, runs: pd.DataFrame, of_cpus: bool) -> Iterator[Unmet]:
    reasons: list[str] = []
    if requires.hosts:
        enough = {"machine", *(["uml"] if requires.hosts == "own kernels" else [])}
        reasons += [_OTHER_HOSTS[kinds] for kinds in sorted({*read["host_kinds"]} - enough)]
        reasons += _misnamed(runs) if requires.hosts == "physical and virtual machines" else []
    if of_cpus and (read["backend"] == "uml").any():
        reasons.append("the CPUs' time is the machine's, on which the hosts' kernels are programs in user mode")
    yield from (Unmet("hosts", why) for why in reasons[:1])
    if requires.loops_per_cpu:
        per_cpu = read.loc[read["loops_per_cpu"] > 0, "loops_per_cpu"]  # the effect reads the nearest ones
        if len(per_cpu) and (per_cpu - requires.loops_per_cpu).abs().min() >= 1e-9:
            counts = " and ".join(f"{each:g}" for each in sorted(per_cpu.unique()))
            yield Unmet("busy loops", f"{counts} busy loops ran for each CPU, not {requires.loops_per_cpu:g}")
    if requires.containers and (read["backend"] != "docker").any():
        yield Unmet("containers", "endpoints are namespaces, which no engine starts, and not containers")
    used = int(read["cores_used"].min()) if len(read) and read["cores_used"].notna().all() else 0
    if requires.cpus > used:
        why = f"they had {used} CPUs" if used else "how many CPUs they had was not recorded"
        yield Unmet("CPUs", f"{why}, and need at least {requires.cpus}")
    if requires.udp_lost:
        lost, most = read.loc[read["udp_share"] > 0, "udp_lost"], float(requires.udp_lost.removeprefix("at most "))
        unknown = bool(lost.isna().any())
        if unknown or lost.max() > most:
            of = "how many of the datagrams" if unknown else f"{100 * lost.max():.0f} % of the datagrams"
            why = f"{of} were lost{' was not counted' * unknown}, and at most {100 * most:.0f} % may be"
            yield Unmet("lost datagrams", why)


def _misnamed(runs: pd.DataFrame) -> Iterator[str]:
    """Why hosts called physical or virtual are not, or not known to be: a spec only claims it."""
    for kind, part in runs[runs["host_kind"] != ""].groupby("host_kind"):
        for recorded in sorted(set(part["virtualization"])):
            is_virtual = recorded == "virtual machine"
            if recorded in ("", "unknown"):
                yield f"what the hosts called {kind} are {'is not known' if recorded else 'was not recorded'}"
            elif is_virtual != (kind == "virtual"):
                yield f"the hosts called {kind} are on {'a' if is_virtual else 'no'} virtual machine"
