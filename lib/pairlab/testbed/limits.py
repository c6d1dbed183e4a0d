"""Limits of CPU use: in words, as the kernel writes them, and whether endpoints were held to them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from pairlab.testbed.endpoints import Limits


def describe(limits: Mapping[str, Limits]) -> str:
    """How many endpoints have which limits, a line for each; empty where there are none."""
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
    """How many endpoints had which limits, for the record: {"cpus": {"0": 4, "1": 4}, "cpu_quota": {"0.5": 8}}.

    seen: endpoints' names with their Cpus_allowed_list; of_groups: see Site.limits_in_force.
    """
    counts = {"cpus": Counter(cpus for _, cpus in seen)}
    for values in of_groups.values():
        for key, value in values.items():
            counts.setdefault(key, Counter())[f"{value:g}"] += 1
    return {key: dict(sorted(counted.items())) for key, counted in counts.items()}


def unmet(
    limits: Mapping[str, Limits], seen: Iterable[tuple[str, str]], of_groups: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Why not all endpoints were held to their limits, in a sentence; empty where they were. As for in_force."""
    wrong = []
    for name, cpus in seen:
        asked, in_group = limits.get(name, Limits()), of_groups.get(name, {})
        quota, shares = in_group.get("cpu_quota"), in_group.get("cpu_shares")
        if asked.cpus is not None and cpus != cpu_list(asked.cpus):
            wrong.append(f"{name} had CPUs {cpus or 'unknown'} instead of {cpu_list(asked.cpus)}")
        if asked.cpu_quota and quota is not None and abs(quota - asked.cpu_quota) > 1e-3:
            wrong.append(f"{name} had a CPU quota of {quota:g} instead of {asked.cpu_quota:g}")
        if asked.cpu_shares and shares is not None and shares != asked.cpu_shares:
            wrong.append(f"{name} had {shares:g} CPU shares instead of {asked.cpu_shares}")
    return [f"{len(wrong)} limits were not in force, the first: {wrong[0]}"] if wrong else []
