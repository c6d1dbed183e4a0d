"""Which runs answer a question, and what is said where there are none: a gap with a name, not an error."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from pairlab import paths
from pairlab.errors import AnalysisError, MixedHosts, NoRuns
from pairlab.model import environment as environments
from pairlab.model.metrics import PER_VERSION
from pairlab.model.records import Run
from pairlab.model.spec import Mark, Spec, marked
from pairlab.model.tables import TABLES
from pairlab.store.dataset import ENVIRONMENT, Runs, load_runs

#: What the papers left alone, or vary in experiments of its own only.
NOT_IN_PAPERS = tuple(name for name in Spec.model_fields if name not in marked(Mark.PAPERS))
#: What Suo et al. 2018 vary on one host, and of containers and none; and the traffic of Mentz et al. 2020.
MODES, CONTAINERS, TRAFFIC = "single-host-modes", "containerization", "dc-simulation"
#: What Suo et al. 2018 vary between hosts.
BETWEEN = ("multi-host", "packet-size", "virtualization")

_PLACE = ("hosts", "placement")
_MESSAGES = ("message_bytes", "udp_share", "cpus_awake")
_REQUESTS = ("request_bytes", "response_bytes")
_UPLINKS = (*_PLACE, "uplink_rate_bps")
#: By experiment, which of NOT_IN_PAPERS it varies.
VARIED_BY: Mapping[str, tuple[str, ...]] = {
    "core-ratio": ("cores",),
    "pinning": ("cores", "pinning"),
    "message-size": ("message_bytes",),
    "starting": ("start_spacing_s",),
    "networks": _PLACE,
    "latency": _PLACE,
    "launch-time": (*_PLACE, "launches", "idle_pairs"),
    "all-to-all": (*_PLACE, "message_bytes", "ranks"),
    "cpu-overhead": (*_PLACE, "pinning", "udp_share", "cpus_awake"),
    "placement": (*_UPLINKS, "cpus_awake"),
    "interference": (
        *(*_UPLINKS, "cpus_awake"),
        *("interference_workers", "interference_load", "interference_where", "interference_tool"),
    ),
    "congestion": (*_UPLINKS, "cpus_awake", "background_pairs", "background_workload", "background_driver"),
    TRAFFIC: (
        *(*_UPLINKS, "limited_uplinks", "flow_sizes", "offered_load_bps"),
        *("requests", "fan_out", "arrivals", "may_fall_behind", "flows_per_pair"),
    ),
    MODES: ("direction", *_MESSAGES, *_REQUESTS),
    CONTAINERS: (*_PLACE, *_MESSAGES),
    **dict.fromkeys(BETWEEN, (*_PLACE, *_MESSAGES, *_REQUESTS, "pinning", "host_kind")),
}


#: The congestion control of the papers' hosts: the default of Ubuntu 18.04.
PAPERS_CONTROL = "cubic"

#: What is never pooled.
SYSTEM = ("backend", "workload")
#: What one estimate is made for.
CELL = (*SYSTEM, "driver", "pairs")


@functools.cache
def _shipped() -> frozenset[str]:
    return frozenset(map(paths.notebook_name, paths.EXPERIMENTS.glob("*.ipynb")))


def is_own(experiment: str) -> bool:
    """Whether an experiment is a user's own, which may vary anything."""
    return experiment not in _shipped()


class Selection(NamedTuple):
    """The runs of one question (none where there is a gap), and why there is no run that counts ("" where some do)."""

    runs: Runs
    gap: str


def as_in_papers(spec: Spec, usual: Mapping[str, object] = MappingProxyType({})) -> bool:
    """Whether a run is as the papers' are: it asks for nothing that only experiments beyond them vary.

    usual: by field, what plain runs ask for where that is not Spec's default (usual_value).
    """
    values = {name: usual.get(name, Spec.model_fields[name].default) for name in NOT_IN_PAPERS}
    return all(getattr(spec, name) == value for name, value in values.items() if not _is_varied(spec, name))


def usual_value(field: str, spec_column: Iterable[object]) -> object:
    """What plain runs ask for of a field, of what runs ask for: its default. But of congestion control the papers',
    where any asks for that and none for the default; others are what the runs beyond the papers vary.
    """
    known, default = set(spec_column), Spec.model_fields[field].default
    of_papers = field == "congestion_control" and PAPERS_CONTROL in known and default not in known
    return PAPERS_CONTROL if of_papers else default


def _usual(specs: Sequence[Spec]) -> dict[str, object]:
    """What plain runs among these ask for, of each field that only experiments beyond the papers vary: usual_value, or
    what all ask for alike.
    """
    found = {}
    for name in NOT_IN_PAPERS:
        spec_column = {getattr(spec, name) for spec in specs if not _is_varied(spec, name)}
        found[name] = spec_column.pop() if len(spec_column) == 1 else usual_value(name, spec_column)
    return found


def _is_varied(spec: Spec, name: str) -> bool:
    """Whether a field beyond the papers is one that the experiment varies."""
    return name in VARIED_BY.get(spec.experiment, ()) or is_own(spec.experiment)


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
    return filter_runs(loaded, which, what)


def filter_runs(loaded: Runs, which: Callable[[Spec], bool], what: str) -> Selection:
    """Those of loaded runs whose spec `which` accepts; without any that counts, the gap says that of `what`.

    Raises AnalysisError where hosts, or what was in force on them, keep the runs from being compared (check_alike).
    What is made of several parts has the origin of the whole: load it together, and take the parts from it.
    """
    loaded = loaded.where(lambda run: not run.spec.twin)
    if which is as_in_papers:
        which = partial(as_in_papers, usual=_usual([run.spec for run in loaded]))
    found = loaded.where(lambda run: which(run.spec))
    if counted := [run for run in found if run.status == "ok"]:
        check_alike(counted, also=CONDITIONS)  # what is asked for may be what the question varies
        return Selection(found, "")
    if len(found):
        reasons = "; ".join(sorted(set(found.index["reasons"])))
        return Selection(found, f"none of the {len(found)} runs of {what} counts: {reasons}")
    return Selection(found, f"there are no runs of {what} as this question needs them")


def part_of(loaded: Runs, experiment: str, gap: str = "") -> Selection:
    """Those of one experiment among the loaded runs of several, as among; gap: why there is none of any, if so."""
    if loaded.experiments == (experiment,):
        return Selection(loaded, gap)
    return filter_runs(loaded, lambda spec: spec.experiment == experiment, repr(experiment))


def spec_column(name: str) -> str:
    """The column of Runs.flows that holds what the spec asks for: asked_<name> where the flows have their own."""
    return f"asked_{name}" if name in TABLES["flows"] else name


def block_of(frame: pd.DataFrame) -> str:
    """The column by which values of a frame are paired: block, or repetition where a frame has no blocks."""
    return "block" if "block" in frame else "repetition"


def flows_of(runs: Runs, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Runs.flows, or these columns of it; where no run counts, no rows, on which summaries come out empty."""
    if any(run.status == "ok" for run in runs):
        return runs.select("flows", columns) if columns else runs.flows
    every = ["key", *map(spec_column, Spec.model_fields), *ENVIRONMENT, "block", *TABLES["flows"]]
    return pd.DataFrame(columns=[*(columns or every)])


#: What all runs of one system must ask for alike, or their numbers do not belong together.
CONDITIONS = (
    *("experiment", "duration_s", "warmup_s", "telemetry", "max_foreign_cpu"),
    *("flow_bytes", "elephant_share", "elephant_bytes"),
    *NOT_IN_PAPERS,
)


#: What a network namespace's TCP may hold: whoever has less of it is slower, whatever network carries it.
MEMORY = ("tcp_rmem", "tcp_wmem")
#: What links do for the kernel. A network may have links of another kind: then it is in what is compared.
LINKS = ("mtu_bytes", "tso", "gso", "gro", "rx_checksum", "tx_checksum", "scatter_gather")
#: Settings of the machine (model/conditions.py) that decide how fast its CPUs are, and how memory is had for packets.
MACHINE = ("wakeup_latency_us", "net.core.high_order_alloc_disable", "cpus_online", "smt", "governor")
MACHINE += ("frequency_max_khz", "turbo_off", "boost")
#: What the kind of a run's links depends on, of what it asks for.
_OF_LINKS = ("driver", "hosts", "placement", "mtu_bytes")


def in_force(run: Run) -> dict[str, str]:
    """What decided a run's numbers and its spec does not say; empty where the run did not record it.

    The congestion control that TCP had, and the datapath of the driver's switch. Host and kernel are the run's
    environment.
    """
    return {"congestion control": run.congestion_control, "datapath": run.fact("datapath") or ""}


def version_of_work(run: Run) -> str:
    """The tool's version, of a run that measured work which each version defines anew (metrics.PER_VERSION); else
    empty, and where it was not recorded.
    """
    version = re.search(r"\d+(?:\.\d+)+", run.environment.tool)
    return version[0] if version and any(each.name in PER_VERSION for each in run.metrics) else ""


def check_alike(runs: Iterable[Run], also: Sequence[str] = ()) -> None:
    """Raises AnalysisError where runs of one experiment and system may not be pooled, paired or compared.

    They may where they ask for the same CONDITIONS but those in `also`, on the same host and kernel (of each kind of
    host that is named, which is what an experiment on kinds of hosts compares), with the machine's CPUs set alike, with
    one TCP memory, under one congestion control for each that is asked for, and, of one driver, over one datapath and
    links with the same offloads. Flows that end and flows that do not may stand in one experiment; their conditions
    are apart. What a run did not record is not held against it.
    """
    systems: dict[tuple, list[Run]] = {}
    for run in runs:
        spec = run.spec
        system = (spec.experiment, *(getattr(spec, name) for name in SYSTEM), *filter(None, [spec.host_kind]))
        systems.setdefault(system, []).append(run)
    of_experiments = {name for varied in VARIED_BY.values() for name in varied}
    for system, its in systems.items():
        found: dict[tuple, set] = {}
        hosts = environments.host_names(run.environment for run in its)
        for run in its:
            spec = run.spec
            here = {"host": hosts[run.environment], "kernel": run.environment.kernel} | in_force(run)
            here |= {name: run.conditions.get(name, "") for name in MACHINE}
            here |= {name: "" if (value := run.fact(name)) is None else str(value) for name in (*MEMORY, *LINKS)}
            for condition in [name for name in CONDITIONS if name not in also and name not in of_experiments]:
                found.setdefault((spec.flows_end, condition, ""), set()).add(getattr(spec, condition))
            parts: dict[str, Any] = dict.fromkeys(LINKS, tuple(getattr(spec, name) for name in _OF_LINKS))
            parts |= {"congestion control": spec.congestion_control, "datapath": spec.driver}
            parts["wakeup_latency_us"] = spec.cpus_awake
            for condition in [name for name in here if name not in also]:
                found.setdefault(("", condition, parts.get(condition, "")), set()).update({here[condition]} - {""})
        for (_, condition, _), values in found.items():
            if len(values) > 1:
                raise AnalysisError(_differ(system, condition, values))


def check_comparable(runs: Runs, by: Sequence[str] = ()) -> None:
    """As check_alike, of what runs that count ask for; and that no two of them claim one repetition of a cell.

    by: the factors that set cells apart besides CELL, and so may differ. Raises MixedHosts where they do not hold host
    or kernel, and runs of several would be pooled. With host among them, each host may have a kernel of its own. Flows
    that end, and those that do not, may stand together.
    """
    if not any(run.status == "ok" for run in runs):
        return
    rows = runs.where(status="ok").counted("flows")
    also = [spec_column(name) for name in by if name in Spec.model_fields and name not in CELL]
    also += [name for name in ENVIRONMENT if name in by]
    for _, part in rows.groupby(rows["asked_flow_bytes"] > 0):
        for name in [name for name in ENVIRONMENT if name not in also]:
            for _, place in part.groupby(["backend", *({"host"} & {*also})]):
                check_one(name, place[name])
        check_distinct(part, [*CELL, *also], lambda: rows)
        for names, system in part.groupby(list(SYSTEM)):
            for condition in map(spec_column, CONDITIONS):
                if condition not in also and len(values := set(system[condition].unique())) > 1:
                    raise AnalysisError(_differ(names, condition, values))


def check_one(name: str, values: pd.Series) -> None:
    """Raises MixedHosts where these are several hosts, or kernels: name is one of ENVIRONMENT."""
    if len(several := sorted(values.unique())) > 1:
        raise MixedHosts(
            f"the runs come from {len(several)} {name}s ({'; '.join(several)}), whose numbers do not belong together:"
            f' load them with environment="newest", or tell them apart by {name!r}'
        )


def check_distinct(frame: pd.DataFrame, by: Sequence[str], counted: Callable[[], pd.DataFrame]) -> None:
    """Raises AnalysisError where several runs claim to be one repetition of a cell: which, and what they differ in.

    frame: columns key, repetition and those of `by`, CELL and others, which set cells apart. counted: makes a frame of
    what these runs ask for, as Runs.counted of flows has it.
    """
    names_of = [*by, "repetition"]
    twice = frame[frame.duplicated(names_of, keep=False)] if len(frame) else frame
    keys = twice.groupby(names_of)["key"].nunique() if len(twice) else pd.Series(dtype=int)
    for names in keys.index[keys > 1]:
        cell = dict(zip(names_of, names, strict=True))
        claimed = twice[(twice[names_of] == pd.Series(cell)).all(axis=1)]["key"].unique()
        usual = {name: field.default for name, field in Spec.model_fields.items()}
        special = "".join(
            f", {name} {cell[name]}"
            for name in by
            if name not in (*CELL, "experiment", "ends") and cell[name] != usual.get(name)
        )
        raise AnalysisError(
            f"{keys[names]} runs claim to be repetition {cell['repetition']} of {cell['driver']} with {cell['pairs']}"
            f" pairs{special} ({cell['backend']}, {cell['workload']}): {', '.join(claimed)}"
            f"{in_what(counted(), claimed)}. {_APART}"
        )


def in_what(counted: pd.DataFrame, keys: Iterable[str]) -> str:
    """What runs with these keys differ in, and its values, as a clause."""
    rows = counted[counted["key"].isin(keys)].drop_duplicates("key")
    names = [name for name in (*Spec.model_fields, *ENVIRONMENT) if spec_column(name) in rows]
    values = {name: rows[spec_column(name)].unique() for name in names}
    differ = [f"{name} ({', '.join(map(str, each))})" for name, each in values.items() if len(each) > 1]
    return f", which differ in {', '.join(differ)}" if differ else ""


def _differ(system: Sequence[str], condition: str, values: set) -> str:
    return (
        f"the runs of {', '.join(system)} differ in {condition} ({', '.join(map(str, sorted(values)))}),"
        f" so their numbers do not belong together. {_APART}"
    )


_APART = "Name one sweep, or keep them in a folder each"
