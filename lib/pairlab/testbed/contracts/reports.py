"""Common parts of tools' reports, and their parsers."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def incomplete(tool: str, printed: str, expected: str) -> ValueError:
    """The error for a report without the expected line. printed: the tool's output."""
    last = printed.rstrip().rpartition("\n")[2].strip()
    output = f"the last line that it printed is {last[:160]!r}" if last else "it printed nothing"
    return ValueError(f"{tool} reported no complete test: {output}; expected {expected!r}")


def json_lines(tool: str, printed: str) -> list[Any]:
    """Parses a report of JSON objects, one per line. Raises ValueError for any other text."""
    try:
        return [json.loads(line) for line in printed.splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{tool} printed no complete report: {error}") from None


@contextlib.contextmanager
def read(tool: str) -> Iterator[None]:
    """Turns the block's parsing errors, such as missing or non-numeric fields, into a ValueError naming the tool."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{tool}'s report is incomplete: {error!r}") from None


def number(line: Mapping[str, Any], key: str, unit: float = 1) -> float | None:
    """That value in base units; None if this system's TCP_INFO lacks it."""
    return None if line.get(key) is None else float(line[key]) * unit


def latencies_s(tool: str, buckets: Iterable[Sequence[Any]], count: int) -> list[tuple[float, int]]:
    """flowgen's histogram of `count` latencies: (latency in s, number) per bucket; buckets: the same in ns."""
    histogram = [(int(value_ns) / 1e9, int(number)) for value_ns, number in buckets]
    if sum(number for _, number in histogram) != count:
        raise ValueError(f"{tool}'s histogram has not as many latencies as it counted: the report is damaged")
    return histogram


def totals(duration_s: float, flow_bytes: float) -> dict[str, Any]:
    """The totals of a flow (FlowReport.flow)."""
    return {"duration_s": duration_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / duration_s}


def transaction_totals(
    duration_s: float, transactions: int, transaction_bytes: int, *, lost: int = 0, failed: int = 0
) -> dict[str, Any]:
    """The totals of a flow of requests and responses (FlowReport.flow).

    transactions: answered in duration_s, each of transaction_bytes, request and response together. lost, failed: not
    answered, and not sent.
    """
    return totals(duration_s, transactions * transaction_bytes) | {
        "transactions": transactions,
        "transactions_lost": lost,
        "transactions_failed": failed,
    }
