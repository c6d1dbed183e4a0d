"""The runs that claims read, each reduced to one row (repetitions.py), with all factors that distinguish settings."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import pandas as pd

from pairlab.analysis import repetitions, selection
from pairlab.analysis.repetitions import FACTORS, QUANTITIES
from pairlab.analysis.selection import as_in_papers
from pairlab.model import blocks
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs

#: Factors that the papers mention but did not vary, with the experiments that may: a claim that does not name such a
#: factor reads only runs with its default.
FACTORS_BESIDE_PAPERS = {
    "flows_per_pair": ("throughput",),
    "cpu_quota_of_fair_share": ("throughput",),
    "udp_share": ("udp", selection.MODES, selection.CONTAINERS, "cpu-overhead", *selection.BETWEEN),
    "udp_rate_bps": ("udp",),
}
_VARIED = {name for varied in selection.VARIED_BY.values() for name in varied}
#: A setting: runs that differ only in the repetition measure the same thing. Of the fields that experiments vary, no
#: claim reads clients that start apart, and one that does not name limited_uplinks reads only its default.
SETTING = (
    *("experiment", *selection.CELL, "congestion_control", *FACTORS_BESIDE_PAPERS, "ends"),
    *sorted(_VARIED - {*FACTORS_BESIDE_PAPERS, "start_spacing_s", "limited_uplinks"}),
)


def reduce(
    runs: Iterable[Run],
    wanted: Mapping[str, Collection[str]] | None = None,
    named: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """One row per run that counts, with clients that start together, and only plain values beside its congestion
    control, FACTORS_BESIDE_PAPERS, and fields that claims name; of a user's own experiment, every run that counts.

    wanted: by experiment, the QUANTITIES to read, as reading tables takes most of the time; None: all. named: by
    experiment, the fields of Spec beyond SETTING that claims name. Columns: SETTING, these fields and those by which
    runs of own experiments differ, run, repetition, block, the spec's duration_s, FACTORS, transacts, flows,
    failed_flows, QUANTITIES; a value that a run lacks is NaN. Raises AnalysisError if two runs claim one repetition of
    a setting, or runs of one experiment and system may not be compared (selection.check_alike).
    """
    runs = tuple(runs)
    counted = [run for run in runs if run.status == "ok" and _is_of_claims(run.spec, named)]
    own = [run for run in counted if selection.is_own(run.spec.experiment)]
    of_papers = [run for run in counted if not selection.is_own(run.spec.experiment)]
    fields = {name for each in named.values() for name in each}
    selection.check_alike(of_papers, also=("congestion_control", *FACTORS_BESIDE_PAPERS, *fields))
    selection.check_alike(own, also=selection.CONDITIONS)
    fields |= {name for name in selection.CONDITIONS if len({getattr(run.spec, name) for run in own}) > 1}
    setting = (*SETTING, *sorted(fields - {*SETTING, "duration_s"}))
    quantities = dict.fromkeys((run.spec.experiment for run in counted), QUANTITIES) if wanted is None else wanted
    attempts = repetitions.attempts_by((_cell(run, setting), run) for run in runs if run.status in ("ok", "invalid"))
    rows = [
        {**_row(run, quantities.get(run.spec.experiment, ()), setting), "attempts": attempts[_cell(run, setting)]}
        for run in counted
    ]
    frame = pd.DataFrame(rows, columns=None if rows else [*setting, "key", "repetition"])
    texts = frame.columns[[pd.api.types.is_string_dtype(kind) for kind in frame.dtypes]]
    frame = frame.astype(dict.fromkeys(texts, object))  # a third of the columns, which as Arrow's are slow to select
    distinct_by = [*setting, *({"duration_s"} & fields)]
    selection.check_distinct(frame, distinct_by, lambda: Runs(tuple(counted)).counted("flows"))
    return frame.drop(columns="key").copy()


def _is_of_claims(spec: Spec, named: Mapping[str, Collection[str]] = MappingProxyType({})) -> bool:
    if selection.is_own(spec.experiment):
        return not spec.twin
    free = [name for name, experiments in FACTORS_BESIDE_PAPERS.items() if spec.experiment in experiments]
    free += ["congestion_control", *named.get(spec.experiment, ())]
    usual = {name: Spec.model_fields[name].default for name in free}
    return not spec.start_spacing_s and as_in_papers(spec.model_copy(update=usual))


def _cell(run: Run, setting: Collection[str]) -> tuple:
    return tuple(getattr(run.spec, name, None) for name in setting)


def _row(run: Run, wanted: Collection[str], setting: Collection[str]) -> dict:
    spec = run.spec.model_dump(include={*setting, "repetition", "duration_s"})
    fields = {name: spec[name] for name in (*setting, "repetition", "duration_s") if name in spec}
    factors = {name: factor.of(run) for name, factor in FACTORS.items()}
    return {
        **fields,
        "key": run.key,
        "run": run,
        "block": blocks.label_of(run),
        **factors,
        **repetitions.values(run, wanted),
    }
