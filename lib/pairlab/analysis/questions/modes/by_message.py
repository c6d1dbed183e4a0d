"""What one pair gets over each network, by what is measured and the size of messages: paper S, S1 to S4.

Bulk transfers either way, messages, and requests. A mode is a driver: `process` is paper S' pair without containers,
which all others are held against, and `none` carries nothing, which its runs show.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, published, selection
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, Texts, common_values, p_values, tabulate, texts
from pairlab.analysis.questions.message_size import size_text
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: What all modes are held against, and the one that carries nothing.
BARE, ISOLATED = "process", "none"
#: What is measured, in the order of paper S' figure 3; bulk transfers have the messages of their tool.
BULK = ("upload", "download", "both ways")
MESSAGES = ("TCP", "UDP")
LATENCY = "latency"
#: What is added where idle CPUs were kept from sleeping.
AWAKE = " with CPUs awake"
#: The size of the messages of paper S' figure 3b.
MESSAGE_BYTES = 1024
#: What one estimate is made for. size: of messages or requests, in bytes; 0: of bulk transfers.
BY = (*selection.CELL, "host_kind", "what", "size")

TOTAL = Measure("Throughput (Gbit/s)", "throughput", 2, 1e-9, "Gbit/s", short=True)
MEAN_LATENCY = Measure("Mean latency (µs)", "latency", 2, 1e6, "µs", short=True)
CHANGE = Measure("Against process (%)", "against-process", 1, unit="%", change=True, short=True)

#: The networks that paper S calls overlays, of which it states means.
OVERLAYS = ("overlay", "weave", "flannel-vxlan", "flannel-udp", "ipip")

_BULK = {"up": BULK[0], "down": BULK[1], "both": BULK[2]}


def part_of(spec: Spec, transacts: bool) -> tuple[str, int] | None:
    """What a run measures, and the size of its messages or requests; None: nothing that the question asks for.

    transacts: whether its flows are transactions.
    """
    if transacts:
        alike = spec.request_bytes == spec.response_bytes and not (spec.requests_per_s or spec.udp_share)
        return (LATENCY, max(spec.request_bytes, 1)) if alike else None
    if not spec.message_bytes:
        return None if spec.udp_share else (_BULK[spec.direction], 0)
    if spec.direction != "up" or spec.udp_share not in (0, 1):
        return None
    return MESSAGES[int(spec.udp_share)], spec.message_bytes


def by_repetition(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run that counts: BY, repetition, flows, failed_flows, total_bps (bit/s) and latency_mean_s (s).

    Without those of the mode that carries nothing. Raises AnalysisError where two runs claim one repetition of a cell.
    """
    rows = [row for run in runs if run.status == "ok" and run.spec.driver != ISOLATED for row in _rows(run)]
    columns = [*BY, "key", "repetition", "flows", "failed_flows", "total_bps", "latency_mean_s"]
    found = pd.DataFrame(rows, columns=columns)
    selection.check_distinct(found, BY)
    return found.drop(columns="key").sort_values([*BY, "repetition"], ignore_index=True)


def _rows(run: Run) -> list[dict[str, Any]]:
    spec, transacts = run.spec, latencies.measured(run.flows)
    part = part_of(spec, transacts)
    if part is None:
        return []
    row = {name: getattr(spec, name) for name in (*selection.CELL, "host_kind", "repetition")}
    row |= {"what": part[0] + AWAKE * spec.cpus_awake, "size": part[1], "key": run.key}
    row |= {"flows": len(run.flows), "failed_flows": run.failed_flows}
    row["total_bps"] = np.nan if transacts else run.total_throughput_bps
    row["latency_mean_s"] = latencies.mean_of_flows(run.transactions, run.flows)
    return [row]


def throughputs(repetitions: pd.DataFrame) -> pd.DataFrame:
    """The repetitions that measure throughput."""
    return repetitions[~repetitions["what"].str.startswith(LATENCY)]


def response_times(repetitions: pd.DataFrame) -> pd.DataFrame:
    """Those that measure latency."""
    return repetitions[repetitions["what"].str.startswith(LATENCY)]


def cells(repetitions: pd.DataFrame, value: str, confidence: float) -> pd.DataFrame:
    """The mean of total_bps or latency_mean_s by mode, what is measured, and size, as cell_estimates.means."""
    return cell_estimates.means(repetitions, BY, value, confidence)


def against_bare(repetitions: pd.DataFrame, value: str, confidence: float) -> pd.DataFrame:
    """The change of each mode against the pair without containers in percent, paired by repetition.

    As cell_estimates.changes. Source: paper S, section IV-B, which states no interval.
    """
    by = [name for name in BY if name != "driver"]
    return cell_estimates.changes(repetitions, by, value, setting="driver", against=BARE, confidence=confidence)


def as_bars(cells: pd.DataFrame) -> pd.DataFrame:
    """What the figures 3a and 3b of paper S have bars of: bulk transfers, and messages of 1024 B."""
    return cells[cells["what"].isin(BULK) | (cells["what"].isin(MESSAGES) & (cells["size"] == MESSAGE_BYTES))]


def bars(cells: pd.DataFrame) -> list[str]:
    """The categories of these cells, in order."""
    return [what for what in (*BULK, *MESSAGES) if (cells["what"] == what).any()]


def labelled(cells: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The cells with a column setting (what is measured, its size, the kind of hosts), and its values in order."""
    names = zip(cells["what"], cells["size"], cells["host_kind"], strict=True)
    settings = [", ".join(filter(None, (what, size and size_text(size), kind))) for what, size, kind in names]
    shown = cells.assign(setting=settings)
    order = shown.drop_duplicates("setting").sort_values(["what", "size", "host_kind"])["setting"]
    return shown, list(order)


def by_size(cells: pd.DataFrame, what: str) -> pd.DataFrame:
    """The cells of one of MESSAGES, or of latency, where there are several sizes: else no rows."""
    mine = cells[cells["what"] == what]
    sizes = mine.groupby(list(selection.SYSTEM))["size"].transform("nunique")
    return mine[sizes > 1]


def ticks(cells: pd.DataFrame) -> dict[float, str]:
    """The sizes as an axis names them."""
    return {float(size): size_text(size) for size in sorted(cells["size"].unique())}


def isolation(runs: Iterable[Run]) -> pd.DataFrame:
    """What runs of the mode that carries nothing show: system, tried and reached (connections), links, and told: the
    kernel's words to those that came to nothing.
    """
    rows = []
    for run in runs:
        if run.spec.driver == ISOLATED and run.status == "ok":
            failed = run.flows["status"] == "failed"
            rows.append(
                {
                    "system": f"{run.spec.backend}-{run.spec.workload}",
                    "tried": len(run.flows),
                    "reached": int((~failed).sum()),
                    "links": ", ".join(sorted({each for links in run.facts["links"].values() for each in links})),
                    "told": "; ".join(sorted(set(run.flows.loc[failed, "error"]))),
                }
            )
    return pd.DataFrame(rows, columns=["system", "tried", "reached", "links", "told"])


def in_words(isolated: pd.DataFrame) -> str:
    """The same as a sentence for each system and what its kernel told."""
    sentences = [
        f"{system}, none: {int(part['tried'].sum())} connections tried, {int(part['reached'].sum())} reached their"
        f" server; links: {links}; {told}"
        for (system, links, told), part in isolated.groupby(["system", "links", "told"])
    ]
    return "\n".join(sentences) or "the mode none was not measured"


def table(
    cells: pd.DataFrame, changes: pd.DataFrame, measure: Measure, experiment: str = selection.MODES
) -> pd.DataFrame:
    """One measure by what is measured, size and mode; its changes against process, and those that paper S states.

    experiment: of which it states them.
    """
    names = {"system": "System", "what": "What", "sized": "Size", "driver": "Mode"}
    shown, changed = (_with_size(frame) for frame in (cells, changes))
    stated = _stated(experiment)
    columns: dict[Hashable, Texts] = {
        measure.title: measure.texts(shown, *names),
        CHANGE.title: CHANGE.texts(changed, *names),
        "p (Holm)": p_values(changed, *names),
        "Paper S (%)": texts(changed, tuple(names), lambda row: _stated_of(stated, row)),
    }
    sizes = [size_text(size) if size else MISSING for size in sorted(cells["size"].unique())]
    return tabulate(names, columns, {"what": [*BULK, *MESSAGES, LATENCY, LATENCY + AWAKE], "sized": sizes})


def values(
    runs: Runs,
    throughput: tuple[pd.DataFrame, ...],
    latency: tuple[pd.DataFrame, ...],
    isolated: pd.DataFrame,
    *gaps: str,
    topic: str = selection.MODES,
) -> Values:
    r"""The keyed numbers, all below the topic: those of measures.common_values, and

    - <system>/<mode>/<what>/<size>/throughput or latency, and against-process (percent), each with its interval;
    - isolated/tried, isolated/reached: connections of the mode none.

    throughput, latency: the cells of each, and their changes; none where it is not measured.
    """
    of_cells = [frame for frame, *_ in (throughput, latency) if len(frame)] if latency else [throughput[0]]
    every = pd.concat(of_cells or [throughput[0]])
    found = common_values(topic, runs, every.reset_index(drop=True), *gaps)
    names = ("system", "driver", "what", "size")
    for measure, estimates in ((TOTAL, throughput), (MEAN_LATENCY, latency)):
        for each, frame in zip((measure, CHANGE), estimates, strict=False):
            each.put(found, frame, *names)
    if len(isolated):
        for name in ("tried", "reached"):
            found.number(f"isolated/{name}", int(isolated[name].sum()), 0)
    return found


def _with_size(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sized=[size_text(size) if size else MISSING for size in frame["size"]])


def _stated(experiment: str) -> dict[tuple[str, str, int], str]:
    """What paper S states of an experiment, by mode, what is measured, and size of messages; 0: of bulk, or of all."""
    rows = published.load("network_changes").fillna({"note": ""})
    found: dict[tuple[str, str, int], str] = {}
    for row in rows[rows["experiment"] == experiment].itertuples():
        both_ways = BULK[:2] if "download too" in row.note else (row.what,)
        protocols = MESSAGES if "of UDP too" in row.note else MESSAGES[:1]
        meant = {"throughput": MESSAGES[:1], "tcp": protocols, "udp": MESSAGES[1:], "upload": both_ways}
        for driver in OVERLAYS if row.driver == "overlays" else (row.driver,):
            for what in meant.get(row.what, (row.what,)):
                size = int(np.nan_to_num(row.message_bytes))
                found.setdefault((driver, what, size), _bounds(row.low_percent, row.high_percent))
    return found


def _bounds(low: float, high: float) -> str:
    if low == high:
        return "about 0" if low == 0 else f"{low:+g}"
    return f"below {high:+g}" if np.isnan(low) else f"above {low:+g}"


def _stated_of(stated: dict[tuple[str, str, int], str], row: Any) -> str:
    return stated.get((row.driver, row.what, row.size)) or stated.get((row.driver, row.what, 0), MISSING)
