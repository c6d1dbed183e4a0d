"""`python -m tests [PART ...] [-- PYTEST OPTIONS]`: the tests, part by part, the time of each, and the slowest tests.

Without a part, those of `make test`: what holds on any machine, however slow or busy (the gate). `--whole` is
`make test-all`: everything else, part after part. Parts that passed for this state of the checkout are left out, so
that it goes on where it ended. What only computes takes all CPUs; what measures has the machine to itself. A test of
the whole is marked so, or lies where tests/conftest.py says.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.evidence import CACHE

ROOT = Path(__file__).resolve().parents[1]
#: A file's tests stay in one process, which makes once what they share; the longest files begin (tests/conftest.py).
SIDE_BY_SIDE = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")
#: Those of flowgen wait, most of the time, and each has processes and ports of its own.
WAITING = ("-n", "4", "--dist", "loadfile")
OF_THE_GATE = ("-m", "not whole and not long")
OF_THE_WHOLE = ("-m", "whole and not long")
ALL_BUT_LONG = ("-m", "not long")

#: Faults of what Docker and its daemons do.
OF_DOCKER = (
    *(str(each.relative_to(ROOT)) for each in sorted((ROOT / "tests/faults").glob("test_killed_docker*.py"))),
    "tests/faults/test_swarm_of_the_user.py",
)
#: Faults of which numbers are held against the truth, and of launches, where a busy daemon's clean-up takes most of the
#: five seconds that it may.
OF_NUMBERS = tuple(f"tests/faults/test_{name}.py" for name in ("calibrate", "killed_launches", "load", "truth"))
#: All that read the shared runs (tests/support/shared.py), which are so measured once.
MEASURING = (
    "tests/host/measurement",
    *(f"tests/host/testbed/test_{name}.py" for name in ("limits", "neighbours", "nobody_gets_in", "shaping")),
    *(f"tests/host/testbed/test_{name}.py" for name in ("traffic", "workloads")),
)


def but(folder: str, *without: str) -> tuple[str, ...]:
    return (folder, *(f"--ignore={each}" for each in without))


#: What pytest is called with for each part of the gate.
GATE = {
    "unit": ("tests/unit", "plugins", *SIDE_BY_SIDE, *OF_THE_GATE),
    "notebooks": ("tests/notebooks", *SIDE_BY_SIDE, *OF_THE_GATE),
    "nbval": ("--nbval", "notebooks/analysis", *SIDE_BY_SIDE),
    "flowgen": ("tests/host/flowgen", *WAITING, *OF_THE_GATE),
    "host": (*but("tests/host", "tests/host/flowgen"), *OF_THE_GATE),
    "smoke": ("tests/smoke",),
    "kills": ("tests/faults", *OF_THE_GATE),
    "browser": ("tests/browser", *OF_THE_GATE),
}
#: Those of `make test`.
QUICK = ("unit", "notebooks", "flowgen", "smoke", "host", "browser")
#: For each part of the whole, in its order: what pytest is called with, or another program with its arguments.
WHOLE = {
    "unit-whole": ("tests/unit", "plugins", *SIDE_BY_SIDE, *OF_THE_WHOLE),
    "notebooks-whole": ("tests/notebooks", *SIDE_BY_SIDE, *OF_THE_WHOLE),
    "flowgen-whole": ("tests/host/flowgen", *OF_THE_WHOLE),
    "host-project": ("tests/host/project", *ALL_BUT_LONG),
    "host-testbed": (*but("tests/host/testbed", *MEASURING), *ALL_BUT_LONG),
    "host-others": (
        *but("tests/host", "tests/host/testbed", "tests/host/flowgen", "tests/host/project", *MEASURING),
        *ALL_BUT_LONG,
    ),
    "host-measuring": (*MEASURING, *ALL_BUT_LONG),
    "browser-whole": ("tests/browser", *OF_THE_WHOLE),
    "faults-docker": (*OF_DOCKER, *ALL_BUT_LONG),
    "faults-of-numbers": (*OF_NUMBERS, *ALL_BUT_LONG),
    "faults-others": (*but("tests/faults", *OF_DOCKER, *OF_NUMBERS), *OF_THE_WHOLE),
    "wheel": ("sh", ".ci/installed"),
    "lowest": (sys.executable, "-m", "tests.lowest"),
    "kernels": (sys.executable, "-m", "tests.kernels"),
    "faults-long": ("tests/faults", "-m", "long"),
    "soak": (sys.executable, "-m", "soak"),
    "search": (
        *("tests/unit", "plugins", "tests/notebooks", "tests/host", *SIDE_BY_SIDE[:2]),
        *("-m", "long or hypothesis", "--hypothesis-profile=search"),
    ),
}
PARTS = GATE | WHOLE
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 * 2**30
NO_TESTS = 5  # pytest's status where all were deselected
SLOWEST = 10


@dataclass(frozen=True)
class Outcome:
    """Of one part: pytest's status, the seconds it took, and how many tests passed, failed or were skipped."""

    part: str
    status: int
    took_s: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        said = f"{self.failed} failed" if self.failed else f"status {self.status}" if self.status else "passed"
        tests = self.passed + self.failed + self.skipped
        return f"{self.part:<17} {self.took_s:5.0f} s  {tests:5} tests, {self.skipped} skipped: {said}"


def main(words: list[str]) -> int:
    """Runs them all, also after one that fails. Returns 0 if all passed, else the first status that is not 0."""
    at = words.index("--") if "--" in words else len(words)
    asked, options = words[:at], words[at + 1 :]
    whole, again = "--whole" in asked, "--again" in asked
    parts = [each for each in asked if not each.startswith("--")] or list(WHOLE if whole else QUICK)
    if unknown := [each for each in parts if each not in PARTS] + [
        each for each in asked if each.startswith("--") and each not in ("--whole", "--again")
    ]:
        print(f"no part {', '.join(unknown)}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    outcomes = []
    for part in parts:
        known = passed_before(part) if whole else None
        if known:
            print(f"\n{part}: passed before, for this state of the checkout", flush=True)
        outcomes.append(known or run(part, options, again))
    print("\n".join(["", *map(str, outcomes), "", "The slowest:", *slowest(parts)]))
    return next((each.status for each in outcomes if each.status), 0)


def run(part: str, options: Sequence[str] = (), again: bool = False) -> Outcome:
    """Runs that part, and keeps the outcome if it is that of all its tests.

    again: only the tests that failed the last time, one after another.
    """
    print(f"\n{part}:", flush=True)
    begun = time.monotonic()
    status = status_of(part, PARTS[part], options, again)
    counts = Counter(map(outcome_of, cases(part)))
    counted = {name: counts[name] for name in ("passed", "failed", "skipped")}
    outcome = Outcome(part, status, round(time.monotonic() - begun, 1), **counted)
    if not options and not again:
        kept(part).parent.mkdir(parents=True, exist_ok=True)
        kept(part).write_text(json.dumps(asdict(outcome) | {"checkout": checkout()}))
    return outcome


def status_of(part: str, words: tuple[str, ...], options: Sequence[str], again: bool) -> int:
    """The status of one call; 0 where all tests were deselected."""
    report(part).unlink(missing_ok=True)
    if words[0] in ("sh", sys.executable):
        command = [*words, *options]
    else:
        without = () if "--nbval" in words else ("-p", "no:nbval")  # which each process would take a second to import
        kept_in = ("-o", f"cache_dir={CACHE / 'pytest' / part}")  # the tests that failed
        if again:
            words = tuple(each for each in words if each not in (*SIDE_BY_SIDE, *WAITING))
            options = [*options, "--last-failed", "--last-failed-no-failures=none"]
        command = [sys.executable, "-m", "pytest", *without, *kept_in, *words, f"--junit-xml={report(part)}", *options]
    with files_of(part) as environment, subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt:  # pytest was interrupted, too, and cleans up
            process.wait()
            raise
    return 0 if status == NO_TESTS else status


@contextlib.contextmanager
def files_of(part: str) -> Iterator[dict[str, str]]:
    """The environment of its tests. Those that only compute have their files in memory, if there is room: a store waits
    for its disk several times for each run."""
    computes = part.removesuffix("-whole") in ("unit", "notebooks", "nbval")
    if not computes or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory(prefix="pairlab-tests-", dir=MEMORY) as place:
        yield os.environ | {"PYTEST_DEBUG_TEMPROOT": place}


def report(part: str) -> Path:
    return CACHE / f"{part}.xml"


def kept(part: str) -> Path:
    return CACHE / "parts" / f"{part}.json"


def passed_before(part: str) -> Outcome | None:
    """The kept outcome of that part, if it passed for the checkout as it is now."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = json.loads(kept(part).read_text())
        if found.pop("checkout") == checkout() and found["status"] == 0:
            return Outcome(**found)
    return None


def checkout() -> str:
    """The commit, and a hash of what differs from it; without git, nothing that anything equals."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        commands = (["rev-parse", "HEAD"], ["diff", "HEAD"], ["status", "--porcelain"])
        said = [subprocess.run(["git", *each], cwd=ROOT, check=True, capture_output=True).stdout for each in commands]
        return hashlib.sha256(b"".join(said)).hexdigest()
    return str(time.time_ns())


def cases(part: str) -> list[ElementTree.Element]:
    return list(ElementTree.parse(report(part)).getroot().iter("testcase")) if report(part).exists() else []


def outcome_of(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def slowest(parts: Sequence[str]) -> list[str]:
    """Lines: seconds, setup and cleanup included, and the test."""
    every = [(float(case.get("time", 0)), case) for part in parts for case in cases(part)]
    every.sort(key=lambda each: -each[0])
    return [f"{took_s:7.1f} s  {case.get('classname')}::{case.get('name')}" for took_s, case in every[:SLOWEST]]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
