"""How long launches take over each network, in which phases, beside idle pairs and many at once.

Source: Suo et al. 2018, table VI.

A run's launches follow each other on one testbed, so that they are no repetitions of each other: what is averaged, and
what intervals are of, are the runs' means, as Suo et al. 2018 show means of ten launches.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pairlab.analysis import by_group, published
from pairlab.analysis.comparison.cells import named
from pairlab.analysis.figures import cdf, estimates, grid
from pairlab.analysis.output.formatting import MISSING, span
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Column, Frame, Mean, Question, Table
from pairlab.analysis.selection import SYSTEM
from pairlab.analysis.sentences import extremes
from pairlab.model import launches
from pairlab.model.records import Run

LAUNCH = Quantity("Launch time (ms)", "launch", 1, 1e3, "ms")
#: What Suo et al. 2018 call the drivers that are networks of ours by another name.
KNOWN_AS = {"process": "host", "flannel-vxlan": "flannel", "flannel-udp": "flannel"}
#: Suo et al. 2018 hold each network against this one.
REFERENCE = "none"
_PHASES = list(launches.PHASES.values())
#: The phases from below, each with its grey, as colours are the drivers'.
_COLOURS = dict(zip(_PHASES, map(to_hex, seaborn.color_palette("Greys", len(_PHASES) + 1)[1:]), strict=True))
_LINE = (*SYSTEM, "hosts", "driver")


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of one launch at a time, beside no idle pairs: as in Suo et al. 2018."""
    return frame[(frame["pairs"] == 1) & (frame["idle_pairs"] == 0)]


def several(cells: pd.DataFrame, number: str) -> pd.DataFrame:
    """Those cells of a network that differ in that number: others are no line."""
    return cells[cells.groupby(list(_LINE))[number].transform("nunique") > 1]


def every(runs: Iterable[Run]) -> pd.DataFrame:
    """Each launch that counts, of runs with one at a time beside no idle pairs: backend, workload, hosts, driver,
    repetition, status and ready_s, infinite where it failed.
    """
    parts = [
        pd.DataFrame({"ready_s": launches.ready_s(run.launches)}).assign(
            status=run.launches["status"], **{name: getattr(run.spec, name) for name in (*_LINE, "repetition")}
        )
        for run in runs
        if run.status == "ok" and run.spec.pairs == 1 and not run.spec.idle_pairs
    ]
    columns = [*_LINE, "repetition", "status", "ready_s"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _with_times(answer: Answer) -> pd.DataFrame:
    """Launch times alone, beside those of `none` on one host: base_s."""
    found = alone(answer["launch"])
    base = found[(found["driver"] == REFERENCE) & (found["hosts"] == 1)].drop_duplicates([*SYSTEM])
    return found.merge(base[[*SYSTEM, "value"]].rename(columns={"value": "base_s"}), how="left", on=[*SYSTEM])


def _times(row: Any) -> str:
    times = row.value / row.base_s
    return f"{times:.2f}" if times == times else MISSING


def _published(row: Any, times: bool = False) -> str:
    """The launch time of Suo et al. 2018 in ms, or how many times that of `none` it is."""
    rows = published.load("launch_times").set_index(["hosts", "driver"])["launch_s"]
    value = rows.get((row.hosts, KNOWN_AS.get(row.driver, row.driver)))
    if value is None:
        return MISSING
    return f"{value / rows[1, REFERENCE]:.2f}" if times else f"{value * 1e3:,.1f}"


_hosts_text = partial(named, "hosts")
#: A row per backend, as these lie orders apart, and in it a panel per number of hosts.
_BY_HOSTS: dict[str, Any] = {"rows": ["backend"], "column": "hosts_text", "title": "{row}, {each}"}


def _panels(frame: pd.DataFrame, draw: Callable[..., Axes], note: str, answer: Answer, **layout: Any) -> Figure:
    named_hosts = frame.assign(hosts_text=frame["hosts"].map(_hosts_text))
    return grid.facets(named_hosts, draw, note=note, conditions=answer.conditions, **_BY_HOSTS | layout)


def _each_is_a_mean(repetitions: pd.DataFrame) -> str:
    return f"; each the mean of {span(repetitions['flows'])} launches"


def _phases(answer: Answer) -> Figure | None:
    """What launches spend their time on, by driver, stacked: of one at a time beside no idle pairs the mean of each
    phase over the repetitions. What a network does not have is 0.
    """
    frame = alone(answer.repetitions).groupby(list(_LINE), sort=True)[_PHASES].mean().fillna(0.0).reset_index()
    shown = {name: colour for name, colour in _COLOURS.items() if frame[name].gt(0).any()}
    if not shown:
        return None

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        bars: dict[str, Any] = {"colours": shown, "scale": LAUNCH.scale}
        estimates.from_zero(estimates.stacked_by_driver(panel, ax, part="phase", label=LAUNCH.title, **bars))
        return ax

    n = alone(answer["launch"])["n"]
    note = f"mean of n = {span(n)} repetitions; a phase counts from the end of the one before"
    parts = frame.melt(list(_LINE), list(shown), "phase", "value")
    return _panels(parts, draw, note, answer, handles=grid.patches(shown), share_y=False)


def _cdf(answer: Answer) -> Figure | None:
    """The CDF of all launches, a line per driver, and a faint one per repetition."""
    frame = every(answer.found)
    if not (frame["status"] == "ok").any():
        return None
    points = by_group.of(frame, _LINE, "ready_s").cdf(each=True)
    draw = partial(cdf.cdf_lines, label=LAUNCH.title, scale=LAUNCH.scale, log=True, of="launches")
    return _panels(points, draw, cdf.note(points.assign(pairs=points["hosts"]), "launches"), answer)


def _beside(answer: Answer) -> Figure | None:
    """The mean launch time against idle pairs, and against launches at once, where these are varied."""
    cells = answer.known("launch")
    varied = {"idle_pairs": ("Idle pairs", "pairs", 1), "pairs": ("Launched at once", "idle_pairs", 0)}
    lines = [
        several(cells[cells[other] == at], number).assign(number=number) for number, (_, other, at) in varied.items()
    ]
    frame = pd.concat(lines)
    if frame.empty:
        return None

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        number = panel["number"].iloc[0]
        return estimates.by_number(panel, ax, measure=LAUNCH, number=number, name=varied[number][0])

    layout: dict[str, Any] = {"rows": ["backend", "hosts_text"], "column": "number", "title": "{row}"}
    return grid.facets(frame, draw, note=estimates.caption(frame), conditions=answer.conditions, **layout)


LAUNCH_TIME = Question(
    topic="launch-time",
    by=["hosts", "idle_pairs"],
    quantities=("launch_mean_s", *_PHASES),
    alike=False,
    words={"hosts_text": (("hosts",), _hosts_text)},
    estimates={"launch": Mean(LAUNCH, "launch_mean_s"), "alone": Frame(_with_times, LAUNCH)},
    tables={
        "launch-time": Table(
            {"hosts": "Hosts", "driver": "Driver"},
            [
                "alone",
                Column("Times none", "alone", _times),
                Column("Paper S (ms)", "alone", _published),
                Column("Paper S, times none", "alone", partial(_published, times=True)),
            ],
        ),
        "launch-beside": Table(
            {"hosts": "Hosts", "driver": "Driver", "pairs": "At once", "idle_pairs": "Idle pairs"}, ["launch"]
        ),
    },
    figures={
        "launch-time": lambda answer: answer.dots("launch", _BY_HOSTS, where=alone, remark=_each_is_a_mean),
        "launch-phases": _phases,
        "launch-cdf": _cdf,
        "launch-beside": _beside,
    },
    keys={"launch": ("system", "hosts", "driver", "pairs", "idle_pairs")},
    answer=[extremes("alone", "launch time", ("hosts",))],
)
