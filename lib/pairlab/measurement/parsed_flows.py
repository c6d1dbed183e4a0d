"""The tools' output of one measurement, parsed: rows of tables, and the counts for the checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pairlab.measurement.checks import Value
from pairlab.model.tables import carried_bytes

Row = dict[str, Any]
#: By pair, the names of the hosts that its client and its server are on; empty: all are on one.
Hosts = Sequence[tuple[str, str]]


@dataclass
class ParsedFlows:
    """The tools' results as rows of `flows`, `intervals` and `transactions`, and what the cross-checks need besides.

    checks: of checks.CHECKS, those that follow from the reports alone. warmup_s: warm-up detected beyond the spec's.
    steps_bytes: what all timed flows carried in each interval after it, while all sent; empty where their tool reports
    none. spans: start and end, from the release, of each successful flow, in the order of their rows.
    received_bytes: payload of each pair whose flows all succeeded, over their whole time; answered_bytes: what their
    servers sent back, where they do; retransmits: segments, likewise, where the tool reports them; netns_retransmits:
    those of its client's namespace just before and just after the tool's last count, or, where the tool does not report
    them, up to the client's end. All for TCP only. datagrams: of each UDP pair, how many came to its server, those
    included that its socket had no room for; datagram_bytes: their payload.
    late_share: the share of the traffic, at most, that came after the tool's last count.
    table: all flows, where one client made them for all servers; then `flows` is empty.
    """

    flows: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    transactions: list[Row] = field(default_factory=list)
    checks: dict[str, Value] = field(
        default_factory=lambda: dict.fromkeys(("unread", "overrun", "late_end", "settled"))
    )
    warmup_s: float = 0.0
    steps_bytes: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    received_bytes: dict[int, float] = field(default_factory=dict)
    answered_bytes: dict[int, float] = field(default_factory=dict)
    retransmits: dict[int, float] = field(default_factory=dict)
    netns_retransmits: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    datagrams: dict[int, float] = field(default_factory=dict)
    datagram_bytes: dict[int, float] = field(default_factory=dict)
    late_share: float = 0.0
    table: pd.DataFrame | None = None

    @property
    def count(self) -> int:
        return len(self.flows) if self.table is None else len(self.table)

    @property
    def _errors(self) -> list[str]:
        if self.table is not None:
            return self.table.loc[self.table["status"] != "ok", "error"].to_list()
        return [row["error"] for row in self.flows if row["status"] != "ok"]

    @property
    def failed(self) -> int:
        return len(self._errors)

    @property
    def first_error(self) -> str:
        """The error of the first failed flow; empty without one."""
        return next(iter(self._errors), "")

    def and_background(self, other: "ParsedFlows") -> "ParsedFlows":
        """With the flows of the background, for counters that count all pairs."""
        return replace(
            self,
            flows=[*self.flows, *other.flows],
            received_bytes={**self.received_bytes, **other.received_bytes},
            answered_bytes={**self.answered_bytes, **other.answered_bytes},
            retransmits={**self.retransmits, **other.retransmits},
            late_share=max(self.late_share, other.late_share),
        )


def carried_in(edges_s: ArrayLike, intervals: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The bytes of one flow between each two of the edges, by the intervals that its tool reported (carried_bytes)."""
    return carried_bytes(edges_s, *([row[key] for row in intervals] for key in ("start_s", "end_s", "interval_bytes")))
