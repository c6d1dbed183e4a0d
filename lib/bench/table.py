"""The table of `make bench`: each figure, a median of n with its range, beside its bound; and how far a command is."""

import contextlib
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pairlab.progress import terminal
from pairlab.testbed import plans
from pairlab.testbed.requirements import Program, missing_programs

out = Console(highlight=False)
table = Table("what", "median", "range", "n", "bound", "met", title="pairlab bench")

#: What the part that runs now has measured under a name, and whether all its bounds were met: for the evidence.
figures, verdicts = {}, []


def note(what, values, bound="none", met=True, unit="", figure=None, *, at_most=None, at_least=None):
    """A row of the table.

    at_most, at_least: of the median; or else bound tells what was to be met, in words. figure: the name that it is kept
    under, the unit in it; without one it is only shown.
    """
    if at_most is not None:
        bound, met = f"≤ {at_most:.3g}{unit}", statistics.median(values) <= at_most
    if at_least is not None:
        bound, met = f"≥ {at_least:.3g}{unit}", statistics.median(values) >= at_least
    verdicts.append(met)
    if figure:
        figures[figure] = list(values)
    values = sorted(values)
    shown = [f"{value:.3g}{unit}" for value in (statistics.median(values), values[0], values[-1])]
    table.add_row(what, shown[0], f"{shown[1]} to {shown[2]}", str(len(values)), bound, "yes" if met else "[red]NO[/]")
    out.print(f"{what}: {shown[0]} ({shown[1]} to {shown[2]}, n={len(values)}), bound {bound}")


def note_mean(mean, figure):
    """The geometric mean of the ratios of that name, an Estimate, beside them."""
    told = f"{mean.value:.3f}, 95 % interval {mean.low:.3f} to {mean.high:.3f}"
    out.print(f"  geometric mean {told}")
    figures[f"{figure}_mean"] = [told]


def leave_out(what, why):
    table.add_row(what, "left out", why, "", "", "")


#: Docker's command line, which Debian 13 has in a package of its own.
DOCKER_CLI = Program("docker", "", "sudo apt-get install docker-cli, or docker.io")


def lacking(*programs, root=False):
    """What this machine lacks for a peer, in words; empty: nothing. root: whether the peer needs that."""
    lacks = map(str, missing_programs(programs))
    return "; ".join([*["needs root"] * (root and os.geteuid() != 0), *lacks])


def missing(spec, *programs, root=False):
    """The same, for that spec, too."""
    lacks = "; ".join(str(lack) for found in plans.layout(spec).missing().values() for lack in found)
    return "; ".join(filter(None, (lacks, lacking(*programs, root=root))))


def paced(parts: Iterable[str], kept: Path, console: Console) -> Iterator[str]:
    """Each part in its turn. kept: the file that keeps how long each takes, in seconds by its name.

    Where not all that is left has been done before, no time is told: parts have nothing in common.
    """
    parts, took_s = list(parts), _read(kept)
    with terminal.bars(console) as shown:
        task = shown.add_task("", total=len(parts))
        for number, part in enumerate(parts):
            shown.update(task, completed=number, description=f"{number} of {len(parts)} done: {part}")
            left = parts[number:]
            terminal.expect(shown, task, sum(took_s[each] for each in left) if took_s.keys() >= set(left) else None)
            begun = time.monotonic()
            yield part
            took_s[part] = round(time.monotonic() - begun, 3)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(took_s, indent=1) + "\n")


def _read(kept: Path) -> dict[str, float]:
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # spoilt is as good as none
        return {str(name): float(seconds) for name, seconds in json.loads(kept.read_text()).items()}
    return {}
