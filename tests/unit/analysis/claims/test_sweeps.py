"""Each claim has a shipped sweep that measures the cells of its effect, under the conditions that a sweep sets."""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from pairlab import paths
from pairlab.analysis import allocations
from pairlab.analysis.claims import conditions, contrasts, ledger, run_table
from pairlab.analysis.claims.cells import rows
from pairlab.analysis.repetitions import COMPUTED, QUANTITIES, Attempts
from pairlab.batch import sweep_file
from pairlab.errors import NotMeasured
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import registry

#: Claims whose cells no shipped sweep has, and why. Their verdict is "not measured" whatever is measured.
_BY_HAND = ("virtual-process-below-physical", "virtual-overlay-below-physical-process", "physical-overlay-as-process")
WITHOUT_A_SWEEP = dict.fromkeys(
    (*_BY_HAND, "virtual-overlays-drop"),
    "hosts that are physical and virtual machines: those of a sweep share one kernel",
)
#: Of a machine on which a sweep is measured: busy loops for each CPU, and containers for each core, are by it.
CPUS = (2, 4, 8)
REPETITIONS = 2


def made_up(spec: Spec, cpus: int, repetition: int) -> dict:
    """A row as of run_table, of a run of that cell on machines of their own, as a paper's."""
    workload = registry.workloads.get(spec.workload)
    computes = workload.name.removeprefix("stress-ng-") if workload.name.startswith("stress-ng-") else ""
    values = {name: 1.0 for name in QUANTITIES if not name.endswith("fcts_s")}
    values |= {name: np.linspace(1.0, 2.0, 200) for name in QUANTITIES if name.endswith("fcts_s")}
    values |= {
        name: 1.0 if computes and (computes == "cpu") == (name == "calculation_s") else np.nan for name in COMPUTED
    }
    values["total_bps"] = np.nan if computes else 1.0
    return {
        **{name: getattr(spec, name) for name in run_table.SETTING if name != "ends"},
        "ends": spec.flows_end,
        "repetition": repetition,
        "duration_s": spec.duration_s,
        "control_in_force": "cubic",
        "attempts": Attempts(0, 1),
        "run": Run(spec, "ok"),
        "datapath": "system",
        "cores_used": float(spec.cores or cpus),
        "containers_per_core": 2 * spec.pairs / (spec.cores or cpus),
        "loops_per_cpu": spec.interference_workers * spec.interference_load / cpus,
        "allocation": allocations.of(spec),
        "known_as": allocations.known_as(spec.driver, spec.hosts),
        "host_kinds": "machine",
        "virtualization": "",
        "udp_lost": 0.0,
        "transacts": "transactions" in workload.features or workload.all_connect,
        "flows": spec.pairs,
        "failed_flows": 0,
        **values,
    }


@functools.cache
def systems(cpus: int) -> list[tuple[set[str], pd.DataFrame]]:
    """What each shipped sweep measures of each backend and workload, where nothing is missing; with its experiments."""
    found = []
    for file in sorted(paths.SWEEPS.glob("*.yaml"), key=lambda file: file.stem.endswith("-small")):
        sweep = sweep_file.load(file).with_auto(dict.fromkeys(registry.backends.names(), "iperf"))
        for backend in ("netns", "docker"):
            if any(backend in (grid.backends or [backend]) for grids in sweep.experiments.values() for grid in grids):
                cells = [spec for spec in sweep_file.rules(sweep, backend) if run_table._is_of_claims(spec)]
                made = [made_up(spec, cpus, number) for spec in cells for number in range(REPETITIONS)]
                parts = [part for _, part in pd.DataFrame(made).groupby("workload")] if made else []
                found += [(set(part["experiment"]), part) for part in parts]
    return found


def lacks(claim: ledger.Claim) -> Iterator[str]:
    """What is missing or not met in each sweep that has an experiment of the claim, in words; empty in one that can."""
    for experiment in filter(None, (claim.effect.of["experiment"], claim.instead)):
        effect = claim.effect.model_copy(update={"of": {**claim.effect.of, "experiment": experiment}})
        for cpus in CPUS:
            for experiments, system in systems(cpus):
                if not experiments.issuperset(effect.experiments):
                    continue
                mine = system[system["experiment"].isin(effect.experiments)]
                mine = conditions.under(mine[rows(mine, effect.aside)], claim.requires)
                try:
                    found = contrasts.find(effect, mine)
                except NotMeasured as error:
                    yield str(error)
                else:
                    unmet = conditions.unmet(claim.requires, mine, effect.drivers, found.points)
                    yield "; ".join(each.why for each in unmet)


@pytest.mark.parametrize("claim", ledger.load(), ids=lambda claim: claim.id)
def test_a_shipped_sweep_measures_the_cells_of_each_claim(claim):
    measured = any(not why for why in lacks(claim))
    assert measured != (claim.id in WITHOUT_A_SWEEP), sorted(set(lacks(claim))) or "no sweep has its experiments"
