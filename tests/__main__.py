"""`python -m tests [TIER ...] [-- PYTEST OPTIONS]`: the tests, tier by tier, their times and the ten slowest tests.

Without a tier, those of `make test`. What only computes takes all CPUs; what measures has the machine to itself. A part
of a tier is asked for by its own name, such as faults-docker.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from tests.support.evidence import CACHE

ROOT = Path(__file__).resolve().parents[1]
#: A file's tests stay in one process, which makes once what they share; the longest files begin (tests/conftest.py).
SIDE_BY_SIDE = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")

#: Faults of what Docker and its daemons do.
OF_DOCKER = (
    *(str(each.relative_to(ROOT)) for each in sorted((ROOT / "tests/faults").glob("test_killed_docker*.py"))),
    "tests/faults/test_swarm_of_the_user.py",
)
#: Faults of which numbers are held against the truth, and of launches, where a busy daemon's clean-up takes most of the
#: five seconds that it may: they need a machine to themselves, as tests/host does.
OF_NUMBERS = tuple(f"tests/faults/test_{name}.py" for name in ("calibrate", "killed_launches", "load", "truth"))

#: Host tests of which some see nothing right where others take the CPUs: how much is carried, or counted by when. And
#: all that read the shared runs (tests/support/shared.py), which are so measured once.
MEASURING = (
    "tests/host/measurement",
    *(f"tests/host/testbed/test_{name}.py" for name in ("limits", "neighbours", "nobody_gets_in", "shaping")),
    *(f"tests/host/testbed/test_{name}.py" for name in ("traffic", "workloads")),
)
#: flowgen by itself mostly waits.
OF_FLOWGEN = ("tests/host/flowgen",)
#: What pages and guides show, as their readers do it.
OF_THE_PROJECT = ("tests/host/project",)

#: The parts of each tier, one after the other: by the name of its report, what pytest is called with.
TIERS = {
    "unit": {"unit": ("tests/unit", "plugins", *SIDE_BY_SIDE)},
    "notebooks": {"notebooks": ("tests/notebooks", *SIDE_BY_SIDE)},
    "nbval": {"nbval": ("--nbval", "notebooks/analysis", *SIDE_BY_SIDE)},
    "host": {"host": ("tests/host",)},
    "browser": {"browser": ("tests/browser",)},
    "faults": {
        "faults-docker": OF_DOCKER,
        "faults-of-numbers": OF_NUMBERS,
        "faults-others": ("tests/faults", *(f"--ignore={each}" for each in (*OF_DOCKER, *OF_NUMBERS))),
    },
}
#: What else may be asked for by name.
PARTS = {name: {name: words} for parts in TIERS.values() for name, words in parts.items()} | TIERS
PARTS |= {
    "host-measuring": {"host-measuring": MEASURING},
    "host-flowgen": {"host-flowgen": OF_FLOWGEN},
    "host-project": {"host-project": OF_THE_PROJECT},
    "host-testbed": {"host-testbed": ("tests/host/testbed", *(f"--ignore={each}" for each in MEASURING))},
    "host-others": {
        "host-others": (
            *("tests/host", "--ignore=tests/host/testbed"),
            *(f"--ignore={each}" for each in (*MEASURING, *OF_FLOWGEN, *OF_THE_PROJECT)),
        )
    },
}
QUICK = ("unit", "notebooks", "host", "browser")
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 * 2**30
NO_TESTS = 5  # pytest's status where all were deselected
SLOWEST = 10


def main(words: list[str]) -> int:
    """Runs them all, also after one that fails. Returns 0 if all passed, else the first status that is not 0."""
    tiers, _, options = (words, "", []) if "--" not in words else split(words)
    if unknown := set(tiers) - set(PARTS):
        print(f"no tier {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    found = [run(tier, options) for tier in tiers or QUICK]
    print("\n".join(["", *map(line_of, found), "", "The slowest:", *slowest([tier for tier, *_ in found])]))
    return next((status for _, status, _ in found if status), 0)


def split(words: list[str]) -> tuple[list[str], str, list[str]]:
    at = words.index("--")
    return words[:at], "--", words[at + 1 :]


def run(tier: str, options: list[str]) -> tuple[str, int, float]:
    """The tier, pytest's first status that is not 0 and the seconds it took."""
    print(f"\n{tier}:", flush=True)
    begun = time.monotonic()
    found = [status_of(name, words, options) for name, words in PARTS[tier].items()]
    return tier, next((status for status in found if status), 0), time.monotonic() - begun


def status_of(name: str, words: tuple[str, ...], options: list[str]) -> int:
    """Pytest's status of one call; 0 where all its tests were deselected."""
    report(name).unlink(missing_ok=True)
    without = () if "--nbval" in words else ("-p", "no:nbval")  # which each process would take a second to import
    command = [sys.executable, "-m", "pytest", *without, *words, f"--junit-xml={report(name)}", *options]
    with files_of(name) as environment, subprocess.Popen(command, cwd=ROOT, env=environment) as pytest:
        try:
            status = pytest.wait()
        except KeyboardInterrupt:  # pytest was interrupted, too, and cleans up
            pytest.wait()
            raise
    return 0 if status == NO_TESTS else status


@contextlib.contextmanager
def files_of(name: str) -> Iterator[dict[str, str]]:
    """The environment of its tests. Those that only compute have their files in memory, if there is room: a store waits
    for its disk several times for each run."""
    if name not in ("unit", "notebooks", "nbval") or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory(prefix="pairlab-tests-", dir=MEMORY) as place:
        yield os.environ | {"PYTEST_DEBUG_TEMPROOT": place}


def report(name: str) -> Path:
    return CACHE / f"{name}.xml"


def cases(tier: str) -> list[ElementTree.Element]:
    paths = [path for path in map(report, PARTS[tier]) if path.exists()]
    return [case for path in paths for case in ElementTree.parse(path).getroot().iter("testcase")]


def line_of(found: tuple[str, int, float]) -> str:
    tier, status, took_s = found
    skipped = sum(case.find("skipped") is not None for case in cases(tier))
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases(tier))
    outcome = f"{failed} failed" if failed else f"status {status}" if status else "passed"
    return f"{tier:<13} {took_s:5.0f} s  {len(cases(tier)):5} tests, {skipped} skipped: {outcome}"


def slowest(tiers: list[str]) -> list[str]:
    """Lines: seconds, setup and cleanup included, and the test."""
    every = [(float(case.get("time", 0)), case) for tier in tiers for case in cases(tier)]
    every.sort(key=lambda each: -each[0])
    return [f"{took_s:7.1f} s  {case.get('classname')}::{case.get('name')}" for took_s, case in every[:SLOWEST]]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
