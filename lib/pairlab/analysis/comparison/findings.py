"""What stored runs show, as a few sentences: how drivers (or else numbers of pairs) differ, in each experiment."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pairlab.analysis.comparison.cells import named, varied
from pairlab.analysis.comparison.compute import compare
from pairlab.analysis.comparison.result import CONFIDENCE, Comparison, Comparisons
from pairlab.errors import AnalysisError
from pairlab.model.records import Run
from pairlab.store.dataset import Runs

#: The fields that runs are compared by, the first of them in which they differ.
BY = ("driver", "pinning", "congestion_control", "pairs")
#: Sentences per experiment; more are counted.
MOST_SENTENCES = 6


def findings(runs: Runs) -> str:
    """A paragraph for each experiment, backend and workload: what differs, by how much, and what cannot be told apart.

    It is made of `compare`, so every size has its interval behind it. Empty where no two runs can be compared.
    """
    parts: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if run.status == "ok":
            parts.setdefault((run.spec.experiment, run.spec.backend, run.spec.workload), []).append(run)
    found = []
    for (experiment, backend, workload), part in sorted(parts.items()):
        if sentences := _of_part(Runs(tuple(part), root=runs.root)):
            listed = sentences[:MOST_SENTENCES]
            more = len(sentences) - len(listed)
            rest = [f"{more} more comparison{'s' * (more != 1)}: see the figures"] if more else []
            found.append(f"{experiment} ({backend}, {workload}): {'; '.join([*listed, *rest])}.")
    return "\n".join(found)


def _of_part(runs: Runs) -> list[str]:
    differing = varied(runs)
    by = next((name for name in BY if name in differing), None)
    if by is None:
        return []
    try:
        compared = compare(runs, by=by)
    except AnalysisError:
        return []
    return [_sentence(settings, group) for settings, group in _groups(compared)]


def _groups(compared: Comparisons) -> Iterable[tuple[str, list[Comparison]]]:
    """The comparisons of the same two sides with the same outcome, which differ in the number of pairs only."""
    differing = {
        name for one in compared for name, value in one.alike.items() if value != compared[0].alike.get(name)
    } - {"pairs"}
    groups: dict[tuple, list[Comparison]] = {}
    for each in compared:
        settings = ", ".join(named(name, value) for name, value in each.alike.items() if name in differing)
        groups.setdefault((settings, each.measure, *each.names, _outcome(each)), []).append(each)
    return [(settings, group) for (settings, *_), group in groups.items()]


def _outcome(comparison: Comparison) -> str:
    return comparison.verdict.replace("below the noise", "undecided")


def _sentence(settings: str, group: Sequence[Comparison]) -> str:
    first = group[0]
    other, base = first.names
    where = _pairs([each.alike for each in group]) + (f", {settings}" if settings else "")
    if _outcome(first) == "undecided":
        return f"{other} and {base} cannot be told apart{where}"
    if first.verdict == "no interval":
        times = "once" if min(first.n) < 2 else "twice"
        return f"{other} and {base} were measured {times}{where}: repeat them to compare them"
    return f"{first.measured.name} of {other} is {_size(group)} than of {base}{where}"


def _pairs(alike: Sequence[Mapping[str, Any]]) -> str:
    """ " at 2, 5 and 10 pairs", or nothing where the pairs are what is compared."""
    counts = sorted({cell["pairs"] for cell in alike if "pairs" in cell})
    if not counts:
        return ""
    *others, last = map(str, counts)
    return f" at {', '.join(others)}{' and ' * bool(others)}{last} pair{'s' * (last != '1')}"


def _size(group: Sequence[Comparison]) -> str:
    """By how much, over all of the group; of one comparison, with its interval."""
    word = "higher" if group[0].change > 0 else "lower"
    least, *_, most = [*map(_number, sorted(abs(each.change) for each in group))] * 2
    if len(group) > 1:
        return f"{least if least == most else f'{least} to {most}'} % {word}"
    low, high = map(_number, sorted((abs(group[0].low), abs(group[0].high))))
    return f"{least} % {word} ({CONFIDENCE * 100:.0f} % interval {low} to {high} %)"


def _number(percent: float) -> str:
    return f"{percent:.1f}" if percent < 10 else f"{percent:,.0f}"
