"""One run as a page of HTML that needs no other file: its spec, its results, its flows over time."""

import html
from pathlib import Path

from matplotlib.figure import Figure

from pairlab import store
from pairlab.analysis.figures import files
from pairlab.analysis.output.provenance import write_atomically
from pairlab.base import html_repr, units
from pairlab.model import fct
from pairlab.model.records import Run
from pairlab.model.tables import TABLES

_MOST_ROWS = 500
#: The least number of flows for a picture over time, about that in a step; and the most steps.
_LEAST_FLOWS, _MOST_STEPS = 10, 50


def write_page(run: Run, path: Path, verdict: str = "") -> Path:
    """Writes the page, and returns its path. Raises StoreError if it cannot be written.

    verdict: the checks of the run, as HTML.
    """
    parts = [run._repr_html_(), verdict, _rates(run), _flows_over_time(run)]
    parts += [_table(run, name) for name in TABLES if name != "profile"]
    parameters = [(name, value) for name, value in run.spec.model_dump().items() if value != ""]
    parts.append(html_repr.summary("Parameters", parameters))
    title = html.escape(f"{run.spec} ({run.key})")
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>{''.join(f'<p>{part}</p>' for part in parts if part)}</body></html>\n"
    )
    return write_atomically(path, page.encode(), remedy="name another file")


def _rates(run: Run) -> str:
    """The goodput of each flow over time, as a picture; empty without intervals."""
    if run.intervals.empty or "throughput_bps" not in run.intervals:
        return ""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    for _, flow in run.intervals.groupby(["pair", "flow"]):
        axes.stairs(flow["throughput_bps"] / 1e9, [*flow["start_s"], flow["end_s"].iloc[-1]], linewidth=0.8)
    axes.set(xlabel="Time since the release (s)", ylabel="Goodput of each flow (Gbit/s)")
    axes.set_ylim(0, 1.05 * run.intervals["throughput_bps"].max() / 1e9)
    return files.as_svg(figure, "The goodput of each flow over time")


def _flows_over_time(run: Run) -> str:
    """Arrivals, active flows and FCT over time, as a picture; empty for few flows, or flows without an end."""
    flows = store.length(run, "flows")
    if not run.spec.flows_end or flows < _LEAST_FLOWS:
        return ""
    steps = fct.over_time(run, min(_MOST_STEPS, flows // _LEAST_FLOWS))
    if steps.empty:
        return ""
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    arrivals, active, fcts = figure.subplots(3, sharex=True)
    edges_s = [*steps["start_s"], steps["end_s"].iloc[-1]]
    arrivals.stairs(steps["arrivals_per_s"], edges_s)
    active.stairs(steps["active_flows"], edges_s)
    fcts.stairs(steps["longest_s"] * 1e3, edges_s, label="longest", linestyle="--")
    fcts.stairs(steps["median_s"] * 1e3, edges_s, label="median")
    fcts.legend(ncols=2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)  # beside the lines, and not over them
    for axes, label in ((arrivals, "Arrivals (flows/s)"), (active, "Active flows"), (fcts, "FCT by arrival (ms)")):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    since = "was due" if fct.column(run.spec) == "intended_fct_s" else "was started"
    failed = f", of which {run.failed_flows:,} failed and count as arrivals only" if run.failed_flows else ""
    width = units.with_prefix(edges_s[1] - edges_s[0], "s")
    arrivals.set_title(f"{flows:,} flows, each from when it {since}, in steps of {width}{failed}")
    fcts.set_xlabel("Time since the release (s)")
    return files.as_svg(figure, "Arrivals, active flows and flow completion times over time")


def _table(run: Run, name: str) -> str:
    frame = getattr(run, name)
    if frame.empty:
        return ""
    shown = frame.dropna(axis=1, how="all").head(_MOST_ROWS)
    rows = [
        [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row]
        for row in shown.itertuples(index=False)
    ]
    more = f"{len(frame) - len(shown):,} more rows are in {name}.parquet" if len(frame) > len(shown) else ""
    return html_repr.summary(name, [], body=html_repr.table(list(shown), rows), note=more, wide=True)
