"""Metrics of a workload's own: whether they can be declared, and whether what it reports is declared."""

from collections.abc import Iterable, Mapping
from typing import Any

from pairlab.errors import BadSpec
from pairlab.model.metrics import Metric
from pairlab.model.spec import Spec
from pairlab.model.summaries import MEASURES
from pairlab.model.tables import TABLES
from pairlab.testbed.contracts import FlowReport, Workload

#: Columns of frames of many runs, beside the spec's values and the tables' own (dataset.Runs).
_OF_RUNS = frozenset({"key", "reasons", "failed_flows", "skew_s", "host", "kernel", "measured_at"})


def require(workload: type[Workload]) -> None:
    """Raises BadSpec where a workload's metrics cannot be columns, saying which and why."""
    if workload.one_client and workload.metrics:
        raise BadSpec(f"workload {workload.name!r} has one client, which reports by columns: it can declare no metrics")
    names: set[str] = set()
    for each in workload.metrics:
        if wrong := _wrong(each) or (f"{each.name!r} is declared twice" if each.name in names else ""):
            raise BadSpec(f"workload {workload.name!r} declares a metric that cannot be measured: {wrong}")
        names.add(each.name)


def require_declared(workload: Workload, results: Iterable[FlowReport]) -> None:
    """Raises ValueError where a workload reports a column that there is not, or leaves one out that rows need."""
    own = {table: {each.name for each in workload.metrics if each.table == table} for table in TABLES}
    for measured in results:
        for table, rows in (("flows", [measured.flow]), ("intervals", measured.intervals)):
            _require_columns(workload.name, table, rows, own[table])
        _require_columns(workload.name, "transactions", measured.transactions, own["transactions"])
        if any(row.get("latency_s") is None or row.get("count") is None for row in measured.transactions):
            raise ValueError(f"{workload.name} reported a row of transactions without latency_s, or without count")


def _require_columns(name: str, table: str, rows: Iterable[Mapping[str, Any]], own: set[str]) -> None:
    strange = sorted({str(column) for row in rows for column in row if column not in TABLES[table]} - own)
    if strange:
        raise ValueError(
            f"{name} reported {', '.join(map(repr, strange))}, and {table} has no such column: declare each as one of"
            f" the workload's metrics, or report it no more"
        )


def _wrong(metric: Any) -> str:
    if not isinstance(metric, Metric):
        return f"{metric!r} is no Metric"
    if metric.wrong:
        return metric.wrong
    taken = {
        **{column: f"a column of {table}" for table, columns in TABLES.items() for column in columns},
        **dict.fromkeys(_OF_RUNS, "a column of every run"),
        **dict.fromkeys(Spec.model_fields, "a parameter"),
        **dict.fromkeys(MEASURES, "what runs of all workloads are summarised to"),
    }
    return f"{metric.name!r} is {taken[metric.name]} already: take another name" if metric.name in taken else ""
