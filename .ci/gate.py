"""The parts of the gate, one after another, each within a time limit; a second look at what failed; a table of all.

As a stranger: a user made for it, a fresh clone, the distribution's Python, none of the tools that `make tools`
installs, no Docker. Then as root with everything, and the newest Python. What is asserted holds on any machine, however
slow or busy: a limit is there so that a hang ends. What needs a quiet machine is in the whole (`make test-all`).

A test that failed is run once more, alone, when all else has ended. If it passes then it is flaky: that is printed, and
is to be mended. More than three of those fail the gate, as one that fails twice does.

Usage, as root: python3 .ci/gate.py PYTHON, with the Python for root's part.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STRANGER = "pairlab-stranger"
MOST_FLAKY = 3
#: Of what a part printed: lines shown where it ran, and of each failure at the end.
SHOWN, SHOWN_OF_FAILURE = 12, 25
PYTHON = ".venv/bin/python"
TESTS = f"{PYTHON} -m tests"

#: What must be there for the tests of everything, as it was just installed.
EXPECTED = ",".join(
    ["latex", "chromium", "firefox", "uml:overlay", "uml:ovs", "uml:ipip", "uml:ipvlan-l3"]
    + [
        f"{backend}:{name}"
        for backend in ("docker", "netns")
        for name in ("bridge", "macvlan", "ovs", "host", "iperf", "iperf3", "flowgen", "netcat", "sockperf")
    ]
)
#: What plays machines, which no user of pairlab needs.
SSHD = "apt-get install --quiet=2 --yes --no-install-recommends openssh-server"
#: Where other load takes the CPUs, no run counts, rightly: then there is nothing to draw, and that is said.
FIRST_RUN = """mkdir -p .cache && make run SWEEP=try > .cache/first-run 2>&1
cat .cache/first-run
ls runs/*/*/run.json && { ls figures/try/*.pdf || grep -q 'other processes used' .cache/first-run; }"""


@dataclass(frozen=True)
class Part:
    """command: for a shell in the checkout. tests: the parts of `python -m tests` of which it has reports; empty: it is
    a command that is repeated as a whole. most_s: some ten times what it usually takes."""

    name: str
    command: str
    most_s: int
    as_stranger: bool = False
    tests: tuple[str, ...] = ()


@dataclass
class Outcome:
    part: Part
    status: int
    took_s: float
    output: str
    passed: set[str] = field(default_factory=set)  # tests, or the part itself where it is a command
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # by test: what was said of the failure

    @property
    def ok(self) -> bool:
        return self.status == 0 and not self.failed


#: Builds the image of containers, if it is not there.
IMAGE = "import docker; from pairlab.testbed.docker import image; image.ensure(docker.from_env(), lambda *_: None)"
#: Of unit, what the newest Python is not tried with: documents, and analyses, all of which nbval runs.
LESS = "--ignore=tests/unit/project --ignore=tests/unit/analysis"
#: Without these nothing else can work.
NEEDED = ("tools", "set-up", "root's set-up", "image")


#: A test, what was said of its failure, and what the second look printed.
Flaky = tuple[str, str, str]


def stages(python: str) -> list[list[Part]]:
    """One after another; the parts of a stage beside each other: they fetch, they only compute, or they wait for most
    of their time, and nobody looks at how fast what they measure was."""
    quick = ("unit", "notebooks", "flowgen", "smoke", "host", "browser")
    return [
        [
            Part("tools", f"sh lib/tools.sh && {SSHD}", 1200),
            Part("root's set-up", f"make setup PYTHON={python}", 600),
        ],
        [
            Part("set-up", "make setup", 600, as_stranger=True),
            Part("lint", f"make lint PYTHON={python}", 600),
        ],
        [Part("first run", FIRST_RUN, 600, as_stranger=True)],
        [Part("make test", "make test", 2400, as_stranger=True, tests=quick)],
        [Part("image", f"{PYTHON} -c '{IMAGE}'", 600)],
        [
            Part("unit", f"{TESTS} unit -- {LESS}", 1500, tests=("unit",)),
            Part("bench", f"{PYTHON} -m bench --smallest", 900),
        ],
        [
            Part("nbval", f"{TESTS} nbval", 1500, tests=("nbval",)),
            Part("smoke", f"{TESTS} smoke", 1500, tests=("smoke",)),
        ],
        [Part("kills", f"{TESTS} kills", 900, tests=("kills",))],
        [Part("browser", f"{TESTS} browser", 600, tests=("browser",))],
    ]


def main(python: str) -> int:
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-")))
        home = stack.enter_context(stranger())
        checkouts = {True: home / "pairlab", False: ROOT}
        outcomes = []
        for stage in stages(python):
            if stage[0].name == "image":
                stack.enter_context(docker_daemon(scratch / "dockerd.log"))
            with ThreadPoolExecutor() as threads:
                found = list(threads.map(lambda part: run(part, checkouts[part.as_stranger]), stage))
            for outcome in found:
                print(f"\n== {row(outcome)}", *outcome.output.splitlines()[-SHOWN:], sep="\n", flush=True)
            outcomes += found
            if any(each.part.name in NEEDED and not each.ok for each in found):
                break
        flaky = [
            each
            for outcome in outcomes
            if not outcome.ok
            for each in second_look(outcome, checkouts[outcome.part.as_stranger])
        ]
    print(f"\nThe gate, {time.monotonic() - begun:.0f} s:\n")
    return conclude(outcomes, flaky)


def conclude(outcomes: Sequence[Outcome], flaky: Sequence[Flaky]) -> int:
    """Prints the table, and then what failed. The exit status: 0 if the change may land."""
    print(*map(row, outcomes), sep="\n")
    for test, first, second in flaky:
        print(f"\nflaky: {test} failed, and passed alone.", "First:", tail(first), "Then:", tail(second), sep="\n")
    red = [each for each in outcomes if not each.ok]
    for outcome in red:
        for test, said in outcome.failed.items():
            print(f"\nfailed: {test}", tail(said), sep="\n")
        if not outcome.failed:
            print(f"\nfailed: {outcome.part.name}, status {outcome.status}", tail(outcome.output), sep="\n")
    if len(flaky) > MOST_FLAKY:
        print(f"\n{len(flaky)} flaky tests, and {MOST_FLAKY} are bearable:", *(test for test, *_ in flaky), sep="\n  ")
    passed, skipped = sum(len(each.passed) for each in outcomes), sum(each.skipped for each in outcomes)
    failures = sum(len(each.failed) or 1 for each in red)
    print(f"\n{passed} passed, {failures} failed, {skipped} skipped", flush=True)
    return 1 if red or len(flaky) > MOST_FLAKY else 0


def run(part: Part, checkout: Path, command: str = "") -> Outcome:
    """Runs it, or that command in its place, to its end or its limit. Status 124: it hung."""
    command = command or part.command
    for each in part.tests:
        report(checkout, each).unlink(missing_ok=True)
        kept(checkout, each).unlink(missing_ok=True)
    if part.as_stranger:
        argv = ["unshare", "--mount", "--propagation", "private", "bash", ".ci/without-tools", STRANGER, command]
    else:
        argv = ["bash", "-c", command]
    begun = time.monotonic()
    done = subprocess.run(
        ["timeout", "--kill-after=60", str(part.most_s), *argv],
        cwd=ROOT if part.as_stranger else checkout,
        env=os.environ | {"PAIRLAB_EXPECT": EXPECTED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    outcome = Outcome(part, done.returncode, time.monotonic() - begun, done.stdout)
    for each in part.tests:
        for case in cases(report(checkout, each)):
            test = f"{case.get('classname')}::{case.get('name')} ({part.name})"
            found = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
            if found is not None:
                outcome.failed[test] = found.text or ""
            elif case.find("skipped") is not None:
                outcome.skipped += 1
            else:
                outcome.passed.add(test)
    if not part.tests and outcome.ok:
        outcome.passed.add(part.name)
    return outcome


def second_look(outcome: Outcome, checkout: Path) -> list[Flaky]:
    """Runs once more what failed. Of what passes now, and so counts as passed: the test, what it said first, and now.
    What was not run or was skipped has not passed.

    What hung, what ended without a report, and what installs or only reads the code is not looked at again.
    """
    part = outcome.part
    if part.tests and outcome.failed and all(ended(checkout, each) for each in part.tests):
        failing = [each for each in part.tests if any(map(failed, cases(report(checkout, each))))]
        command = f"{TESTS} --again {' '.join(failing)}"
    elif part.name in ("first run", "bench") and outcome.status != 124:
        command, outcome.failed = part.command, {part.name: outcome.output}
    else:
        return []
    again = run(part, checkout, command)
    print(f"\n== a second look: {row(again)}", *again.output.splitlines()[-SHOWN:], sep="\n", flush=True)
    flaky = [(test, said, again.output) for test, said in outcome.failed.items() if test in again.passed]
    for test, *_ in flaky:
        del outcome.failed[test]
        outcome.passed.add(test)
    outcome.status = outcome.status if outcome.failed else 0
    return flaky


def report(checkout: Path, tests: str) -> Path:
    return checkout / ".cache" / f"{tests}.xml"


def kept(checkout: Path, tests: str) -> Path:
    return checkout / ".cache" / "parts" / f"{tests}.json"


def ended(checkout: Path, tests: str) -> bool:
    """Whether pytest came to the end of these tests, whatever their outcomes (its exit status 0 or 1)."""
    path = kept(checkout, tests)
    return path.exists() and json.loads(path.read_text())["status"] in (0, 1)


def cases(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.parse(path).getroot().iter("testcase")) if path.exists() else []


def failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def row(outcome: Outcome) -> str:
    said = "passed" if outcome.ok else "took too long" if outcome.status == 124 else f"FAILED (status {outcome.status})"
    counts = f"{len(outcome.passed):5} passed {len(outcome.failed):3} failed {outcome.skipped:4} skipped"
    who = "stranger" if outcome.part.as_stranger else "root"
    return f"{outcome.part.name:<14} {who:<9} {outcome.took_s:5.0f} s {counts}: {said}"


def tail(text: str) -> str:
    return "\n".join(f"  {line[:200]}" for line in text.rstrip().splitlines()[-SHOWN_OF_FAILURE:])


@contextlib.contextmanager
def stranger() -> Iterator[Path]:
    """The home of a user made for this, with a fresh clone in it; both go in the end."""
    subprocess.run(["userdel", "--remove", STRANGER], capture_output=True)  # of a gate that was killed
    subprocess.run(["useradd", "--create-home", STRANGER], check=True)
    try:
        home = Path("~" + STRANGER).expanduser()
        shutil.rmtree(home / "pairlab", ignore_errors=True)
        clone = ["git", "clone", "--quiet", "--no-hardlinks", f"file://{ROOT}", str(home / "pairlab")]
        subprocess.run(clone, check=True)
        subprocess.run(["chown", "-R", f"{STRANGER}:", str(home / "pairlab")], check=True)
        yield home
    finally:
        subprocess.run(["userdel", "--remove", STRANGER], capture_output=True)


@contextlib.contextmanager
def docker_daemon(log: Path) -> Iterator[None]:
    """One that answers, started if there is none."""

    def answers() -> bool:
        return subprocess.run(["docker", "info"], capture_output=True).returncode == 0

    if answers():
        yield
        return
    with log.open("w") as out, subprocess.Popen(["dockerd"], stdout=out, stderr=out) as daemon:
        try:
            while not answers() and daemon.poll() is None:
                time.sleep(0.1)
            if daemon.poll() is not None:
                print(f"dockerd ended:\n{tail(log.read_text())}", flush=True)
            yield
        finally:
            daemon.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
