"""What this machine can do, what is missing, and how to get it."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pairlab.analysis.output import texlive
from pairlab.errors import PairlabError
from pairlab.model.spec import Spec
from pairlab.testbed import plans, registry
from pairlab.testbed.audit import snapshot
from pairlab.testbed.audit.snapshot import Difference, Snapshot
from pairlab.testbed.contracts import Backend
from pairlab.testbed.host import facts
from pairlab.testbed.profiling import profiler
from pairlab.testbed.requirements import Lack, Program

#: Names of the Chromium executable in different distributions.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _latex() -> list[Lack]:
    missing = texlive.missing()
    return [Lack(f"LaTeX lacks {', '.join(missing)}", texlive.REMEDY)] if missing else []


def _program(name: str) -> list[Lack]:
    lack = Program(name, package=name).lack()
    return [lack] if lack else []


def browser() -> str | None:
    """The Chromium for the browser tests: PAIRLAB_CHROMIUM, or one on PATH."""
    return next(filter(None, map(shutil.which, (os.environ.get("PAIRLAB_CHROMIUM", ""), *BROWSERS))), None)


def browser_lacks() -> list[Lack]:
    """What is missing where there is no Chromium."""
    if browser():
        return []
    return [Lack("no Chromium is installed", "sudo apt-get install chromium, or PAIRLAB_CHROMIUM=/path/to/one")]


def _extras() -> Iterator[tuple[str, str, list[Lack]]]:
    """What is optional: the name, what it is for, and what is missing."""
    yield "profile", "samples which kernel functions run during the traffic (profile: true)", profiler.lacks()
    yield "LaTeX", "builds paper/main.pdf", _latex()
    yield "mmdebstrap", "builds the container image without a registry", _program("mmdebstrap")
    yield "Chromium", "runs the browser tests", browser_lacks()


def examine() -> dict:
    """What this host can do, as plain data: {"host": …, "backends": {name: …}, "extras": {name: …}}.

    Each backend, driver, workload and extra has `available`, and `missing`: a list of {"what": …, "remedy": …}; a
    driver also has its `isolation`.
    """
    return {
        "host": facts.host(),
        "backends": {name: _examine_backend(registry.backends.get(name)()) for name in registry.backends.names()},
        "extras": {name: _finding(purpose, lacks) for name, purpose, lacks in _extras()},
    }


def _examine_backend(backend: Backend) -> dict:
    lacks = backend.lacks()
    drivers, workloads = {}, {}
    for name in registry.drivers.names():
        driver = registry.drivers.get(name)
        found = _finding(driver.summary, lacks or _driver_lacks(backend, name))
        drivers[name] = found | {"isolation": driver.isolation}
    for name in registry.workloads.names():
        workload = registry.workloads.get(name)
        workloads[name] = _finding(workload.summary, lacks or backend.lacks_programs(workload.programs))
    return {**_finding(backend.summary, lacks), "drivers": drivers, "workloads": workloads}


def _driver_lacks(backend: Backend, name: str) -> list[Lack]:
    try:
        spec = Spec(backend=backend.name, driver=name)
        if registry.drivers.get(name).needs_hosts:
            spec = spec.replace(hosts=2, placement="across")
        lacks = plans.layout(spec).lacks()
        return [lack for found in lacks.values() for lack in found]
    except PairlabError as error:
        return [Lack(f"its check failed ({error})", "report this bug, with the output of pairlab doctor --json")]


def _finding(summary: str, lacks: list[Lack]) -> dict:
    missing = [{"what": lack.what, "remedy": lack.remedy} for lack in dict.fromkeys(lacks)]
    return {"available": not missing, "summary": summary, "missing": missing}


@dataclass(frozen=True)
class HostDifference:
    """The host now against an earlier snapshot.

    left: the differences that count. others: those of other software, for information.
    """

    before: Snapshot
    after: Snapshot
    left: tuple[Difference, ...]
    others: tuple[Difference, ...]

    def as_dict(self) -> dict:
        """Plain data, for JSON."""
        return {
            "left": [asdict(each) for each in self.left],
            "besides": [asdict(each) for each in self.others],
            "unseen": dict(self.after.unseen),
            "conntrack_entries": {"before": self.before.conntrack_entries, "now": self.after.conntrack_entries},
        }

    def __str__(self) -> str:
        lines = [f"differs: {each}{'' if each.whose == 'ours' else ' [owner unknown]'}" for each in self.left]
        lines += [] if lines else ["the host is as it was"]
        if self.others:
            kinds = Counter(f"{each.kind} {each.change}" for each in self.others)
            lines.append("not pairlab's: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
        lines += [f"not checked: {kind}: {why}" for kind, why in self.after.unseen.items()]
        if self.after.conntrack_entries is not None:
            lines.append(
                f"conntrack entries: {self.before.conntrack_entries} before, {self.after.conntrack_entries} now"
            )
        return "\n".join(lines)


def compare(before: Snapshot, *, ours_only: bool = False) -> HostDifference:
    """What differs on the host now from that snapshot. Raises BadInput for a snapshot that it cannot be compared with.

    ours_only: count only what is known to be pairlab's, as on a host that others use meanwhile.
    """
    after = snapshot.take()
    found = snapshot.diff(before, after)
    left = snapshot.counted(found, ours_only=ours_only)
    return HostDifference(before, after, tuple(left), tuple(each for each in found if each not in left))
