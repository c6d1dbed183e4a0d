"""CPU limits: in words, in the kernel's notation, and compared with those in force."""

from collections import Counter
from collections.abc import Iterable, Mapping

from pairlab.testbed.endpoints import Limits


def describe(limits: Mapping[str, Limits]) -> str:
    """The limits with their numbers of endpoints, a line each; empty if there are none."""
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
    """CPU numbers in the notation of the kernel and Docker: 0-2,5."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def in_force(affinities: Iterable[tuple[str, str]], of_groups: Mapping[str, Mapping[str, float]]) -> dict[str, dict]:
    """Limits in force with their numbers of endpoints: {"cpus": {"0": 4, "1": 4}, "cpu_quota": {"0.5": 8}}.

    affinities: endpoints' names with their Cpus_allowed_list; of_groups: see Site.limits_in_force.
    """
    counts = {"cpus": Counter(cpus for _, cpus in affinities)}
    for values in of_groups.values():
        for key, value in values.items():
            counts.setdefault(key, Counter())[f"{value:g}"] += 1
    return {key: dict(sorted(counter.items())) for key, counter in counts.items()}


def unmet(
    limits: Mapping[str, Limits], affinities: Iterable[tuple[str, str]], of_groups: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """A sentence on the limits that were not in force; empty if all were. Parameters as in in_force."""
    wrong = []
    for name, cpus in affinities:
        wanted, in_group = limits.get(name, Limits()), of_groups.get(name, {})
        quota, shares = in_group.get("cpu_quota"), in_group.get("cpu_shares")
        if wanted.cpus is not None and cpus != cpu_list(wanted.cpus):
            wrong.append(f"{name} had CPUs {cpus or 'unknown'} instead of {cpu_list(wanted.cpus)}")
        if wanted.cpu_quota and quota is not None and abs(quota - wanted.cpu_quota) > 1e-3:
            wrong.append(f"{name} had a CPU quota of {quota:g} instead of {wanted.cpu_quota:g}")
        if wanted.cpu_shares and shares is not None and shares != wanted.cpu_shares:
            wrong.append(f"{name} had {shares:g} CPU shares instead of {wanted.cpu_shares}")
    return [f"{len(wrong)} limits were not in force, the first: {wrong[0]}"] if wrong else []
