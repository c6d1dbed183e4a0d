"""`make soak`: what takes long: hundreds of pairs, hundreds of cells under kills, minutes of fuzzing.

    python -m soak [--part NAME ...] [--again] [--quick]

Each part's figures are kept in .cache/soak/ as soon as it is over, and what passed since the last commit is not run
again: an interrupted soak goes on with the part it was in. The quick variants, smaller in number but the same in kind,
are in the whole, too (tests/faults/test_load.py).
"""

import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from pairlab import paths
from pairlab.errors import Unavailable
from soak import causes, disturbed
from soak import load as soak_load
from soak import sweep as soak_sweep
from tests.support import evidence
from tests.support.evidence import Evidence

#: Takes a figure by name and value, as pytest's record_property does.
Record = Callable[[str, Any], None]


def fuzz(record: Record, *, quick: bool = False) -> None:
    """flowgen's parsing of arguments and of what peers send, under sanitizers, for ten minutes: no finding."""
    seconds = 10 if quick else 600
    command = ["make", "-C", "lib/flowgen", "fuzz", f"SECONDS={seconds}"]
    done = subprocess.run(command, cwd=paths.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, "a finding; its input lies in lib/flowgen/build/fuzz/"
    inputs = sum(map(int, re.findall(r"^Done (\d+) runs", done.stdout, re.MULTILINE)))
    assert inputs > 0, "nothing was tried"
    record("fuzzed_for_s", seconds)
    record("inputs", inputs)


PARTS: dict[str, Callable[..., None]] = {
    "netns-load": soak_load.netns,
    "docker-load": soak_load.docker,
    "sweep": soak_sweep.run,
    "disturbed": disturbed.run,
    "causes": causes.run,
    "fuzz": fuzz,
}


def run_part(name: str, quick: bool) -> Evidence:
    """One part, to its end; a broken promise, and whatever else goes wrong, is told and makes it failed."""
    figures: dict[str, list] = {}

    def record(figure: str, value: Any) -> None:
        print(f"  {figure}: {value}", flush=True)
        figures.setdefault(figure, []).append(value)

    when, begun, outcome = evidence.now(), time.monotonic(), "passed"
    try:
        PARTS[name](record, quick=quick)
    except Unavailable as error:
        outcome = "skipped"
        print(f"  skipped: {error}")
    except Exception:
        outcome = "failed"
        traceback.print_exc()
    return Evidence(f"soak:{name}", outcome, when, evidence.this_host(), time.monotonic() - begun, figures)


def passed_since_last_commit(name: str) -> bool:
    known = evidence.read(f"soak:{name}")
    if known is None or known.outcome != "passed":
        return False
    command = ["git", "log", "-1", "--format=%cI"]
    last_commit = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return bool(last_commit) and datetime.fromisoformat(known.when) > datetime.fromisoformat(last_commit)


@click.command()
@click.option("--part", "parts", multiple=True, help="Only this one; may be repeated.")
@click.option("--again", is_flag=True, help="Also what passed since the last commit.")
@click.option("--quick", is_flag=True, help="The small variants; their figures are shown and not kept.")
def main(parts, again, quick):
    """Run the soak, or parts of it. Exit status 1 where a promise was broken."""
    if unknown := set(parts) - set(PARTS):
        raise click.UsageError(f"no part {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    failed = []
    for name in parts or PARTS:
        if not (parts or again or quick) and passed_since_last_commit(name):
            print(f"{name}: passed since the last commit")
            continue
        print(f"{name}: {' '.join((PARTS[name].__doc__ or '').split())}", flush=True)
        done = run_part(name, quick)
        print(f"{name}: {done.outcome} after {done.took_s:.0f} s", flush=True)
        if not quick:
            evidence.write(done)
        if done.outcome == "failed":
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
