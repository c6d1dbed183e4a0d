"""The runs that can answer a question, and the number of the others by reason."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pairlab.analysis import selection
from pairlab.analysis.advice.question import Question, filters
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec

#: Fields of a spec that may differ in runs of a network's cost; each is named if it is not the default.
CONDITIONS = ("congestion_control", "udp_share", "message_bytes", "request_bytes", "response_bytes", "launches")
_PLACE = ("hosts", "placement")
#: Fields that are not of a network alone: limits, other load, other lengths of flows.
_LEFT_ALONE = tuple(name for name in selection.NOT_IN_PAPERS if name not in (*CONDITIONS, *_PLACE, "twin"))
_UNASKED = "have other load, limits or options: "


class LeftOut(NamedTuple):
    """Runs behind no number, and why, as a clause. ask: the filters that would include them; empty: none does."""

    why: str
    runs: tuple[Run, ...]
    ask: tuple[str, ...] = ()

    def __str__(self) -> str:
        ask = f" ({' '.join(self.ask)} asks for such)" if self.ask else ""
        return f"{len(self.runs):,} {self.why}{ask}"


def kind(run: Run) -> str:
    """The kind of a run, as Criterion.of."""
    if run.spec.launches:
        return "launch"
    return "requests" if latencies.measured(run.columns("flows", ["transactions"])) else "bulk"


def is_default(name: str, value: object) -> bool:
    return bool(value == Spec.model_fields[name].default)


def unasked(spec: Spec, question: Question) -> tuple[str, ...]:
    """The limits and other load of a run that the question does not name."""
    return tuple(
        name for name in _LEFT_ALONE if name not in question.where and not is_default(name, getattr(spec, name))
    )


def why_not(run: Run, question: Question, networks: Collection[tuple[str, str]]) -> str:
    """Why a run with the values of the question's filters cannot answer it, as a clause; empty: it can.

    networks: backend and driver of the answer's networks. A round of messages between all containers is neither a
    transfer nor a request, and bulk transfers in messages of a given size measure a sender's calls, not a network.
    """
    spec = run.spec
    if run.status != "ok":
        return f"are {run.status}"
    if spec.twin:
        return "are twins: they show how far equals differ, and no number is of them"
    if (spec.backend, spec.driver) not in networks:
        return "are of networks or backends that the answer is not about"
    if (spec.hosts > 1) != (question.hosts > 1):
        return "are within one host" if question.hosts > 1 else "are between several hosts"
    if spec.flows_end:
        return "have flows that end by themselves"
    if spec.experiment == "all-to-all":
        return "have rounds of messages between all containers"
    if spec.udp_share not in (0, 1) and "udp_share" not in question.where:
        return "send TCP and UDP at once"
    if names := unasked(spec, question):
        return _UNASKED + ", ".join(names)
    if spec.message_bytes and "message_bytes" not in question.where and kind(run) == "bulk":
        return "have bulk transfers in messages of a given size"
    return ""


def left_out(reasons: Iterable[tuple[Run, str]], question: Question) -> list[LeftOut]:
    """The runs by reason, most runs first."""
    by_reason: dict[str, list[Run]] = {}
    for run, why in reasons:
        by_reason.setdefault(why, []).append(run)
    groups = [
        LeftOut(why, tuple(runs), _ask(runs, question) if why.startswith(_UNASKED) else ())
        for why, runs in by_reason.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.runs), group.why))


def _ask(runs: Sequence[Run], question: Question) -> tuple[str, ...]:
    """The filters that would include the first of these runs, which all have the same kinds of limits and load."""
    spec = runs[0].spec
    return tuple(filters({name: [getattr(spec, name)] for name in unasked(spec, question)}))
