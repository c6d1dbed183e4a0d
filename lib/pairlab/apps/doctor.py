"""This machine's capabilities, the missing requirements, and their remedies."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from pairlab.analysis.output import texlive
from pairlab.errors import PairlabError
from pairlab.model.spec import Spec
from pairlab.testbed import plans, registry
from pairlab.testbed.audit import snapshot
from pairlab.testbed.audit.snapshot import Difference, Snapshot
from pairlab.testbed.contracts import Backend
from pairlab.testbed.host import facts, profiler
from pairlab.testbed.netns.backend import missing_namespaces
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_open_files

#: As many as the papers' authors measured at once.
MANY_PAIRS = 100
#: Names of the Chromium executable in different distributions.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser() -> str | None:
    """The Chromium for the browser tests: PAIRLAB_CHROMIUM, or one on PATH."""
    return next(filter(None, map(shutil.which, (os.environ.get("PAIRLAB_CHROMIUM", ""), *BROWSERS))), None)


def missing_browser() -> list[MissingRequirement]:
    if browser():
        return []
    return lacking("no Chromium is installed", "sudo apt-get install chromium, or PAIRLAB_CHROMIUM=/path/to/one")


def firefox() -> str | None:
    """The Firefox for the browser test with Firefox."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


def _missing_for_many() -> list[MissingRequirement]:
    """What keeps this host from MANY_PAIRS in backend netns, besides what keeps it from one."""
    many = plans.layout(Spec(backend="netns", pairs=MANY_PAIRS))
    return [*missing_namespaces(many), *missing_open_files(len(many.endpoints))]


def _extras() -> Iterator[tuple[str, str, list[MissingRequirement]]]:
    """Optional software: name, purpose, and missing requirements."""
    latex = texlive.missing()
    mmdebstrap = Program("mmdebstrap", package="mmdebstrap").missing()
    yield "many pairs", f"{MANY_PAIRS} pairs at once, in backend netns", _missing_for_many()
    yield "profile", "samples which kernel functions run during the traffic (profile: true)", profiler.missing()
    no_capture = registry.backends.get("netns")().missing_capture()
    yield "capture", "captures packets of chosen endpoints, in backends netns and ssh (capture: client-0)", no_capture
    of_latex = lacking(f"LaTeX lacks {', '.join(latex)}", texlive.REMEDY) if latex else []
    yield "LaTeX", "builds paper/main.pdf", of_latex
    yield "mmdebstrap", "builds the container image without a registry", [mmdebstrap] if mmdebstrap else []
    yield "Chromium", "runs the browser tests", missing_browser()
    no_firefox = lacking("no Firefox is installed", "sudo apt-get install firefox-esr")
    yield "Firefox", "runs the browser test of another browser than Chromium", [] if firefox() else no_firefox


def examine() -> dict:
    """This host's capabilities, as plain data: {"host": …, "backends": {name: …}, "extras": {name: …}}.

    Each backend, driver, workload and extra has `available`, and `missing`: a list of {"what": …, "remedy": …}; a
    driver also has its `isolation`.
    """
    return {
        "host": facts.host(),
        "backends": {name: _examine_backend(registry.backends.get(name)()) for name in registry.backends.names()},
        "extras": {name: _finding(purpose, lacks) for name, purpose, lacks in _extras()},
    }


def _examine_backend(backend: Backend) -> dict:
    lacks = backend.missing()
    drivers, workloads = {}, {}
    for name in registry.drivers.names():
        driver = registry.drivers.get(name)
        finding = _finding(driver.summary, lacks or _missing_for_driver(backend, name))
        drivers[name] = finding | {"isolation": driver.isolation}
    for name in registry.workloads.names():
        workload = registry.workloads.get(name)
        workloads[name] = _finding(workload.summary, lacks or backend.missing_programs(workload.programs))
    return {**_finding(backend.summary, lacks), "drivers": drivers, "workloads": workloads}


def _missing_for_driver(backend: Backend, name: str) -> list[MissingRequirement]:
    try:
        spec = Spec(backend=backend.name, driver=name)
        if registry.drivers.get(name).needs_hosts:
            spec = spec.replace(hosts=2, placement="across")
        plan = replace(plans.layout(spec), backend=backend)
        return [lack for lacks in plan.missing().values() for lack in lacks]
    except PairlabError as error:
        return lacking(f"its check failed ({error})", "report this bug, with the output of pairlab doctor --json")


def _finding(summary: str, lacks: list[MissingRequirement]) -> dict:
    missing = [{"what": lack.what, "remedy": lack.remedy} for lack in dict.fromkeys(lacks)]
    return {"available": not missing, "summary": summary, "missing": missing}


@dataclass(frozen=True)
class HostDifference:
    """The host's present state compared with an earlier snapshot.

    left: the differences that count. others: differences by other software, for information.
    """

    before: Snapshot
    after: Snapshot
    left: tuple[Difference, ...]
    others: tuple[Difference, ...]

    def as_dict(self) -> dict:
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
        before, now = self.before.conntrack_entries, self.after.conntrack_entries
        return "\n".join([*lines, *([] if now is None else [f"conntrack entries: {before} before, {now} now"])])


def compare(before: Snapshot, *, ours_only: bool = False) -> HostDifference:
    """Compares the host with a snapshot. Raises BadInput if the snapshot is not comparable.

    ours_only: count only differences that are certainly pairlab's, as on a host that others use meanwhile.
    """
    after = snapshot.take()
    differences = snapshot.diff(before, after)
    left = snapshot.counted(differences, ours_only=ours_only)
    return HostDifference(before, after, tuple(left), tuple(each for each in differences if each not in left))
