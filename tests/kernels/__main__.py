"""`python -m tests.kernels [SUBJECT ...] [--kernel PACKAGE] [-k EXPRESSION]`: what `make test-kernels` runs."""

import fcntl
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click

from tests.kernels import image, machine, selection

TIMEOUT_S = 1800


@click.command()
@click.argument("subjects", nargs=-1, metavar="[SUBJECT]...")
@click.option("--kernel", default="linux-image-cloud-amd64", show_default=True, help="the Debian package to boot")
@click.option("-k", "expression", default="", help="of these tests only those that match (pytest -k)")
@click.option("--timeout", "timeout_s", default=TIMEOUT_S, show_default=True, help="seconds that the machine may take")
def main(subjects: tuple[str, ...], kernel: str, expression: str, timeout_s: float) -> None:
    """Status 1 where a test failed or was skipped, or the machine did not report: it is there to run all of them."""
    if unknown := set(subjects) - set(selection.SUBJECTS):
        raise click.UsageError(f"no {', '.join(sorted(unknown))}; there are: {', '.join(selection.SUBJECTS)}")
    image.CACHE.mkdir(parents=True, exist_ok=True)
    with open(image.CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would take each other's time, and make the same image
        for left in image.CACHE.glob("run-*"):  # by one that was killed
            shutil.rmtree(left)
        begun = time.monotonic()
        try:
            found = image.ensure(kernel)
            with tempfile.TemporaryDirectory(prefix="run-", dir=image.CACHE) as place:
                reported = machine.run(found, selection.words(subjects, expression), Path(place), timeout_s)
                counts, troubles = judged(reported / "report.xml")
        except (image.CannotBuild, machine.NoReport) as error:
            raise click.ClickException(str(error)) from None
    print("\n".join([*troubles, f"{kernel}: {counts}, {time.monotonic() - begun:.0f} s"]))
    sys.exit(bool(troubles))


def judged(report: Path) -> tuple[str, list[str]]:
    """How many tests passed, and those that did not, with why: a skip hides what the machine is there for."""
    if not report.exists():
        return "no test ran", ["pytest wrote no report; its words are above"]
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    found = {
        f"{case.get('classname')}::{case.get('name')}": trouble
        for case in cases
        for trouble in case
        if trouble.tag in ("failure", "error", "skipped")
    }
    told = [f"{name}: {each.tag}: {each.get('message', '').partition(chr(10))[0]}" for name, each in found.items()]
    counts = f"{len(cases) - len(found)} tests of {len(cases)} passed"
    return counts, told if cases else ["no test matches"]


if __name__ == "__main__":
    main()
