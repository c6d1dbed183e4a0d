"""What each endpoint of a Spec may use of the CPUs, and whether it was held to that."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pairlab.errors import BadSpec
from pairlab.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.contracts import Limits

#: The kernel's least: a quota of 1 ms in its period of 100 ms, and a weight of 2.
LEAST_QUOTA, LEAST_SHARES = 0.01, 2


def limits_of(spec: Spec, cpus: Sequence[int] | None = None) -> dict[str, Limits]:
    """Each endpoint's limits by its name; empty where the spec limits nobody.

    cpus: those there are, by default the ones this process may use. The harness itself (pairlab, ovs-vswitchd) is not
    limited. Raises BadSpec where there are fewer than the spec wants, UnknownName for a pinning there is not.
    """
    cpus = sorted(os.sched_getaffinity(0)) if cpus is None else list(cpus)
    pinning = registry.pinnings.get(spec.pinning)()
    if spec.cores > len(cpus):
        raise BadSpec(f"cores: this process may use {len(cpus)} CPUs, not {spec.cores}")
    cores = cpus[: spec.cores or None]
    if len(cores) < pinning.least_cores:
        raise BadSpec(f"pinning: {spec.pinning!r} needs {pinning.least_cores} cores or more, and there is {len(cores)}")
    _check_shares_of_time(spec, len(cpus))
    placed = pinning.place(spec.pairs, cores)
    unpinned = tuple(cores) if spec.cores else None
    found = {}
    for index in range(spec.pairs):
        for name in (f"client-{index}", f"server-{index}"):
            own = (placed[name],) if name in placed else unpinned
            found[name] = Limits(own, spec.cpu_quota, spec.cpu_shares)
    return {name: limits for name, limits in found.items() if limits != Limits()}


def _check_shares_of_time(spec: Spec, cpus: int) -> None:
    if spec.cpu_quota and not LEAST_QUOTA <= spec.cpu_quota <= cpus:
        raise BadSpec(f"cpu_quota: must be from {LEAST_QUOTA} to the {cpus} CPUs there are, not {spec.cpu_quota:g}")
    if spec.cpu_shares and spec.cpu_shares < LEAST_SHARES:
        raise BadSpec(f"cpu_shares: must be {LEAST_SHARES} or more (1024 is the default), not {spec.cpu_shares}")


def told(limits: Mapping[str, Limits]) -> str:
    """How many endpoints may use what, a line for each kind of limits; empty where nobody is limited."""
    lines = []
    for each, count in Counter(limits.values()).items():
        parts = [
            f"on CPU {cpu_list(each.cpus)}" if each.cpus is not None else "",
            f"at most {each.cpu_quota:g} CPUs" if each.cpu_quota else "",
            f"weight {each.cpu_shares:,}" if each.cpu_shares else "",
        ]
        lines.append(f"{count:,} endpoint{'s' * (count != 1)}: {', '.join(filter(None, parts))}")
    return "\n".join(lines)


def cpu_list(cpus: Iterable[int]) -> str:
    """As the kernel and Docker write it: 0-2,5."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def in_force(seen: Iterable[tuple[str, str]], of_groups: Mapping[str, Mapping[str, float]]) -> dict[str, dict]:
    """How many endpoints were held to what, for the record: {"cpus": {"0": 4, "1": 4}, "cpu_quota": {"0.5": 8}}.

    seen: endpoints' names with their Cpus_allowed_list; of_groups: what their cgroups said, see Site.limits_in_force.
    """
    counts = {"cpus": Counter(cpus for _, cpus in seen)}
    for values in of_groups.values():
        for key, value in values.items():
            counts.setdefault(key, Counter())[f"{value:g}"] += 1
    return {key: dict(sorted(counted.items())) for key, counted in counts.items()}


def unmet(
    limits: Mapping[str, Limits], seen: Iterable[tuple[str, str]], of_groups: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Why the endpoints were not all held to their limits, in a sentence; empty where they were. As for in_force."""
    wrong = []
    for name, cpus in seen:
        asked, quota = limits.get(name, Limits()), of_groups.get(name, {}).get("cpu_quota")
        if asked.cpus is not None and cpus != cpu_list(asked.cpus):
            wrong.append(f"{name} had CPUs {cpus or 'unknown'}, and {cpu_list(asked.cpus)} was asked")
        if asked.cpu_quota and quota is not None and abs(quota - asked.cpu_quota) > 1e-3:
            wrong.append(f"{name} had a CPU quota of {quota:g}, and {asked.cpu_quota:g} was asked")
    return [f"{len(wrong)} limits were not kept, the first: {wrong[0]}"] if wrong else []
