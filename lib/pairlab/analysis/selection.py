"""Which runs answer a question, and what is said where there are none: a gap with a name, not an error."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from pairlab.collection import Runs, load_runs
from pairlab.errors import NoRuns
from pairlab.records import TABLES
from pairlab.spec import Spec

#: What the papers left alone, and the experiments beyond them vary.
BEYOND = (
    "flows_per_pair",
    "message_bytes",
    "udp_share",
    "udp_rate_bps",
    "congestion_control",
    "cores",
    "pinning",
    "cpu_quota",
    "cpu_shares",
    "link_rate_bps",
    "link_loss",
)


class Selection(NamedTuple):
    """The runs of one question (none where there is a gap), and why there is no run that counts ("" where some do)."""

    runs: Runs
    gap: str


def plain(spec: Spec) -> bool:
    """Whether a run is as the papers' are: nothing in it that only experiments beyond them vary."""
    return all(getattr(spec, name) == Spec.model_fields[name].default for name in BEYOND)


def select(
    runs: str,
    *,
    experiment: str | Sequence[str],
    sweep: str = "",
    which: Callable[[Spec], bool] = lambda spec: True,
) -> Selection:
    """The runs of one experiment (or of several) below `runs`, of one sweep, if named, whose spec `which` accepts.

    Without any that counts, the gap says so: analysis notebooks must work on what there is. Raises what load_runs
    raises but NoRuns.
    """
    names = (experiment,) if isinstance(experiment, str) else tuple(experiment)
    what = " and ".join(map(repr, names))
    try:
        loaded = load_runs(runs, experiment=names, sweep=sweep)
    except NoRuns as error:
        unread = str(error) if "left out" in str(error) else ""  # damaged, or newer: that is another gap than none
        return Selection(Runs((), experiments=names), unread or f"there are no runs of {what}")
    return among(loaded, which, what)


def among(loaded: Runs, which: Callable[[Spec], bool], what: str) -> Selection:
    """Those of loaded runs whose spec `which` accepts; without any that counts, the gap says that of `what`.

    What is made of several parts has the origin of the whole: load it together, and take the parts from it.
    """
    found = loaded.where(lambda run: which(run.spec))
    if any(run.status == "ok" for run in found):
        return Selection(found, "")
    if len(found):
        return Selection(found, f"none of the {len(found)} runs of {what} counts: {_reasons(found)}")
    return Selection(found, f"there are no runs of {what} as this question needs them")


def asked(name: str) -> str:
    """The column of Runs.flows that holds what the spec asks for: asked_<name> where the flows have their own."""
    return f"asked_{name}" if name in TABLES["flows"] else name


def flows_of(runs: Runs) -> pd.DataFrame:
    """Runs.flows; where no run counts, a frame with the same columns and no rows, on which summaries come out empty."""
    if any(run.status == "ok" for run in runs):
        return runs.flows
    return pd.DataFrame(columns=["key", *map(asked, Spec.model_fields), *TABLES["flows"]])


def _reasons(runs: Runs) -> str:
    return "; ".join(sorted(set(runs.index["reasons"])))
