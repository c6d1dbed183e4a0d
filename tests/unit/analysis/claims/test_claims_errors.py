"""How often verdicts are wrong: on cells without a difference, and at the edge of a margin."""

import numpy as np
import pandas as pd
import pytest

from pairlab.analysis.claims import contrasts, judgement, run_table
from pairlab.analysis.claims import effect as effects
from pairlab.analysis.repetitions import Attempts
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.statistics.intervals import PERCENT, Student
from tests.support.claimed import CASES, cells_of, claim_of, rare

RUN = Run(Spec(), "ok")
KINDS = sorted(set(CASES) - {"percentile_change", "share"})


def simulated(name):
    """Every sixth is of the whole, the others are for `make soak`: hundreds of tables each."""
    return pytest.param(name, marks=pytest.mark.whole if name in KINDS[::6] else pytest.mark.long)


@pytest.mark.parametrize("name", [simulated(name) for name in KINDS])
def test_verdicts_on_cells_without_a_difference_are_rarely_wrong(name):
    """Every run has noise of its own, and those of a repetition share some: flows are no independent samples."""
    claim, tries, wrong = claim_of(name, margin=1e-6), 300, 0
    even = run_table.reduce(cells_of(name, 0.0, 0.0, repetitions=4))
    columns = [column for column in claim.effect.columns if column.endswith(("_bps", "_s")) and column != "fcts_s"]
    random = np.random.default_rng(3)
    for _ in range(tries):
        drift = random.normal(0, 0.1, 4)[even["repetition"]]
        factors = np.exp(drift + random.normal(0, 0.05, len(even)))
        frame = even.assign(spearman_z=np.log(factors), **{column: even[column] * factors for column in columns})
        wrong += judgement.judge(claim, contrasts.find(claim.effect, frame))["verdict"] == "holds"
    assert wrong / tries < rare(tries)


def flows_of_one_distribution(random, repetitions, spread):
    rows = []
    for repetition in range(repetitions):
        for pairs in (10, 50):
            fcts = np.exp(random.normal(0, 0.3, pairs) + random.normal(0, spread))
            row = {"experiment": "fct", "driver": "bridge", "pairs": pairs, "repetition": repetition, "fcts_s": fcts}
            row |= {"ends": True, "transacts": False}
            rows.append(row | {"flows": pairs, "failed_flows": 0, "run": RUN, "attempts": Attempts(0, 1)})
    return pd.DataFrame(rows)


@pytest.mark.whole
@pytest.mark.parametrize("spread", [0, 0.2])  # of repetitions as a whole: flows of one are no independent samples
def test_equal_percentiles_of_clustered_flows_are_rarely_called_different(spread):
    random, tries = np.random.default_rng(1), 150
    of = {"experiment": "fct", "driver": "bridge", "pairs": 50}
    effect = {"quantity": "fct_p99_s", "of": of, "over": {"pairs": 10}}
    claim, verdicts = claim_of("percentile_change", margin=1e-6, effect=effect), []
    for _ in range(tries):
        found = contrasts.find(claim.effect, flows_of_one_distribution(random, 10, spread))
        verdicts.append(judgement.judge(claim, found)["verdict"])
    assert verdicts.count("holds") / tries < rare(tries)
    assert verdicts.count("contradicted") / tries < rare(tries)


def test_equality_is_rarely_found_at_the_edge_of_its_margin():
    random, tries, wrong = np.random.default_rng(2), 400, 0
    claim = claim_of("drivers_change", claimed="equal", margin=10.0)
    for _ in range(tries):
        values = np.log(1.1) + random.normal(0, 0.02, 5)
        wrong += judgement.judge(claim, effects.Found(Student.of(values, PERCENT), "made up"))["verdict"] == "holds"
    assert wrong / tries < rare(tries)
