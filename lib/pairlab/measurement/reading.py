"""What was read of the tools' output in one measurement: rows of tables, and what the checks need besides."""

from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from pairlab.measurement.checks import steady_state

Row = dict[str, Any]


@dataclass
class Reading:
    """The tools' results as rows of `flows`, `intervals` and `transactions`, and what the cross-checks need besides.

    warmup_s: warm-up detected beyond the spec's. steps_bytes: what all timed flows carried in each interval after it,
    while all sent; empty where their tool reports none. spans: start and end, from the release, of each successful
    flow, in the order of their rows.
    received_bytes: payload of each pair whose flows all succeeded, over their whole time; answered_bytes: what their
    servers sent back, where they do; retransmits: segments,
    likewise, where the tool reports them; netns_retransmits: those of its client's namespace just before and just after
    the tool's last count, or, where the tool does not report them, up to the client's end. All for TCP only. datagrams:
    of each UDP pair, how many came to its server, those included that its socket had no room for; datagram_bytes: their
    payload. unread_share: of the payload of all flows whose tool tells it, what was sent and not read when the time was
    over. overrun_share: of the time asked, by how much the last UDP datagrams came after it; None: there are none.
    late_end_share: by how much the throughput of all timed TCP flows is more over the time that was asked than over the
    time that each took, which is later where it was held up; None: nothing tells.
    late_share: the share of the traffic, at most, that came after the tool's last count.
    table: all flows, where one client made them for all servers; then `flows` is empty. load: of such flows, what they
    carried per second relative to the load that was offered, minus 1, and unbegun: the share of the requests that had
    not begun in time; None: nothing was asked. silence_s: the longest time in which none of them began or ended though
    one was due; None: nothing tells when they are.
    """

    flows: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    transactions: list[Row] = field(default_factory=list)
    settling: steady_state.Settling = field(default_factory=steady_state.Settling)
    warmup_s: float = 0.0
    steps_bytes: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    received_bytes: dict[int, float] = field(default_factory=dict)
    answered_bytes: dict[int, float] = field(default_factory=dict)
    retransmits: dict[int, float] = field(default_factory=dict)
    netns_retransmits: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    datagrams: dict[int, float] = field(default_factory=dict)
    datagram_bytes: dict[int, float] = field(default_factory=dict)
    unread_share: float | None = None
    overrun_share: float | None = None
    late_end_share: float | None = None
    late_share: float = 0.0
    table: pd.DataFrame | None = None
    load: float | None = None
    unbegun: float | None = None
    silence_s: float | None = None

    @property
    def count(self) -> int:
        """How many flows there are."""
        return len(self.flows) if self.table is None else len(self.table)

    @property
    def failed(self) -> int:
        """How many of them failed."""
        if self.table is not None:
            return int((self.table["status"] != "ok").sum())
        return sum(row["status"] != "ok" for row in self.flows)

    @property
    def first_error(self) -> str:
        """Why the first of those failed; empty: none did."""
        if self.table is not None:
            errors = self.table.loc[self.table["status"] != "ok", "error"]
            return str(errors.iloc[0]) if len(errors) else ""
        return next((row["error"] for row in self.flows if row["status"] != "ok"), "")

    def and_background(self, other: "Reading") -> "Reading":
        """For what counters tell of all pairs: their flows, and what was received, answered and sent again."""
        return replace(
            self,
            flows=[*self.flows, *other.flows],
            received_bytes={**self.received_bytes, **other.received_bytes},
            answered_bytes={**self.answered_bytes, **other.answered_bytes},
            retransmits={**self.retransmits, **other.retransmits},
            late_share=max(self.late_share, other.late_share),
        )
