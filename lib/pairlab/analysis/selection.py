"""Which runs answer a question, and what is said where there are none: a gap with a name, not an error."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from pairlab.errors import AnalysisError, MixedHosts, NoRuns
from pairlab.model import ground as grounds
from pairlab.model.ground import PLACEMENT_STUDY
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES
from pairlab.store.dataset import GROUND, Runs, load_runs

#: What a run of the papers has a value of. Whatever else a spec can ask for they left alone.
PAPERS = (
    *("experiment", "backend", "driver", "pairs", "workload", "repetition", "seed"),
    *("duration_s", "warmup_s", "interval_s", "flow_bytes", "elephant_share", "elephant_bytes"),
    *("max_skew_s", "max_foreign_cpu", "telemetry"),
)
#: What the papers left alone, or vary in experiments of its own only; and which these are.
BEYOND = tuple(name for name in Spec.model_fields if name not in PAPERS)
#: Those that paper M runs on several allocations of containers to hosts; and its traffic as of a data centre.
*PLACED, TRAFFIC = PLACEMENT_STUDY
OWN = {
    "cores": ("core-ratio", "pinning"),
    "pinning": ("pinning", "cpu-overhead"),
    "udp_share": ("cpu-overhead",),
    "message_bytes": ("message-size", "all-to-all"),
    "ranks": ("all-to-all",),
    "start_spacing_s": ("starting",),
    **dict.fromkeys(
        ("hosts", "placement"),
        ("networks", "latency", "all-to-all", "launch-time", "cpu-overhead", *PLACED, TRAFFIC),
    ),
    **dict.fromkeys(("launches", "idle_pairs"), ("launch-time",)),
    "uplink_rate_bps": (*PLACED, TRAFFIC),
    **dict.fromkeys(("background_pairs", "background_workload", "background_driver"), ("congestion",)),
    **dict.fromkeys(("interference_workers", "interference_load", "interference_where"), ("interference",)),
    "interference_tool": ("interference",),
    "cpus_awake": (*PLACED, "cpu-overhead"),
    **dict.fromkeys(("limited_uplinks", "flow_sizes", "offered_load_bps", "requests", "fan_out"), (TRAFFIC,)),
    **dict.fromkeys(("arrivals", "flows_per_pair"), (TRAFFIC,)),
}
#: What paper S varies on one host, and of containers and none.
MODES, CONTAINERS = "single-host-modes", "containerization"
for _name in ("direction", "message_bytes", "udp_share", "request_bytes", "response_bytes", "cpus_awake"):
    OWN[_name] = (*OWN.get(_name, ()), MODES)
for _name in ("hosts", "placement", "message_bytes", "udp_share", "cpus_awake"):
    OWN[_name] = (*OWN.get(_name, ()), CONTAINERS)
#: What it varies between hosts.
BETWEEN = ("multi-host", "packet-size", "virtualization")
for _name in ("hosts", "placement", "message_bytes", "udp_share", "request_bytes", "response_bytes", "cpus_awake"):
    OWN[_name] = (*OWN.get(_name, ()), *BETWEEN)
for _name in ("pinning", "host_kind"):
    OWN[_name] = (*OWN.get(_name, ()), *BETWEEN)


#: The congestion control of the papers' hosts: the default of Ubuntu 18.04.
PAPERS_CONTROL = "cubic"

#: What is never pooled.
SYSTEM = ("backend", "workload")
#: What one estimate is made for.
CELL = (*SYSTEM, "driver", "pairs")


class Selection(NamedTuple):
    """The runs of one question (none where there is a gap), and why there is no run that counts ("" where some do)."""

    runs: Runs
    gap: str


def plain(spec: Spec, usual: Mapping[str, object] = MappingProxyType({})) -> bool:
    """Whether a run is as the papers' are: it asks for nothing that only experiments beyond them vary.

    usual: by field, what plain runs ask for where that is not Spec's default (usual_value).
    """
    values = {name: usual.get(name, Spec.model_fields[name].default) for name in BEYOND}
    return all(getattr(spec, name) == value for name, value in values.items() if not _is_own(spec, name))


def usual_value(field: str, asked: Iterable[object]) -> object:
    """What plain runs ask for of a field, of what runs ask for: its default. But of congestion control the papers',
    where any asks for that and none for the default; others are what the runs beyond the papers vary.
    """
    known, default = set(asked), Spec.model_fields[field].default
    of_papers = field == "congestion_control" and PAPERS_CONTROL in known and default not in known
    return PAPERS_CONTROL if of_papers else default


def _usual(specs: Sequence[Spec]) -> dict[str, object]:
    """What plain runs among these ask for, of each field that only experiments beyond the papers vary: usual_value, or
    what all ask for alike.
    """
    found = {}
    for name in BEYOND:
        asked = {getattr(spec, name) for spec in specs if not _is_own(spec, name)}
        found[name] = asked.pop() if len(asked) == 1 else usual_value(name, asked)
    return found


def _is_own(spec: Spec, name: str) -> bool:
    """Whether a field beyond the papers is one that the experiment varies."""
    return spec.experiment in OWN.get(name, ())


#: Of which a run records what was in force; and what only watches.
_TOLD_ELSEWHERE = ("congestion_control", "profile")


def beyond_alike(specs: Sequence[Spec]) -> dict[str, object]:
    """By field, what all of these ask for alike and no run of the papers does, where their experiments do not vary it;
    but for what is told elsewhere.
    """
    usual = {name: value for name, value in _usual(specs).items() if name not in _TOLD_ELSEWHERE}
    return {name: value for name, value in usual.items() if value != Spec.model_fields[name].default}


def select(
    runs: str,
    *,
    experiment: str | Sequence[str],
    sweep: str = "",
    which: Callable[[Spec], bool] = lambda spec: True,
) -> Selection:
    """The runs of one experiment (or of several) below `runs`, of one sweep, if named, whose spec `which` accepts.

    which: may be `plain`, which then takes what these runs all ask for alike as usual.
    Without any that counts, the gap says so: analysis notebooks must work on what there is. Raises what load_runs
    raises but NoRuns.
    """
    names = (experiment,) if isinstance(experiment, str) else tuple(experiment)
    what = " and ".join(map(repr, names))
    try:
        loaded = load_runs(runs, experiment=names, sweep=sweep)
    except NoRuns as error:
        unread = str(error) if "left out" in str(error) else ""  # damaged, or newer: that is another gap than none
        return Selection(Runs((), experiments=names), unread or f"there are no runs of {what}")
    return among(loaded, which, what)


def among(loaded: Runs, which: Callable[[Spec], bool], what: str) -> Selection:
    """Those of loaded runs whose spec `which` accepts; without any that counts, the gap says that of `what`.

    Raises AnalysisError where hosts, or what was in force on them, keep the runs from being compared (check_alike).
    What is made of several parts has the origin of the whole: load it together, and take the parts from it.
    """
    if which is plain:
        which = partial(plain, usual=_usual([run.spec for run in loaded]))
    found = loaded.where(lambda run: which(run.spec))
    if counted := [run for run in found if run.status == "ok"]:
        check_alike(counted, also=CONDITIONS)  # what is asked for may be what the question varies
        return Selection(found, "")
    if len(found):
        return Selection(found, f"none of the {len(found)} runs of {what} counts: {_reasons(found)}")
    return Selection(found, f"there are no runs of {what} as this question needs them")


def asked(name: str) -> str:
    """The column of Runs.flows that holds what the spec asks for: asked_<name> where the flows have their own."""
    return f"asked_{name}" if name in TABLES["flows"] else name


def flows_of(runs: Runs) -> pd.DataFrame:
    """Runs.flows; where no run counts, a frame with the same columns and no rows, on which summaries come out empty."""
    if any(run.status == "ok" for run in runs):
        return runs.flows
    return pd.DataFrame(columns=["key", *map(asked, Spec.model_fields), *GROUND, *TABLES["flows"]])


def _reasons(runs: Runs) -> str:
    return "; ".join(sorted(set(runs.index["reasons"])))


#: What all runs of one system must ask for alike, or their numbers do not belong together.
CONDITIONS = (
    *("experiment", "duration_s", "warmup_s"),
    *("flow_bytes", "elephant_share", "elephant_bytes"),
    *BEYOND,
)


def congestion_control(run: Run) -> str:
    """The congestion control in force for a run's TCP: as it was seen, else as asked for, else the default of the
    network namespaces; empty where the run did not record it. Older runs record only the latter two.
    """
    seen, network = (run.facts.get(part) or {} for part in ("congestion_control", "network"))
    return seen.get("in_force") or run.spec.congestion_control or network.get("tcp_congestion_control") or ""


def in_force(run: Run) -> dict[str, str]:
    """What decided a run's numbers and its spec does not say; empty where the run did not record it.

    The congestion control that TCP had, and the datapath of the driver's switch. Host and kernel are the run's ground.
    """
    network = run.facts.get("network") or {}
    return {
        "congestion control": congestion_control(run),
        "datapath": network.get("datapath") or "",
    }


def check_alike(runs: Iterable[Run], also: Sequence[str] = ()) -> None:
    """Raises AnalysisError where runs of one experiment and system may not be pooled, paired or compared.

    They may where they ask for the same CONDITIONS but those in `also`, on the same host and kernel (of each kind of
    host that is named, which is what an experiment on kinds of hosts compares), under one
    congestion control for each that is asked for, and, of one driver, over one datapath. Flows that end and flows that
    do not may stand in one experiment; their conditions are apart. What a run did not record is not held against it.
    """
    systems: dict[tuple, list[Run]] = {}
    for run in runs:
        spec = run.spec
        system = (spec.experiment, *(getattr(spec, name) for name in SYSTEM), *filter(None, [spec.host_kind]))
        systems.setdefault(system, []).append(run)
    for system, its in systems.items():
        found: dict[tuple, set] = {}
        hosts = grounds.host_names(run.ground for run in its)
        for run in its:
            spec = run.spec
            here = {"host": hosts[run.ground], "kernel": run.ground.kernel} | in_force(run)
            for condition in [name for name in CONDITIONS if name not in also and name not in OWN]:
                found.setdefault((spec.flows_end, condition, ""), set()).add(getattr(spec, condition))
            parts = {"congestion control": spec.congestion_control, "datapath": spec.driver}
            for condition in [name for name in here if name not in also]:
                found.setdefault(("", condition, parts.get(condition, "")), set()).update({here[condition]} - {""})
        for (_, condition, _), values in found.items():
            if len(values) > 1:
                raise AnalysisError(_differ(system, condition, values))


def check_comparable(flows: pd.DataFrame, also: Sequence[str] = ()) -> None:
    """As check_alike, of what the flows of selected runs ask for; and that no two runs claim one repetition of a cell.

    also: columns that set cells apart besides CELL, and so may differ. Raises MixedHosts where they do not hold host or
    kernel, and runs of several would be pooled. With host among them, each host may have a kernel of its own.
    """
    for name in [name for name in GROUND if name in flows and name not in also]:
        for _, part in flows.groupby(["backend", *({"host"} & {*also} & {*flows})]):
            check_one(name, part[name])
    check_distinct(flows, [*CELL, *also])
    for names, system in flows.groupby(list(SYSTEM)):
        for condition in map(asked, CONDITIONS):
            if condition not in also and len(values := set(system[condition].unique())) > 1:
                raise AnalysisError(_differ(names, condition, values))


def check_one(name: str, values: pd.Series) -> None:
    """Raises MixedHosts where these are several hosts, or kernels: name is one of GROUND."""
    if len(several := sorted(values.unique())) > 1:
        raise MixedHosts(
            f"the runs come from {len(several)} {name}s ({'; '.join(several)}), whose numbers do not belong together:"
            f' load them with ground="newest", or tell them apart by {name!r}'
        )


def check_distinct(frame: pd.DataFrame, by: Sequence[str]) -> None:
    """Raises AnalysisError where several runs claim to be one repetition of a cell.

    frame: columns key, repetition and those of `by`, CELL and others, which set cells apart.
    """
    names_of = [*by, "repetition"]
    keys = frame.groupby(names_of)["key"].nunique()
    for names in keys.index[keys > 1]:
        cell = dict(zip(names_of, names, strict=True))
        special = "".join(f", {name} {cell[name]}" for name in by if name not in CELL)
        raise AnalysisError(
            f"{keys[names]} runs claim to be repetition {cell['repetition']} of {cell['driver']} with {cell['pairs']}"
            f" pairs{special} ({cell['backend']}, {cell['workload']}): they were measured under different specs."
            f" {_APART}"
        )


def _differ(system: Sequence[str], condition: str, values: set) -> str:
    return (
        f"the runs of {', '.join(system)} differ in {condition} ({', '.join(map(str, sorted(values)))}),"
        f" so their numbers do not belong together. {_APART}"
    )


_APART = "Name one sweep, or keep them in a folder each"
