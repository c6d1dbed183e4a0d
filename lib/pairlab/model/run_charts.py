"""A run's results as small charts in its card: each client and the total over time, or the distribution of times."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pairlab.base.charts import Chart, axis, counted, scaled, side_by_side
from pairlab.model import fct, latencies, launches
from pairlab.model.rates import client_bps
from pairlab.model.tables import carried_bytes

_COLOR = "var(--jp-brand-color1, #1976d2)"
#: A line has no more points; more values than bars are shown as a line of their shares.
_POINTS, _BARS = 60, 64
#: Of transactions, the slowest would leave the others no room.
_MOST_SHARE = 0.99


def charts(run: Any) -> str:
    """HTML; empty of a run that has nothing to draw. run: a Run, whose module imports this one."""
    ready_s = launches.ready_s(run.launches).to_numpy()
    drawn = list(_times(ready_s, "launch", "Launch time") if run.spec.launches else _of_flows(run))
    return side_by_side(run.outcome, drawn) if drawn else ""


def _of_flows(run: Any) -> Iterator[str]:
    if latencies.timed(run.transactions, run.flows):
        counts = latencies.merged(run.transactions)
        shares = np.linspace(0, _MOST_SHARE, _POINTS)
        at = np.searchsorted(np.cumsum(counts.to_numpy()), shares * counts.sum(), side="left")
        values, unit, most = scaled(list(counts.index.to_numpy()[at]), "s")
        chart = Chart("Latency", axis("share of the transactions, without the slowest 1 %", 1), axis(unit, most))
        yield chart.picture(chart.line(list(shares), values, _COLOR))
    elif run.spec.flows_end:
        yield from _times(fct.of_run(run).to_numpy(), "flow", "FCT")
    elif len(run.flows) and not run.sends_nothing:
        rates, unit, most = scaled(client_bps(run.flows).to_list(), "bit/s")
        chart = Chart("Each client", counted(f"client, of {len(rates)}", len(rates)), axis(unit, most))
        yield chart.picture(chart.bars(rates, _COLOR))
        yield from _total_over_time(run)


def _total_over_time(run: Any) -> Iterator[str]:
    kept = run.intervals.dropna(subset=["start_s", "end_s", "interval_bytes"])
    if kept.empty:
        return
    end_s = float(kept["end_s"].max())
    edges_s = np.linspace(0, end_s, min(_POINTS, max(2, int(end_s / run.spec.interval_s))))
    columns = [kept[name].to_numpy() for name in ("start_s", "end_s", "interval_bytes")]
    flows = kept.groupby(["pair", "flow"]).indices.values()
    total_bytes = np.sum([carried_bytes(edges_s, *(column[rows] for column in columns)) for rows in flows], axis=0)
    totals, unit, most = scaled(list(total_bytes * 8 / np.diff(edges_s)), "bit/s")
    chart = Chart("Total", axis("s since the release", end_s, end=end_s), axis(unit, most))
    yield chart.picture(chart.line(list((edges_s[:-1] + edges_s[1:]) / 2), totals, _COLOR))


def _times(times_s: np.ndarray, one: str, name: str) -> Iterator[str]:
    """A bar each, or the times by share where there are many; those that failed took for ever, and are left out."""
    known_s = np.sort(times_s[np.isfinite(times_s)])
    if not len(known_s):
        return
    without = f", {len(times_s) - len(known_s)} failed" if len(known_s) < len(times_s) else ""
    if len(known_s) <= _BARS:
        values, unit, most = scaled(list(known_s), "s")
        chart = Chart(name, counted(f"{one}, by its time{without}", len(values)), axis(unit, most))
        yield chart.picture(chart.bars(values, _COLOR))
        return
    shares = np.linspace(0, 1, _POINTS)
    values, unit, most = scaled(list(np.quantile(known_s, shares)), "s")
    chart = Chart(name, axis(f"share of the {len(known_s):,} {one}s{without}", 1), axis(unit, most))
    yield chart.picture(chart.line(list(shares), values, _COLOR))
