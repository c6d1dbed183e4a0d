"""The ground of a run: what its numbers depend on beside its spec. Host, kernel, versions of the tools."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Ground(NamedTuple):
    """What a run was measured on. An empty value is not known (an older pairlab did not record it).

    host: CPU model and number of CPUs, and what of them pairlab could use, if not all. machine: which machine of that
    kind; it stays the same across reboots. kernel: its release. engine: version of the container engine. tool: version
    of the traffic tool. switch: version of the driver's switch.
    """

    host: str = ""
    machine: str = ""
    kernel: str = ""
    engine: str = ""
    tool: str = ""
    switch: str = ""

    def agrees(self, other: "Ground") -> bool:
        """Whether nothing that is known of both differs."""
        return all(mine == theirs or not mine or not theirs for mine, theirs in zip(self, other, strict=True))

    def changes(self, now: "Ground") -> str:
        """What is another in the ground `now`, in words: "kernel 6.1, now 6.18"; empty where they agree."""
        known = [name for name, mine, its in zip(self._fields, self, now, strict=True) if mine and its and mine != its]
        return "; ".join(f"{name} {getattr(self, name)}, now {getattr(now, name)}" for name in known)

    def completed(self, other: "Ground") -> "Ground":
        """This ground, with what is not known of it taken from the other."""
        return Ground(*(mine or theirs for mine, theirs in zip(self, other, strict=True)))

    def place(self) -> "Ground":
        """Host and kernel alone."""
        return self._replace(engine="", tool="", switch="")

    def __str__(self) -> str:
        machine = f"machine {self.machine}" if self.machine else ""
        known = [self.host, machine, self.kernel and f"kernel {self.kernel}", self.engine, self.tool, self.switch]
        return ", ".join(filter(None, known)) or "not recorded"


def of_host(facts: Mapping[str, Any]) -> Ground:
    """The ground as far as the facts of the host say."""
    if "kernel" not in facts:
        return Ground(host=facts.get("fingerprint", ""))
    return Ground(f"{facts['cpu_model']}, {_cpus(facts)}", facts.get("machine") or "", facts["kernel"])


def _cpus(facts: Mapping[str, Any]) -> str:
    """ "8 CPUs", "2 of 8 CPUs", "8 CPUs with a quota of 0.5"."""
    cpus = facts["cpus"]
    allowed, quota = facts.get("cpus_allowed") or cpus, facts.get("cpu_quota") or 0
    some = f"{allowed} of {cpus}" if allowed < cpus else str(cpus)
    return f"{some} CPUs" + (f" with a quota of {quota:g}" if quota else "")


def of(facts: Mapping[str, Any], *, backend: str, driver: str, workload: str) -> Ground:
    """The ground of a run, from the facts recorded with it, whichever pairlab recorded them."""
    network, versions = facts.get("network") or {}, facts.get("versions") or {}
    return of_host(facts.get("host") or {})._replace(
        engine=named(backend, network.get(backend, "")),
        tool=versions.get(workload, ""),
        switch=network.get(driver, ""),
    )


def named(name: str, version: str) -> str:
    """The version with the name of what has it; empty where it is not known."""
    return f"{name} {version}" if version else ""


#: Paper M's experiments: analyses hold them against each other, and against no others.
PLACEMENT_STUDY = ("placement", "interference", "congestion", "dc-simulation")
#: Paper S's, and those of single networks beside them, likewise.
NETWORK_STUDY = (
    *("containerization", "single-host-modes", "multi-host", "packet-size", "virtualization", "cpu-overhead"),
    *("all-to-all", "launch-time", "networks", "latency"),
)


def place_of(backend: str, experiment: str, host_kind: str = "") -> str:
    """What shares a host and a kernel with which other runs: a backend, and of each study it apart.

    Two backends are two data paths, whose runs are never pooled, and so are two studies that no analysis holds against
    each other: each may have been measured at another time. Hosts of two kinds (Spec.host_kind) are never the same.
    """
    study = next((study for study in (PLACEMENT_STUDY, NETWORK_STUDY) if experiment in study), ())
    apart = [*study, *filter(None, [host_kind])]
    return f"{backend} ({', '.join(apart)})" if apart else backend


def newest(grounds: Iterable[tuple[tuple[str, ...], Ground]]) -> dict[tuple[str, ...], Ground]:
    """By system, the ground that its newest runs share. grounds: (system, ground) of runs, the newest first.

    All systems with the same first part share host and kernel, those of its newest run: see `place_of`.
    """
    places: dict[str, Ground] = {}
    found: dict[tuple[str, ...], Ground] = {}
    for system, ground in grounds:
        place = places.setdefault(system[0], ground.place())
        if not place.agrees(ground.place()):
            continue
        places[system[0]] = place.completed(ground.place())
        known = found.setdefault(system, ground)
        if known.agrees(ground):
            found[system] = known.completed(ground)
    return {system: ground.completed(places[system[0]]) for system, ground in found.items()}


def same(grounds: Iterable[Ground]) -> dict[Ground, Ground]:
    """For each ground the fullest of those that agree with it: which of them are one and the same, as far as known."""
    found: dict[Ground, Ground] = {}
    fullest: list[Ground] = []
    for ground in sorted(set(grounds), key=lambda ground: (-sum(map(bool, ground)), ground)):
        found[ground] = next((other for other in fullest if other.agrees(ground)), ground)
        if found[ground] is ground:
            fullest.append(ground)
    return found


def host_names(grounds: Iterable[Ground]) -> dict[Ground, str]:
    """The host of each ground, by the name that tells hosts apart everywhere: its CPUs, and which machine where several
    of that kind are among them.

    A machine that was not recorded is the one that is known, if the ground agrees with one only; else it stands apart.
    """
    every = set(grounds)
    found = {ground: _host_of(ground, every) for ground in every}
    machines: dict[str, set[str]] = {}
    for host, machine in found.values():
        machines.setdefault(host, set()).update({machine} - {""})
    return {
        ground: host
        if len(machines[host]) < 2
        else f"{host} ({f'machine {machine}' if machine else 'which machine was not recorded'})"
        for ground, (host, machine) in found.items()
    }


def _host_of(ground: Ground, every: Iterable[Ground]) -> tuple[str, str]:
    """Host and machine of a ground, completed by what is known of those that agree with it, if that is one host."""
    agreeing = {(other.host, other.machine) for other in every if other.host and other.agrees(ground)}
    known = {each for each in agreeing if each[1]} or agreeing
    return known.pop() if len(known) == 1 else (ground.host, ground.machine)
