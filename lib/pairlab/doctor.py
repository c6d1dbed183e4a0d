"""What this machine can do, what is missing, and how to get it."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pairlab.analysis import texlive
from pairlab.errors import PairlabError
from pairlab.testbed import facts, registry, snapshot
from pairlab.testbed.contracts import Backend, Lack, Program
from pairlab.testbed.snapshot import Difference, Snapshot

#: What Chromium is called, by who distributes it.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _latex() -> list[Lack]:
    missing = texlive.missing()
    return [Lack(f"LaTeX lacks {', '.join(missing)}", texlive.REMEDY)] if missing else []


def _program(name: str) -> list[Lack]:
    lack = Program(name, package=name).lack()
    return [lack] if lack else []


def browser() -> str | None:
    """The Chromium that drives the browser tests: PAIRLAB_CHROMIUM, or one on PATH."""
    return next(filter(None, map(shutil.which, (os.environ.get("PAIRLAB_CHROMIUM", ""), *BROWSERS))), None)


def browser_lacks() -> list[Lack]:
    """Why there is none."""
    if browser():
        return []
    return [Lack("no Chromium is installed", "sudo apt-get install chromium, or PAIRLAB_CHROMIUM=/path/to/one")]


def _extras() -> Iterator[tuple[str, str, list[Lack]]]:
    """What pairlab does well without: its name, what it adds, and what is missing of it."""
    yield "LaTeX", "builds paper/main.pdf", _latex()
    yield "mmdebstrap", "builds the container image where no registry answers", _program("mmdebstrap")
    yield "Chromium", "runs the browser tests", browser_lacks()


def examine() -> dict:
    """The findings, as plain data: {"host": …, "backends": {name: …}, "extras": {name: …}}.

    Each thing that can be chosen has `available`, and `missing`: a list of {"what": …, "remedy": …}.
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
        drivers[name] = _finding(driver.summary, lacks or _safely(backend, driver))
    for name in registry.workloads.names():
        workload = registry.workloads.get(name)
        missing = [lack for program in workload.programs if (lack := backend.lacks_program(program))]
        workloads[name] = _finding(workload.summary, lacks or missing)
    return {**_finding(backend.summary, lacks), "drivers": drivers, "workloads": workloads}


def _safely(backend: Backend, driver) -> list[Lack]:
    try:
        return backend.lacks_for(driver)
    except PairlabError as error:
        return [Lack(f"its check failed ({error})", "report this, with the output of pairlab doctor --json")]


def _finding(summary: str, lacks: list[Lack]) -> dict:
    missing = [{"what": lack.what, "remedy": lack.remedy} for lack in dict.fromkeys(lacks)]
    return {"available": not missing, "summary": summary, "missing": missing}


@dataclass(frozen=True)
class Comparison:
    """The host now against an earlier snapshot. left: what counts; besides: what is others', for information."""

    before: Snapshot
    after: Snapshot
    left: tuple[Difference, ...]
    besides: tuple[Difference, ...]

    def as_dict(self) -> dict:
        """Plain data, for programs."""
        return {
            "left": [asdict(each) for each in self.left],
            "besides": [asdict(each) for each in self.besides],
            "unseen": dict(self.after.unseen),
            "conntrack_entries": {"before": self.before.conntrack_entries, "now": self.after.conntrack_entries},
        }

    def __str__(self) -> str:
        lines = [f"not as it was: {each}{'' if each.whose == 'ours' else ' [unknown whose]'}" for each in self.left]
        lines += [] if lines else ["nothing is left"]
        if self.besides:
            kinds = Counter(f"{each.kind} {each.change}" for each in self.besides)
            lines.append("not held against pairlab: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
        lines += [f"not looked at: {kind}: {why}" for kind, why in self.after.unseen.items()]
        if self.after.conntrack_entries is not None:
            lines.append(
                f"connections tracked: {self.before.conntrack_entries} then, {self.after.conntrack_entries} now"
            )
        return "\n".join(lines)


def compare(before: Snapshot, *, ours_only: bool = False) -> Comparison:
    """Looks at the host now, and says what is not as it was. Raises BadInput for a snapshot it cannot be held against.

    ours_only: what bears no sign of pairlab does not count, as on a host where others work meanwhile.
    """
    after = snapshot.take()
    found = snapshot.diff(before, after)
    left = snapshot.counted(found, ours_only=ours_only)
    return Comparison(before, after, tuple(left), tuple(each for each in found if each not in left))
