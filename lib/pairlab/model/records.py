"""Run: one measurement, with its tables, and what it says of itself."""

import contextlib
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pairlab import paths
from pairlab.base import html_repr, topology, units
from pairlab.model import environment as environments
from pairlab.model import fct, latencies, launches, metrics, others, run_charts
from pairlab.model.conditions import Conditions, unpacked
from pairlab.model.environment import Environment
from pairlab.model.metrics import Metric
from pairlab.model.recorded import age_key, fact
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES, carried_bytes, table

#: Of run.json; what an older one lacks is in store/metadata.py.
SCHEMA = 3

#: ok: counts. invalid: measured, but a condition for trusting it was not met. failed: not measured.
#: skipped: this host cannot do it. `reasons` says why for all but ok.
STATUSES = ("ok", "invalid", "failed", "skipped")
#: The tones of their badges (html_repr.TONES).
TONES = {"ok": "good", "invalid": "warn", "failed": "bad", "skipped": ""}
#: A run whose level changed by a larger share, that was silent for a larger share of the time, or of which a flow was
#: silent for longer, was not steady.
MOST_SHIFT, MOST_SILENT, MOST_SILENCE_S = 0.15, 0.03, 0.5


def no_attribute(what: str, name: str, kind: Any) -> str:
    """That an object of a dataclass has no attribute of that name, with the one that may be meant."""
    public = sorted({each for each in dir(kind) if not each.startswith("_")} | set(kind.__dataclass_fields__))
    near = difflib.get_close_matches(name, public, n=1) or [each for each in public if name in each or each in name]
    hint = f"; did you mean {near[0]!r}?" if near and not name.startswith("_") else ""
    return f"{what} has no {name!r}{hint} (there are: {', '.join(public)})"


@dataclass(frozen=True)
class Run:
    """One measurement: what was requested, its results, and the host that it was made on.

    flows, intervals, transactions, launches, cpu and profile are DataFrames with the columns of TABLES. Those of
    background pairs are apart, so that nothing counts them: background_flows and background_intervals. In the stored
    tables they are the last rows, with the pairs after the spec's and, of flows, the role `background`. skew_s is the
    spread of the clients' starts, each less when it was due; harness_cpu_s the CPU time pairlab itself took between
    release and the last end.
    checks holds what its verdict was made from (checks.CHECKS), empty where it was not looked at. raw is what the tools
    printed, by endpoint and stream ("client-0.out"), and as bytes the packets that were captured ("client-0.pcap").
    """

    spec: Spec
    status: str
    reasons: tuple[str, ...] = ()
    measured_at: datetime | None = None
    skew_s: float = float("nan")
    harness_cpu_s: float = float("nan")
    times_s: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    flows: pd.DataFrame = field(default_factory=lambda: table("flows"), repr=False)
    intervals: pd.DataFrame = field(default_factory=lambda: table("intervals"), repr=False)
    background_flows: pd.DataFrame = field(default_factory=lambda: table("flows"), repr=False)
    background_intervals: pd.DataFrame = field(default_factory=lambda: table("intervals"), repr=False)
    transactions: pd.DataFrame = field(default_factory=lambda: table("transactions"), repr=False)
    launches: pd.DataFrame = field(default_factory=lambda: table("launches"), repr=False)
    cpu: pd.DataFrame = field(default_factory=lambda: table("cpu"), repr=False)
    profile: pd.DataFrame = field(default_factory=lambda: table("profile"), repr=False)
    raw: Mapping[str, str | bytes] = field(default_factory=dict, repr=False)
    checks: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    @property
    def key(self) -> str:
        return self.spec.key

    def with_background(self, name: str) -> pd.DataFrame:
        """That table as it is stored, with the rows of the background."""
        frame, background = getattr(self, name), f"background_{name}"
        behind = getattr(self, background) if background in self.__dataclass_fields__ else ()
        return pd.concat([frame, behind], ignore_index=True) if len(behind) else frame

    def columns(self, name: str, wanted: Sequence[str]) -> pd.DataFrame:
        """These columns of that table at least, without the background. Of a long one on disk no others are read, and
        texts are categoricals then.
        """
        return getattr(self, name)  # whole: to choose from it would take a third of what is then done with it

    @cached_property
    def environment(self) -> Environment:
        """What it was measured on: host, kernel, versions; empty where they are not known."""
        spec = self.spec
        return environments.of(self.facts, backend=spec.backend, driver=spec.driver, workload=spec.workload)

    @cached_property
    def conditions(self) -> Conditions:
        """The machine's settings when it was measured, by name; empty where it did not record them."""
        with contextlib.suppress(ValueError):
            return unpacked(self.facts.get("conditions") or "")
        return {}

    def fact(self, name: str) -> Any:
        """The value of one of recorded.FACTS; None where the run did not record it."""
        return fact(self.facts, name)

    @property
    def congestion_control(self) -> str:
        """The congestion control in force for its TCP: as it was seen, else as asked for, else the default of the
        network namespaces; empty where the run did not record it. Older runs record only the latter two.
        """
        return self.fact("in_force") or self.spec.congestion_control or self.fact("tcp_congestion_control") or ""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What its workload measured besides the columns of TABLES: columns of its own, with their meaning."""
        return tuple(each for each in metrics.of_facts(self.facts) if each.name not in TABLES[each.table])

    @cached_property
    def metric_values(self) -> dict[str, float]:
        """The run's value of each of its workload's metrics, by name; NaN where it is not known (metrics.of_run)."""
        return {each.name: metrics.of_run(each, self.flows, self.transactions) for each in self.metrics}

    @property
    def _metrics_in_words(self) -> dict[str, str]:
        values = self.metric_values
        return {each.meaning: each.text(values[each.name]) for each in self.metrics}

    def hosts_of(self, kind: str) -> int:
        """How many of its hosts are of that kind, as recorded: "namespace" (sharing a kernel), "uml" or "machine"."""
        return sum(each["kind"] == kind for each in self.facts.get("hosts") or ())

    @property
    def measured(self) -> str:
        """When, and on which kernel: "measured 2026-11-22 14:05 UTC, kernel 6.18"."""
        when = f"measured {self.measured_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if self.measured_at else ""
        kernel = f"kernel {self.environment.kernel}" if self.environment.kernel else ""
        return ", ".join(filter(None, (when, kernel))) or "when was not recorded"

    @property
    def dated_ahead(self) -> bool:
        """Whether it says that it was measured in the future: the clock of its host was wrong."""
        return self.measured_at is not None and self.age_key < self.measured_at

    @property
    def age_key(self) -> datetime:
        """By which runs are sorted by age (recorded.age_key)."""
        return age_key(self.measured_at)

    @property
    def total_s(self) -> float:
        """How long it took in all, from building the testbed to taking it down; NaN where it was not noted."""
        return sum(self.times_s.values()) if self.times_s else float("nan")

    @cached_property
    def total_throughput_bps(self) -> float:
        """The sum over all flows; a failed flow adds zero. Of flows from a distribution, that of all pairs."""
        if self.spec.flow_sizes:
            return float(fct.carried_bps(self.columns("flows", fct.CARRIED)).sum())
        return float(self.columns("flows", ["throughput_bps"])["throughput_bps"].sum())

    @cached_property
    def sends_nothing(self) -> bool:
        """Whether its workload sends nothing, so that its metrics are all that was measured."""
        if not self.metrics:
            return False
        done = self.flows[self.flows["status"] == "ok"]
        return bool(len(done)) and bool(done["throughput_bps"].isna().all())

    @property
    def direction_bps(self) -> dict[str, float]:
        """The same of each direction, where there are both: `up` and `down`; else empty."""
        flows = self.flows
        both = len(self.spec.directions) > 1
        return {name: float(part["throughput_bps"].sum()) for name, part in flows.groupby("direction")} if both else {}

    @property
    def common_throughput_bps(self) -> float:
        """The sum over all flows in the time in which all of them sent, after the warm-up.

        By what tools report of each interval. NaN where they report none, of flows with an end, and where one failed.
        """
        kept = self.intervals[~self.intervals["warmup"]]
        flows = kept.groupby(["pair", "flow"])
        begin_s, end_s = flows["start_s"].min().max(), flows["end_s"].max().min()
        if self.spec.flows_end or len(flows) < len(self.flows) or not begin_s < end_s:
            return float("nan")
        columns = ["start_s", "end_s", "interval_bytes"]
        total_bytes = sum(carried_bytes([begin_s, end_s], *part[columns].to_numpy().T)[0] for _, part in flows)
        return float(total_bytes * 8 / (end_s - begin_s))

    @property
    def steadiness_unknown(self) -> bool:
        """Whether flows without an end had too few intervals to tell a change of level, as in a short run.

        False also where a run is older than that check.
        """
        return not self.spec.flows_end and self.checks.get("shift", 0.0) is None

    @property
    def attempts(self) -> tuple[int, int]:
        """How many measurements of this run did not count, of how many: those before it, and itself."""
        reasons = [each["reasons"] for each in self.facts.get("attempts") or [{"reasons": self.reasons}]]
        return sum(map(bool, reasons)), len(reasons)

    @property
    def unsteady(self) -> str:
        """How the throughput was not steady after the warm-up, with sizes; empty where it was, as far as is known.

        That is a result: what disturbs a run makes it invalid, by its cause.
        """
        shift, silent, silence_s = (self.checks.get(name) or 0.0 for name in ("shift", "silent", "silence_s"))
        found = {
            f"its level changed by {100 * shift:+.0f} %": abs(shift) > MOST_SHIFT,
            f"all flows were silent for {100 * silent:.0f} % of the time": silent > MOST_SILENT,
            f"a flow was silent for {silence_s:.1f} s": silence_s > MOST_SILENCE_S,
        }
        return ", ".join(words for words, is_so in found.items() if is_so).replace("-", "−")

    @property
    def outcome(self) -> str:
        """What was measured, in short: the median completion time of flows with an end, the rate and latencies of
        transactions, else the total throughput; and of flows without an end its workload's metrics.

        The median is of all flows, and not known where half of them failed (fct.py). Of launches, how long they took.
        Empty where nothing was measured.
        """
        if self.columns("flows", ["status"]).empty and not len(self.launches):
            return ""
        if self.spec.launches:
            return launches.describe(self.launches)
        if self.spec.flows_end:
            times_s = fct.of_run(self)
            if np.isinf(times_s).all():
                return "no flow was complete"
            median_s = fct.median(times_s)
            if self.spec.flow_sizes:
                known = f"median FCT {units.with_prefix(median_s, 's')}" if median_s == median_s else "FCT not known"
                return f"{known}, {units.with_prefix(self.total_throughput_bps, 'bit/s')}"
            return f"median FCT {median_s * 1e3:.1f} ms" if median_s == median_s else "median FCT not known"
        unknown = ", steadiness unknown" if self.steadiness_unknown else ", unsteady" if self.unsteady else ""
        own = "".join(f", {meaning} {text}" for meaning, text in self._metrics_in_words.items())
        if latencies.measured(self.flows):
            bounds = others.upper_bounds(self)
            why = f" (others had {100 * others.taken(self):.1f} % of the time)" if "p99" in bounds else ""
            return f"{latencies.describe(self.transactions, self.flows, bounds)}{why}{own}{unknown}"
        if self.sends_nothing:
            return own.removeprefix(", ")
        return f"{self.total_throughput_bps / 1e9:.2f} Gbit/s in total{own}{unknown}"

    @property
    def latency_quantiles_s(self) -> dict[str, float]:
        """Quantiles of all transactions' latencies, by the names of latencies.SHARES; empty where there were none.

        NaN where too few transactions tell, where the quantile falls among lost ones, and where a flow failed.
        """
        known = latencies.timed(self.transactions, self.flows)
        return latencies.of_flows(self.transactions, self.flows) if known else {}

    @cached_property
    def failed_flows(self) -> int:
        return int((self.columns("flows", ["status"])["status"] != "ok").sum())

    def __str__(self) -> str:
        if not len(self.flows):
            lines = [*([self.outcome] if len(self.launches) else []), *self.reasons]
            return f"{self.spec}: {self.status}: {'; '.join(lines)}"
        failed = f", {self.failed_flows} of {len(self.flows)} flows failed" if self.failed_flows else ""
        why = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        together = f", starts within {units.with_prefix(self.skew_s, 's')}" if self.skew_s == self.skew_s else ""
        return f"{self.spec}: {self.status}{why}: {self.outcome}{together}{failed}"

    def __repr__(self) -> str:
        return f"<Run {self.key}: {self}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(no_attribute("a run", name, type(self)), name=name, obj=self)

    def _repr_html_(self) -> str:
        failed = f"{self.failed_flows:,} of them failed" if self.failed_flows else "none failed"
        common_bps, bounds = self.common_throughput_bps, others.upper_bounds(self)
        phases = [(name, units.with_prefix(each_s, "s")) for name, each_s in launches.phases(self.launches).items()]
        measured = [
            ("outcome", self.outcome),
            *(
                (f"latency {name}", f"{'at most ' * (name in bounds)}{units.describe(each_s, 's')}")
                for name, each_s in self.latency_quantiles_s.items()
            ),
            *self._metrics_in_words.items(),
            *((f"of it {name}", f"{bps / 1e9:.2f} Gbit/s") for name, bps in sorted(self.direction_bps.items())[::-1]),
            ("while all sent", f"{common_bps / 1e9:.2f} Gbit/s" if common_bps == common_bps else ""),
            ("flows", f"{len(self.flows):,}, {failed}"),
            ("starts", f"within {units.with_prefix(self.skew_s, 's')}" if self.skew_s == self.skew_s else ""),
        ]
        return html_repr.summary(
            f"Run {self.key}",
            [
                ("asked", self.spec),
                *(measured if len(self.flows) else []),
                *([("outcome", self.outcome), *phases] if len(self.launches) else []),
                ("reasons", "\n".join(self.reasons)),
                ("measured", f"{self.measured_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if self.measured_at else ""),
                ("environment", str(self.environment) if any(self.environment) else ""),
                ("stored in", paths.shown(self.path) if self.path else ""),
            ],
            badge=self.status,
            tone=TONES[self.status],
            body=run_charts.charts(self) + topology.drawer(self.facts.get("network") or {}),
        )
