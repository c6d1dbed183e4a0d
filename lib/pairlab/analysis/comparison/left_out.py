"""What is not compared, and why, in sentences."""

from collections.abc import Iterable, Sequence

from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.summaries import Measure
from pairlab.store.dataset import Runs


def not_ok(runs: Sequence[Run]) -> list[str]:
    """How many runs have each status but ok, and the first of each."""
    found = []
    for status in dict.fromkeys(run.status for run in runs if run.status != "ok"):
        these = [run for run in runs if run.status == status]
        first = f"{these[0].spec} ({'; '.join(these[0].reasons)})"
        found.append(f"Left out, as {status}: {_listed(len(these), 'run')}, the first: {first}.")
    return found


def unread(runs: Runs | Iterable[Run]) -> list[str]:
    """How many runs could not be read."""
    unread = getattr(runs, "unread", ())
    return [f"Left out, as not readable: {_listed(len(unread), 'run')}, the first: {unread[0]}."] if unread else []


def without_partner(by: str, alone: Sequence[str]) -> list[str]:
    """What found no partner, in a sentence."""
    if not alone:
        return []
    more = f"; and {len(alone) - 3} more" if len(alone) > 3 else ""
    return [f"Not compared, as nothing to hold it against differs in {by} alone: {'; '.join(alone[:3])}{more}."]


def _listed(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def depends_on_failed(name: str, what: Measure, lost: Sequence[Run], runs: int) -> str:
    """Why a side has no value that could be compared: to leave out the runs that lack it would flatter it."""
    if what.of == "launches":
        return f"Not compared: {len(lost)} of {runs} runs of {name} have no {what.name}, as launches failed."
    each = [run.columns("flows", ["status", "error"]) for run in lost]
    flows, errors = sum(map(len, each)), [error for one in each for error in one.loc[one["status"] != "ok", "error"]]
    first = f" (the first: {errors[0]})" if errors else ""
    if what.of == "transactions" and not errors:
        without = sum(latencies.lost(run.flows) or 0 for run in lost)
        return (
            f"Not compared: {len(lost)} of {runs} runs of {name} have no {what.name}: too few transactions"
            f" tell, or it depends on those that were lost ({without:,})."
        )
    if not errors:
        return f"Not compared: {len(lost)} of {runs} runs of {name} have no {what.name}."
    return (
        f"Not compared: {len(lost)} of {runs} runs of {name} have no {what.name}:"
        f" {len(errors)} of their {flows} flows failed{first}, and it depends on how long these would have taken."
    )
