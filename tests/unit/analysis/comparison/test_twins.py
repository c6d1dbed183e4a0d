"""Twins: what a cell that was measured twice in each block differs by, no verdict may rest on."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis.claims import verdicts
from pairlab.analysis.comparison.compute import compare
from pairlab.analysis.comparison.twins import Conditions, Twins
from pairlab.statistics import power
from pairlab.store.dataset import Runs
from tests.support.claimed import cells_of, claim_of
from tests.support.synthetic import run

UNDER = Conditions("throughput", "netns", "flowgen", 1)


def rate(made):
    return made.total_throughput_bps


def beside(differences, *, pairs=1, **spec):
    """A bridge and its twin, whose logarithm is so much more in each block."""
    rates = {number: 10 * np.exp(0.5 * np.sin(number)) for number in range(len(differences))}  # blocks differ far more
    return [
        run([rates[number] * np.exp(more) / pairs] * pairs, driver="bridge", repetition=number, twin=twin, **spec)
        for number, difference in enumerate(differences)
        for twin, more in ((False, 0.0), (True, difference))
    ]


def test_the_floor_is_that_of_the_differences_within_blocks():
    differences = [0.02, -0.04, 0.02, -0.01]
    floor = Twins(beside(differences)).floor([UNDER], rate, 5)
    assert floor.spread == pytest.approx(np.sqrt(np.mean(np.square(differences))))
    assert floor.effect == pytest.approx(power.smallest_detectable(floor.spread, 5, paired=True))
    half = Twins(beside(differences)).floor([UNDER], rate, 5, gain=np.sqrt(2) / 2)
    assert half.spread == pytest.approx(floor.spread / 2)


@pytest.mark.parametrize(
    ("under", "repetitions"),
    [
        (UNDER._replace(pairs=2), 5),
        (UNDER._replace(workload="iperf"), 5),
        (UNDER._replace(backend="docker"), 5),
        (UNDER._replace(experiment="fct"), 5),
        (UNDER, 1),
    ],
)
def test_twins_under_other_conditions_say_nothing(under, repetitions):
    twins = Twins(beside([0.02, -0.04]))
    assert twins.floor([UNDER], rate, 2)
    assert twins.floor([under], rate, repetitions) is None
    assert twins.floor([UNDER, under], rate, repetitions) is None


def test_twins_of_another_kernel_or_host_say_nothing():
    here = beside([0.02, -0.04])
    elsewhere = [
        replace(made, facts={**made.facts, "host": {"cpu_model": "a CPU", "cpus": 2, "kernel": "7.0"}})
        for made in beside([0.3, -0.3])
    ]
    quiet, noisy = (Twins(runs).floor([UNDER], rate, 5) for runs in (here, elsewhere))
    places = {run.environment.place() for run in here}
    both = Twins([*here, *elsewhere])
    assert both.floor([UNDER], rate, 5, places=places) == quiet
    assert quiet.effect < both.floor([UNDER], rate, 5).effect < noisy.effect


def test_the_loopback_by_two_names_is_a_twin_in_namespaces_on_one_host_only():
    def named(**spec):
        return [
            run([rate * 10], driver=driver, repetition=number, **spec)
            for number, times in enumerate((1.02, 0.97))
            for driver, rate in (("host", 1.0), ("process", times))
        ]

    assert Twins(named()).floor([UNDER], rate, 5).spread == pytest.approx(np.sqrt(np.mean(np.log([1.02, 0.97]) ** 2)))
    assert Twins(named(backend="docker")).floor([UNDER._replace(backend="docker")], rate, 5) is None
    assert Twins(named(hosts=2, placement="across")).floor([UNDER], rate, 5) is None


def test_a_twin_of_another_block_or_whose_cell_failed_is_none():
    cell, twin, other, another = beside([0.02, 0.03])
    assert Twins([cell, another]).floor([UNDER], rate, 5) is None
    assert Twins([cell, twin, another]).floor([UNDER], rate, 5) is None
    assert Twins([cell, twin, other, another]).floor([UNDER], rate, 5)


def macvlan(times, count=4):
    return [
        run([10 * times * np.exp(0.5 * np.sin(number))], driver="macvlan", repetition=number) for number in range(count)
    ]


@pytest.mark.parametrize(("apart", "verdict"), [(0.002, "better"), (0.2, "below the noise")])
def test_a_difference_no_larger_than_that_of_twins_is_below_the_noise(apart, verdict):
    runs = [*beside([apart, -apart, apart, -apart]), *macvlan(1.05)]
    (found,) = compare(runs, by="driver")
    assert found.change == pytest.approx(5)
    assert found.verdict == verdict
    (equals,) = compare(runs, by="twin")
    assert equals.verdict == "undecided"


@pytest.mark.parametrize(("apart", "verdict"), [(0.0001, "holds"), (0.2, "undecided")])
def test_a_claim_is_decided_only_by_more_than_twins_differ(apart, verdict):
    cells = cells_of("drivers_change", 0.08, 0.001)
    base = [made for made in cells if made.spec.driver == claim_of("drivers_change").effect.over["driver"]]
    twins = []
    for number, made in enumerate(base):
        sign = 1 if number % 2 else -1
        flows = made.flows.assign(throughput_bps=made.flows["throughput_bps"] * np.exp(sign * apart))
        twins.append(replace(made, spec=made.spec.replace(twin=True), flows=flows))
    found = verdicts.evaluate(Runs((*cells, *twins)), claims=[claim_of("drivers_change")], calibrations={})
    assert found.iloc[0]["verdict"] == verdict
    assert found.iloc[0]["value"] == pytest.approx(100 * np.expm1(0.08), rel=0.02)  # twins are in no estimate
