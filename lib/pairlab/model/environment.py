"""The environment of a run: what its numbers depend on beside its spec. Host, kernel, versions of the tools."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Environment(NamedTuple):
    """What a run was measured on. An empty value is not known (an older pairlab did not record it).

    host: CPU model and number of CPUs, and what of them pairlab could use, if not all. machine: which machine of that
    kind; it stays the same across reboots. kernel: its release. engine: version of the container engine. tool: version
    of the traffic tool. switch: version of the driver's switch. code: digest of the code of plugins outside pairlab
    that made the network and its traffic. label: what the user called it, such as "before" or a commit; an empty one is
    a label, too.
    """

    host: str = ""
    machine: str = ""
    kernel: str = ""
    engine: str = ""
    tool: str = ""
    switch: str = ""
    code: str = ""
    label: str = ""

    def agrees(self, other: "Environment") -> bool:
        """Whether all fields known of both are equal. Of hosts that are known, one that does not say which machine it
        is is not the same as one that does.
        """
        if self.label != other.label or (self.host and other.host and self.machine != other.machine):
            return False
        return all(mine == theirs or not mine or not theirs for mine, theirs in zip(self, other, strict=True))

    def changes(self, now: "Environment") -> str:
        """The fields that differ in the environment `now`, in words: "kernel 6.1, now 6.18"; empty where they agree."""
        fields = zip(self._fields, self, now, strict=True)
        changed = [each for each in fields if each[1] != each[2] and (all(each) or each[0] in ("label", "machine"))]
        return "; ".join(f"{name} {before or 'none'}, now {after or 'none'}" for name, before, after in changed)

    def completed(self, other: "Environment") -> "Environment":
        """This environment, with unknown fields taken from the other."""
        return Environment(*(mine or theirs for mine, theirs in zip(self, other, strict=True)))

    def place(self) -> "Environment":
        """Host, kernel and label alone."""
        return self._replace(engine="", tool="", switch="", code="")

    def __str__(self) -> str:
        machine = f"machine {self.machine}" if self.machine else ""
        kernel, label = (name and f"{word} {name}" for word, name in (("kernel", self.kernel), ("label", self.label)))
        code = self.code and f"own code {self.code}"
        known = [self.host, machine, kernel, self.engine, self.tool, self.switch, code, label]
        return ", ".join(filter(None, known)) or "not recorded"


def of_host(facts: Mapping[str, Any]) -> Environment:
    """The environment as far as the facts of the host say."""
    if "kernel" not in facts:
        return Environment(host=facts.get("fingerprint", ""))
    return Environment(f"{facts['cpu_model']}, {_cpus(facts)}", facts.get("machine") or "", facts["kernel"])


def _cpus(facts: Mapping[str, Any]) -> str:
    """ "8 CPUs", "2 of 8 CPUs", "8 CPUs with a quota of 0.5"."""
    cpus = facts["cpus"]
    allowed, quota = facts.get("cpus_allowed") or cpus, facts.get("cpu_quota") or 0
    some = f"{allowed} of {cpus}" if allowed < cpus else str(cpus)
    return f"{some} CPUs" + (f" with a quota of {quota:g}" if quota else "")


def of(facts: Mapping[str, Any], *, backend: str, driver: str, workload: str) -> Environment:
    """The environment of a run, from the facts recorded with it, whichever pairlab recorded them."""
    network, versions = facts.get("network") or {}, facts.get("versions") or {}
    return of_host(facts.get("host") or {})._replace(
        engine=named(backend, network.get(backend, "")),
        tool=versions.get(workload, ""),
        switch=network.get(driver, ""),
        code=facts.get("code") or "",
        label=facts.get("label") or "",
    )


def named(name: str, version: str) -> str:
    return f"{name} {version}" if version else ""


#: The experiments that analyses hold against each other, by the name of their group; the last two are those of Mentz et
#: al. (2020), and those of Suo et al. (2018) with those of single networks.
STUDIES = {
    **{name: (name,) for name in ("throughput", "retransmissions", "core-ratio", "pinning", "message-size", "udp")},
    **{name: (name,) for name in ("causes", "virtualization")},
    "completion times": ("fct", "elephant-mice", "starting"),
    "placements": ("placement", "interference", "congestion", "dc-simulation"),
    "networks": (
        *("containerization", "single-host-modes", "multi-host", "packet-size", "cpu-overhead"),
        *("all-to-all", "launch-time", "networks", "latency"),
    ),
}


def place_of(backend: str, experiment: str, host_kind: str = "") -> str:
    """The group of runs that share a host and a kernel: a backend, and each of STUDIES by itself.

    Two backends are two data paths, whose runs are never pooled, and so are two studies that no analysis holds against
    each other: each may have been measured at another time. Hosts of two kinds (Spec.host_kind) are never the same.
    """
    study = next((name for name, experiments in STUDIES.items() if experiment in experiments), "")
    apart = [*filter(None, [study, host_kind])]
    return f"{backend} ({', '.join(apart)})" if apart else backend


def newest(environments: Iterable[tuple[tuple[str, ...], Environment]]) -> dict[tuple[str, ...], Environment]:
    """By system, the environment that its newest runs share. environments: (system, environment) of runs, the newest
    first.

    All systems with the same first part share host and kernel, those of its newest run: see `place_of`.
    """
    places: dict[str, Environment] = {}
    shared: dict[tuple[str, ...], Environment] = {}
    for system, environment in environments:
        place = places.setdefault(system[0], environment.place())
        if not place.agrees(environment.place()):
            continue
        places[system[0]] = place.completed(environment.place())
        earlier = shared.setdefault(system, environment)
        if earlier.agrees(environment):
            shared[system] = earlier.completed(environment)
    return {system: environment.completed(places[system[0]]) for system, environment in shared.items()}


def same(environments: Iterable[Environment]) -> dict[Environment, Environment]:
    """For each environment the fullest of those that agree with it: as far as is known, they are the same."""
    fullest_of: dict[Environment, Environment] = {}
    fullest: list[Environment] = []
    for environment in sorted(set(environments), key=lambda environment: (-sum(map(bool, environment)), environment)):
        fullest_of[environment] = next((other for other in fullest if other.agrees(environment)), environment)
        if fullest_of[environment] is environment:
            fullest.append(environment)
    return fullest_of


def host_names(environments: Iterable[Environment]) -> dict[Environment, str]:
    """The host of each environment, by the name that tells hosts apart everywhere: its CPUs, and which machine where
    several of that kind are among them. One that was not recorded stands apart.
    """
    every = set(environments)
    hosts = {environment: _host_of(environment, every) for environment in every}
    machines: dict[str, set[str]] = {}
    for host, machine in hosts.values():
        machines.setdefault(host, set()).add(machine)
    return {
        environment: host
        if len(machines[host]) < 2
        else f"{host} ({f'machine {machine}' if machine else 'which machine was not recorded'})"
        for environment, (host, machine) in hosts.items()
    }


def _host_of(environment: Environment, every: Iterable[Environment]) -> tuple[str, str]:
    """Host and machine of an environment; the host of those that agree with it, if these are of one."""
    hosts = {other.host for other in every if other.host and other.agrees(environment)}
    return hosts.pop() if len(hosts) == 1 else environment.host, environment.machine
